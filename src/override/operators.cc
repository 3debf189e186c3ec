// override/operators.cc - L11. The C++ operators new and delete, all forms.
//
// Plain and aligned new and delete are ours; every other form does what the standard says that it does by default: it
// calls one of those, through the dynamic symbol, so that a program which replaces only some of them is served by its
// own. (A weak definition gives way to the program's when it is linked statically.)
//
// What new needs of the C++ runtime when memory is out is the program's new-handler, and a way to throw. The shared
// library is preloaded into C programs too, which have no runtime: there (HK_WEAK_RUNTIME=1) the references are weak,
// and a runtime that came later, with a plugin, is asked for by name. In the static library they are ordinary: only a
// program that uses new pulls this file in.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "hakmem/hakmem.h"

#if HK_WEAK_RUNTIME
#include <dlfcn.h>
#define RUNTIME __attribute__((weak))
asm(".weak __gxx_personality_v0\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak _Unwind_Resume\n"
    ".weak _ZSt9terminatev\n");
#else
#define RUNTIME
#endif

#define OPERATOR __attribute__((visibility("default"), weak))

namespace std {
RUNTIME new_handler get_new_handler() noexcept;
RUNTIME void __throw_bad_alloc();  // libstdc++'s own way to throw std::bad_alloc from outside its headers
}  // namespace std

extern "C" {
// Our own definitions, whatever the program binds the operators to.
__attribute__((alias("_Znwm"), visibility("hidden"), malloc, alloc_size(1))) void *hk_own_new(std::size_t size);
__attribute__((alias("_Znam"), visibility("hidden"), malloc, alloc_size(1))) void *hk_own_new_array(std::size_t size);
}

namespace {

using new_t = void *(*)(std::size_t);

// What the dynamic linker bound the names to. Volatile: the compiler must not conclude that it is what stands below.
new_t const volatile bound_new = static_cast<new_t>(&::operator new);
new_t const volatile bound_new_array = static_cast<new_t>(&::operator new[]);

// ---- When memory is out.

#if HK_WEAK_RUNTIME
void *runtime_symbol(const char *name) {
  void *runtime = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return runtime != nullptr ? dlsym(runtime, name) : nullptr;
}

std::new_handler new_handler() {
  if (std::get_new_handler != nullptr) return std::get_new_handler();
  void *get = runtime_symbol("_ZSt15get_new_handlerv");
  return get != nullptr ? reinterpret_cast<std::new_handler (*)()>(get)() : nullptr;
}

void throw_bad_alloc() {
  if (std::__throw_bad_alloc != nullptr) std::__throw_bad_alloc();
  void *thrower = runtime_symbol("_ZSt17__throw_bad_allocv");
  if (thrower != nullptr) reinterpret_cast<void (*)()>(thrower)();
  std::abort();  // nobody to throw to
}
#else
// Brings malloc and its kin out of the archive, for a program that uses new and none of the C library's names.
__attribute__((used)) void *(*const c_names)(std::size_t) = std::malloc;

std::new_handler new_handler() { return std::get_new_handler(); }
void throw_bad_alloc() { std::__throw_bad_alloc(); }
#endif

void *allocate(std::size_t size, std::size_t alignment) {
  return alignment == 0 ? hakmem_malloc(size) : hakmem_aligned_alloc(alignment, size);
}

// Runs the program's new-handler until there is memory; nullptr when it has none, or when no memory would help. A
// handler may throw.
__attribute__((noinline, cold)) void *retry(std::size_t size, std::size_t alignment) {
  if ((alignment & (alignment - 1)) != 0) return nullptr;
  for (;;) {
    std::new_handler handler = new_handler();
    if (handler == nullptr) return nullptr;
    handler();
    void *block = allocate(size, alignment);
    if (block != nullptr) return block;
  }
}

__attribute__((noinline, cold)) void *retry_or_throw(std::size_t size, std::size_t alignment) {
  void *block = retry(size, alignment);
  if (block == nullptr) throw_bad_alloc();
  return block;
}

__attribute__((noinline, cold)) void *retry_or_null(std::size_t size, std::size_t alignment) noexcept {
  try {
    return retry(size, alignment);
  } catch (...) {
    return nullptr;
  }
}

__attribute__((noinline, cold)) void *call_or_null(new_t replaced, std::size_t size) noexcept {
  try {
    return replaced(size);
  } catch (...) {
    return nullptr;
  }
}

// ---- The forms that are ours.

inline void *new_or_throw(std::size_t size, std::size_t alignment = 0) {
  void *block = allocate(size, alignment);
  return __builtin_expect(block != nullptr, 1) ? block : retry_or_throw(size, alignment);
}

inline void *new_or_null(std::size_t size, std::size_t alignment = 0) noexcept {
  void *block = allocate(size, alignment);
  return __builtin_expect(block != nullptr, 1) ? block : retry_or_null(size, alignment);
}

std::size_t bytes_of(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

OPERATOR void *operator new(std::size_t size) { return new_or_throw(size); }
OPERATOR void *operator new[](std::size_t size) { return ::operator new(size); }
OPERATOR void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
  new_t bound = bound_new;
  return __builtin_expect(bound == hk_own_new, 1) ? new_or_null(size) : call_or_null(bound, size);
}
OPERATOR void *operator new[](std::size_t size, const std::nothrow_t &nothrow) noexcept {
  new_t bound = bound_new_array;
  return __builtin_expect(bound == hk_own_new_array, 1) ? ::operator new(size, nothrow) : call_or_null(bound, size);
}

OPERATOR void *operator new(std::size_t size, std::align_val_t alignment) {
  return new_or_throw(size, bytes_of(alignment));
}
OPERATOR void *operator new[](std::size_t size, std::align_val_t alignment) { return ::operator new(size, alignment); }
OPERATOR void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return new_or_null(size, bytes_of(alignment));
}
OPERATOR void *operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t &nothrow) noexcept {
  return ::operator new(size, alignment, nothrow);
}

OPERATOR void operator delete(void *block) noexcept { hakmem_free(block); }
OPERATOR void operator delete[](void *block) noexcept { ::operator delete(block); }
OPERATOR void operator delete(void *block, std::size_t) noexcept { ::operator delete(block); }
OPERATOR void operator delete[](void *block, std::size_t) noexcept { ::operator delete[](block); }
OPERATOR void operator delete(void *block, const std::nothrow_t &) noexcept { ::operator delete(block); }
OPERATOR void operator delete[](void *block, const std::nothrow_t &) noexcept { ::operator delete[](block); }

OPERATOR void operator delete(void *block, std::align_val_t) noexcept { hakmem_free(block); }
OPERATOR void operator delete[](void *block, std::align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}
OPERATOR void operator delete(void *block, std::size_t, std::align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}
OPERATOR void operator delete[](void *block, std::size_t, std::align_val_t alignment) noexcept {
  ::operator delete[](block, alignment);
}
OPERATOR void operator delete(void *block, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  ::operator delete(block, alignment);
}
OPERATOR void operator delete[](void *block, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  ::operator delete[](block, alignment);
}
