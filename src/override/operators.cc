// override/operators.cc - L7. The C++ operators new and delete, all forms.
//
// What new needs of the C++ runtime when memory is out: the program's new-handler, and a way to throw. The shared library is
// preloaded into C programs too, which have no runtime: there (HK_WEAK_RUNTIME=1) the references are weak, and whoever calls
// new has brought what they refer to. In the static library they are ordinary: only a program that uses new pulls this file in.
#include <cstddef>
#include <new>

#include "hakmem/hakmem.h"

#if HK_WEAK_RUNTIME
#define WEAK __attribute__((weak))
asm(".weak __gxx_personality_v0\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak _Unwind_Resume\n"
    ".weak _ZSt9terminatev\n");
#else
#define WEAK
#endif

#define EXPORT __attribute__((visibility("default")))

namespace std {
WEAK new_handler get_new_handler() noexcept;
WEAK void __throw_bad_alloc();  // libstdc++'s own way to throw std::bad_alloc from outside its headers
}  // namespace std

namespace {

void *allocate(std::size_t size, std::size_t alignment) {
  return alignment == 0 ? hakmem_malloc(size) : hakmem_aligned_alloc(alignment, size);
}

// Runs the program's new-handler until there is memory; nullptr when it has none. A handler may throw.
__attribute__((noinline, cold)) void *retry(std::size_t size, std::size_t alignment) {
  for (;;) {
    std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) return nullptr;
    handler();
    void *block = allocate(size, alignment);
    if (block != nullptr) return block;
  }
}

__attribute__((noinline, cold)) void *retry_or_throw(std::size_t size, std::size_t alignment) {
  void *block = retry(size, alignment);
  if (block == nullptr) std::__throw_bad_alloc();
  return block;
}

__attribute__((noinline, cold)) void *retry_or_null(std::size_t size, std::size_t alignment) noexcept {
  try {
    return retry(size, alignment);
  } catch (...) {
    return nullptr;
  }
}

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

EXPORT void *operator new(std::size_t size) { return new_or_throw(size); }
EXPORT void *operator new[](std::size_t size) { return new_or_throw(size); }
EXPORT void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return new_or_null(size); }
EXPORT void *operator new[](std::size_t size, const std::nothrow_t &) noexcept { return new_or_null(size); }
EXPORT void *operator new(std::size_t size, std::align_val_t alignment) {
  return new_or_throw(size, bytes_of(alignment));
}
EXPORT void *operator new[](std::size_t size, std::align_val_t alignment) {
  return new_or_throw(size, bytes_of(alignment));
}
EXPORT void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return new_or_null(size, bytes_of(alignment));
}
EXPORT void *operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return new_or_null(size, bytes_of(alignment));
}

EXPORT void operator delete(void *block) noexcept { hakmem_free(block); }
EXPORT void operator delete[](void *block) noexcept { hakmem_free(block); }
EXPORT void operator delete(void *block, std::size_t) noexcept { hakmem_free(block); }
EXPORT void operator delete[](void *block, std::size_t) noexcept { hakmem_free(block); }
EXPORT void operator delete(void *block, std::align_val_t) noexcept { hakmem_free(block); }
EXPORT void operator delete[](void *block, std::align_val_t) noexcept { hakmem_free(block); }
EXPORT void operator delete(void *block, std::size_t, std::align_val_t) noexcept { hakmem_free(block); }
EXPORT void operator delete[](void *block, std::size_t, std::align_val_t) noexcept { hakmem_free(block); }
EXPORT void operator delete(void *block, const std::nothrow_t &) noexcept { hakmem_free(block); }
EXPORT void operator delete[](void *block, const std::nothrow_t &) noexcept { hakmem_free(block); }
EXPORT void operator delete(void *block, std::align_val_t, const std::nothrow_t &) noexcept { hakmem_free(block); }
EXPORT void operator delete[](void *block, std::align_val_t, const std::nothrow_t &) noexcept { hakmem_free(block); }
