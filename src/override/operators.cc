// override/operators.cc - L11. The C++ operators new and delete, all forms.
//
// The plain and the aligned new and delete are hakmem's. Every other form does what the standard says that it does by
// default: it calls one of those, through the dynamic symbol. So a program that replaces only some of them gets its own
// from the others too. (A weak definition gives way to the program's when it is linked statically.)
//
// Without memory, new needs the program's new-handler and a way to throw from the C++ runtime. The shared library is
// preloaded into C programs too, which have no runtime. There (HK_WEAK_RUNTIME=1) the references are weak, and the
// symbols of a runtime that a plugin has loaded later are looked up by name. In the static library the references are
// ordinary: only a program that uses new links this file.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "api/alloc.h"
#include "hakmem/hakmem.h"

#if HK_WEAK_RUNTIME
#include <dlfcn.h>
#define RUNTIME __attribute__((weak))
extern "C" RUNTIME int __gxx_personality_v0(...);
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
RUNTIME void __throw_bad_alloc();  // libstdc++'s function that throws std::bad_alloc outside its headers
}  // namespace std

extern "C" {
// This library's definitions, whatever the program binds the operators to.
__attribute__((alias("_Znwm"), visibility("hidden"), malloc, alloc_size(1))) void *hk_own_new(std::size_t size);
__attribute__((alias("_Znam"), visibility("hidden"), malloc, alloc_size(1))) void *hk_own_new_array(std::size_t size);
__attribute__((alias("_ZnwmSt11align_val_t"), visibility("hidden"), malloc, alloc_size(1))) void *hk_own_aligned_new(
    std::size_t size, std::align_val_t alignment);
__attribute__((alias("_ZnamSt11align_val_t"), visibility("hidden"), malloc, alloc_size(1))) void *
hk_own_aligned_new_array(std::size_t size, std::align_val_t alignment);
}

namespace {

using new_t = void *(*)(std::size_t);
using aligned_new_t = void *(*)(std::size_t, std::align_val_t);

// What the dynamic linker bound the names to. Volatile: the compiler must not conclude that they are the definitions
// below.
new_t const volatile bound_new = static_cast<new_t>(&::operator new);
new_t const volatile bound_new_array = static_cast<new_t>(&::operator new[]);
aligned_new_t const volatile bound_aligned_new = static_cast<aligned_new_t>(&::operator new);
aligned_new_t const volatile bound_aligned_new_array = static_cast<aligned_new_t>(&::operator new[]);

bool is_each_new_own() {
  return bound_new == hk_own_new && bound_new_array == hk_own_new_array && bound_aligned_new == hk_own_aligned_new &&
         bound_aligned_new_array == hk_own_aligned_new_array;
}

// Returns whether the block may be deleted with this size and alignment: hk_told_alignment_fits. A program's own new
// may have requested another size than it was given.
bool may_delete(void *block, std::size_t alignment, std::size_t size) {
  return !HK_HARDENED || !is_each_new_own() || hk_told_alignment_fits(block, alignment, size);
}

// ---- Without memory.

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
  std::abort();  // without a runtime no code can catch
}
#else
// Links malloc and the other C names from the archive, for a program that uses new alone.
__attribute__((used)) void *(*const c_names)(std::size_t) = std::malloc;

std::new_handler new_handler() { return std::get_new_handler(); }
void throw_bad_alloc() { std::__throw_bad_alloc(); }
#endif

void *allocate(std::size_t size, std::size_t alignment) {
  return alignment == 0 ? hakmem_malloc(size) : hakmem_aligned_alloc(alignment, size);
}

// Runs the program's new-handler until there is memory. Returns nullptr when there is no handler, or the alignment is
// invalid. A handler may throw.
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

#if HK_WEAK_RUNTIME
// A catch works only where the runtime was there when this library was loaded. A later runtime's own nothrow form calls
// the plain or the aligned new, which are this library's, and catches what they throw. Volatile: clang takes the
// function for one that is always there.
int (*const volatile catcher)(...) = &__gxx_personality_v0;
bool can_catch() { return catcher != nullptr; }

void *new_by_runtime(std::size_t size, std::size_t alignment) {
  const std::nothrow_t nothrow{};
  using plain_t = void *(*)(std::size_t, const std::nothrow_t &);
  using aligned_t = void *(*)(std::size_t, std::align_val_t, const std::nothrow_t &);
  void *form = runtime_symbol(alignment == 0 ? "_ZnwmRKSt9nothrow_t" : "_ZnwmSt11align_val_tRKSt9nothrow_t");
  if (form == nullptr) return nullptr;  // there is no handler either
  if (alignment == 0) return reinterpret_cast<plain_t>(form)(size, nothrow);
  return reinterpret_cast<aligned_t>(form)(size, static_cast<std::align_val_t>(alignment), nothrow);
}
#else
bool can_catch() { return true; }
void *new_by_runtime(std::size_t, std::size_t) { return nullptr; }
#endif

__attribute__((noinline, cold)) void *retry_or_null(std::size_t size, std::size_t alignment) noexcept {
  if (!can_catch()) return new_by_runtime(size, alignment);
  try {
    return retry(size, alignment);
  } catch (...) {
    return nullptr;
  }
}

template <typename... Alignment>
__attribute__((noinline, cold)) void *call_or_null(void *(*replaced)(std::size_t, Alignment...), std::size_t size,
                                                   Alignment... alignment) noexcept {
  try {
    return replaced(size, alignment...);
  } catch (...) {
    return nullptr;
  }
}

// ---- The forms that allocate.

inline void *new_or_throw(std::size_t size, std::size_t alignment) {
  void *block = allocate(size, alignment);
  return __builtin_expect(block != nullptr, 1) ? block : retry_or_throw(size, alignment);
}

inline void *new_or_null(std::size_t size, std::size_t alignment = 0) noexcept {
  void *block = allocate(size, alignment);
  return __builtin_expect(block != nullptr, 1) ? block : retry_or_null(size, alignment);
}

// A function of its own: the plain new calls it last, and needs no frame.
__attribute__((noinline)) void *new_slowly(std::size_t size) {
  void *block = hk_alloc_slow(size);
  return __builtin_expect(block != nullptr, 1) ? block : retry_or_throw(size, 0);
}

std::size_t bytes_of(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

// What the plain and the aligned new do, without an exception. An array form calls the other one of its own.
inline void *plain_or_null(std::size_t size) noexcept {
  new_t bound = bound_new;
  return __builtin_expect(bound == hk_own_new, 1) ? new_or_null(size) : call_or_null(bound, size);
}

inline void *aligned_or_null(std::size_t size, std::align_val_t alignment) noexcept {
  aligned_new_t bound = bound_aligned_new;
  bool is_own = bound == hk_own_aligned_new;
  return __builtin_expect(is_own, 1) ? new_or_null(size, bytes_of(alignment)) : call_or_null(bound, size, alignment);
}

}  // namespace

OPERATOR void *operator new(std::size_t size) {
  void *block = hk_alloc_fast(size);
  return __builtin_expect(block != nullptr, 1) ? block : new_slowly(size);
}
OPERATOR void *operator new[](std::size_t size) { return ::operator new(size); }
OPERATOR void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return plain_or_null(size); }
OPERATOR void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
  new_t bound = bound_new_array;
  return __builtin_expect(bound == hk_own_new_array, 1) ? plain_or_null(size) : call_or_null(bound, size);
}

OPERATOR void *operator new(std::size_t size, std::align_val_t alignment) {
  return new_or_throw(size, bytes_of(alignment));
}
OPERATOR void *operator new[](std::size_t size, std::align_val_t alignment) { return ::operator new(size, alignment); }
OPERATOR void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return aligned_or_null(size, alignment);
}
OPERATOR void *operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  aligned_new_t bound = bound_aligned_new_array;
  bool is_own = bound == hk_own_aligned_new_array;
  return __builtin_expect(is_own, 1) ? aligned_or_null(size, alignment) : call_or_null(bound, size, alignment);
}

OPERATOR void operator delete(void *block) noexcept { hk_free(block); }
OPERATOR void operator delete[](void *block) noexcept { ::operator delete(block); }
OPERATOR void operator delete(void *block, std::size_t size) noexcept {
  if (may_delete(block, HK_BLOCK_ALIGNMENT, size)) ::operator delete(block);
}
OPERATOR void operator delete[](void *block, std::size_t size) noexcept {
  if (may_delete(block, HK_BLOCK_ALIGNMENT, size)) ::operator delete[](block);
}
OPERATOR void operator delete(void *block, const std::nothrow_t &) noexcept { ::operator delete(block); }
OPERATOR void operator delete[](void *block, const std::nothrow_t &) noexcept { ::operator delete[](block); }

OPERATOR void operator delete(void *block, std::align_val_t) noexcept { hk_free(block); }
OPERATOR void operator delete[](void *block, std::align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}
OPERATOR void operator delete(void *block, std::size_t size, std::align_val_t alignment) noexcept {
  if (may_delete(block, bytes_of(alignment), size)) ::operator delete(block, alignment);
}
OPERATOR void operator delete[](void *block, std::size_t size, std::align_val_t alignment) noexcept {
  if (may_delete(block, bytes_of(alignment), size)) ::operator delete[](block, alignment);
}
OPERATOR void operator delete(void *block, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  ::operator delete(block, alignment);
}
OPERATOR void operator delete[](void *block, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  ::operator delete[](block, alignment);
}
