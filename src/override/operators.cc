// override/operators.cc - L11. The C++ operators new and delete, all forms.
//
// The plain and the aligned new and delete are hakmem's. Every other form does what the standard says that it does by
// default: it calls one of those, through the dynamic symbol. So a program that replaces only some of them gets its own
// from the others too. (A weak definition gives way to the program's when it is linked statically.)
//
// Without memory, new needs the program's new-handler and a way to throw from the C++ runtime. The shared library is
// preloaded into C programs too, which have no runtime. There (HK_WEAK_RUNTIME=1) the references are weak, and a
// runtime that a plugin has loaded later serves the request by its own form of new, which is looked up by name. In the
// static library the references are ordinary: only a program that uses new links this file.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "api/alloc.h"
#include "hakmem/hakmem.h"

#if HK_WEAK_RUNTIME
#include <dlfcn.h>

#include <cstdint>

#include "os/loaded_symbol.h"

#define RUNTIME __attribute__((weak))
extern "C" {
RUNTIME int __gxx_personality_v0(...);
extern HK_HIDDEN const char __ehdr_start[];  // the linker's name for the start of this module
}
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
// The runtime that a plugin has brought with it: a part of the plugin (-static-libstdc++), or the library. Returns the
// runtime's own form of an operator, which allocates by malloc, or by the plain or the aligned new; nullptr where there
// is no such runtime. `caller` is an address in the plugin.
void *form_of_late_runtime(const void *caller, const char *name) {
  Dl_info plugin;
  uintptr_t form = 0;
  bool is_found = dladdr(caller, &plugin) != 0 && plugin.dli_fbase != __ehdr_start;
  if (is_found) form = hk_loaded_symbol_find(reinterpret_cast<uintptr_t>(plugin.dli_fbase), name);
  if (form != 0) return reinterpret_cast<void *>(form);
  void *runtime = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return runtime != nullptr ? dlsym(runtime, name) : nullptr;
}

template <typename... More>
void *call_late_runtime(const void *caller, const char *name, std::size_t size, More... more) {
  void *form = form_of_late_runtime(caller, name);
  return form != nullptr ? reinterpret_cast<void *(*)(std::size_t, More...)>(form)(size, more...) : nullptr;
}

void *throwing_new_of_late_runtime(const void *caller, std::size_t size, std::size_t alignment) {
  if (alignment == 0) return call_late_runtime(caller, "_Znwm", size);
  return call_late_runtime(caller, "_ZnwmSt11align_val_t", size, static_cast<std::align_val_t>(alignment));
}

void *nothrow_new_of_late_runtime(const void *caller, std::size_t size, std::size_t alignment) {
  const std::nothrow_t nothrow{};
  if (alignment == 0) return call_late_runtime<const std::nothrow_t &>(caller, "_ZnwmRKSt9nothrow_t", size, nothrow);
  return call_late_runtime<std::align_val_t, const std::nothrow_t &>(caller, "_ZnwmSt11align_val_tRKSt9nothrow_t", size,
                                                                     static_cast<std::align_val_t>(alignment), nothrow);
}

// A catch works only where the runtime was there when this library was loaded. Volatile: clang takes the function for
// one that is always there.
int (*const volatile catcher)(...) = &__gxx_personality_v0;
bool can_catch() { return catcher != nullptr; }
bool can_throw() { return std::__throw_bad_alloc != nullptr; }

std::new_handler new_handler() { return std::get_new_handler != nullptr ? std::get_new_handler() : nullptr; }
#else
// Links malloc and the other C names from the archive, for a program that uses new alone.
__attribute__((used)) void *(*const c_names)(std::size_t) = std::malloc;

bool can_catch() { return true; }
bool can_throw() { return true; }
void *throwing_new_of_late_runtime(const void *, std::size_t, std::size_t) { return nullptr; }
void *nothrow_new_of_late_runtime(const void *, std::size_t, std::size_t) { return nullptr; }

std::new_handler new_handler() { return std::get_new_handler(); }
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

// The forms of new call this function and the next one last, so they return to the caller of new.
__attribute__((noinline, cold)) void *retry_or_throw(std::size_t size, std::size_t alignment) {
  void *block = nullptr;
  if (!can_throw()) {
    block = throwing_new_of_late_runtime(__builtin_return_address(0), size, alignment);
    if (block == nullptr) std::abort();  // without a runtime no code can catch
    return block;
  }
  block = retry(size, alignment);
  if (block == nullptr) std::__throw_bad_alloc();
  return block;
}

__attribute__((noinline, cold)) void *retry_or_null(std::size_t size, std::size_t alignment) noexcept {
  if (!can_catch()) return nothrow_new_of_late_runtime(__builtin_return_address(0), size, alignment);
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
