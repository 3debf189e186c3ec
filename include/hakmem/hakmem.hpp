// hakmem for C++: an allocator for containers, a memory resource, named heaps and tags. C++17 and later; header only,
// over hakmem.h.
//
//     std::vector<int, hakmem::allocator<int>> numbers;
//     std::pmr::vector<int> others(hakmem::resource());
//
// Linking with hakmem, or preloading it, needs neither: `new` and `delete` with all their forms (sized, aligned,
// nothrow, array) are hakmem's then, and std::allocator and std::pmr::new_delete_resource() with them. This header is
// for code that names its allocator, for programs in which malloc and new stay another library's, and for containers
// that grow to what their block has room for (allocate_at_least, good_count).
//
// Memory of this header is hakmem_malloc's: hakmem_free and hakmem_realloc take it, in any thread. Without memory each
// function but those of `heap` acts as `new` does: it calls the program's new-handler until there is memory, and throws
// std::bad_alloc when there is no handler. With -fno-exceptions it calls std::abort instead.
#ifndef HAKMEM_HAKMEM_HPP
#define HAKMEM_HAKMEM_HPP

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include "hakmem.h"

#if __cplusplus < 201703L
#error "hakmem.hpp needs C++17 or later"
#endif
#if defined(__has_include)
#if __has_include(<memory_resource>)  // libc++ has it since version 16
#include <memory_resource>
#define HAKMEM_HAS_RESOURCE 1
#endif
#endif

namespace hakmem {

#if defined(__cpp_lib_allocate_at_least)
template <class Pointer>
using allocation_result = std::allocation_result<Pointer>;
#else
// std::allocation_result of C++23, for libraries and standards without it.
template <class Pointer>
struct allocation_result {
  Pointer ptr;
  std::size_t count;
};
#endif

namespace detail {

// Every block of hakmem has this alignment; more has to be requested.
inline constexpr std::size_t every_alignment = 16;

// Returns nullptr without memory, as the C interface.
inline void *try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
  return alignment <= every_alignment ? hakmem_malloc(bytes) : hakmem_aligned_alloc(alignment, bytes);
}

[[noreturn]] inline void fail_length() {
#if defined(__cpp_exceptions)
  throw std::bad_array_new_length();
#else
  std::abort();
#endif
}

[[noreturn]] inline void fail_memory() {
#if defined(__cpp_exceptions)
  throw std::bad_alloc();
#else
  std::abort();
#endif
}

// The cold part of allocate: the new-handler frees memory, throws, or does not return.
[[nodiscard]] inline void *retry(std::size_t bytes, std::size_t alignment) {
  for (;;) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) fail_memory();
    handler();
    if (void *block = try_allocate(bytes, alignment)) return block;
  }
}

[[nodiscard]] inline void *allocate(std::size_t bytes, std::size_t alignment) {
  void *block = try_allocate(bytes, alignment);
  return block != nullptr ? block : retry(bytes, alignment);
}

template <class T>
inline constexpr std::size_t most = static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T);

}  // namespace detail

// Returns the number of elements that a block for `count` of them has room for, at least `count`. A container that is
// given it (`v.reserve(hakmem::good_count<int>(1000))`) takes no more memory for them.
template <class T>
[[nodiscard]] std::size_t good_count(std::size_t count) noexcept {
  return count <= detail::most<T> ? hakmem_good_size(count * sizeof(T)) / sizeof(T) : count;
}

// A standard allocator without state: all instances are equal, and containers swap and move their blocks between them.
template <class T>
class allocator {
  static_assert(!std::is_const_v<T> && !std::is_volatile_v<T> && !std::is_reference_v<T>,
                "an allocator is of objects that can be written");

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_move_assignment = std::true_type;
  using is_always_equal = std::true_type;

  constexpr allocator() noexcept = default;
  template <class Other>
  constexpr allocator(const allocator<Other> &) noexcept {}

  // Returns uninitialised memory for `count` elements, aligned as T. Throws std::bad_array_new_length when no block is
  // that large, else as `new`.
  [[nodiscard]] T *allocate(std::size_t count) {
    if (count > detail::most<T>) detail::fail_length();
    return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T)));
  }

  // The same, and says for how many elements there is room: all of them may be used. `deallocate` takes any count from
  // the requested one to that. Containers of C++23 call it.
  [[nodiscard]] allocation_result<T *> allocate_at_least(std::size_t count) {
    const std::size_t room = good_count<T>(count);
    return {allocate(room), room};
  }

  void deallocate(T *block, std::size_t) noexcept { hakmem_free(block); }
};

template <class Left, class Right>
constexpr bool operator==(const allocator<Left> &, const allocator<Right> &) noexcept {
  return true;
}
#if __cplusplus < 202002L
template <class Left, class Right>
constexpr bool operator!=(const allocator<Left> &, const allocator<Right> &) noexcept {
  return false;
}
#endif

#if defined(HAKMEM_HAS_RESOURCE)

// The type behind resource(): memory of hakmem for the containers of std::pmr, and for the pools above it.
class memory_resource final : public std::pmr::memory_resource {
  void *do_allocate(std::size_t bytes, std::size_t alignment) override { return detail::allocate(bytes, alignment); }

  void do_deallocate(void *block, std::size_t, std::size_t) override { hakmem_free(block); }

  // A program may have several instances, one in each shared object with hidden names.
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti)
    return this == &other || dynamic_cast<const memory_resource *>(&other) != nullptr;
#else
    return this == &other;
#endif
  }
};

// Returns the resource. It lives until the process ends, so it also serves the destructors of static objects.
[[nodiscard]] inline std::pmr::memory_resource *resource() noexcept {
  alignas(memory_resource) static unsigned char storage[sizeof(memory_resource)];
  static memory_resource *const instance = ::new (static_cast<void *>(storage)) memory_resource;
  return instance;
}

#endif  // HAKMEM_HAS_RESOURCE

// A named heap of hakmem.h, and a memory resource: containers of std::pmr that are given it allocate there. The heap's
// end frees all its blocks, so no container may outlive it; with std::pmr::monotonic_buffer_resource's rule, their
// destructors need not run. The constructor throws std::bad_alloc when the heap cannot be made, and allocate when
// there is no memory or the hard limit refuses; neither calls the new-handler. Without a memory resource in the
// standard library, the class has allocate and deallocate of its own.
class heap final
#if defined(HAKMEM_HAS_RESOURCE)
    : public std::pmr::memory_resource
#endif
{
 public:
  explicit heap(const char *name) : heap(name, hakmem_heap_options_t{}) {}
  heap(const char *name, hakmem_heap_options_t options) {
    options.size = sizeof options;
    heap_ = hakmem_heap_create(name, &options);
    if (heap_ == nullptr) detail::fail_memory();
  }
  ~heap() { hakmem_heap_destroy(heap_); }
  heap(const heap &) = delete;
  heap &operator=(const heap &) = delete;

  // Each does what the function of hakmem.h with its name does; get returns the heap for those functions.
  [[nodiscard]] hakmem_heap_t *get() const noexcept { return heap_; }
  [[nodiscard]] const char *name() const noexcept { return hakmem_heap_name(heap_); }
  std::size_t collect() noexcept { return hakmem_heap_collect(heap_); }

  // Returns whether a live block is one of the heap.
  [[nodiscard]] bool owns(const void *block) const noexcept { return hakmem_heap_of(block) == heap_; }

  [[nodiscard]] hakmem_heap_usage_t usage() const noexcept {
    hakmem_heap_usage_t figures;
    hakmem_heap_usage(heap_, &figures, sizeof figures);
    return figures;
  }

#if !defined(HAKMEM_HAS_RESOURCE)
  [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
    return get_block(bytes, alignment);
  }
  void deallocate(void *block, std::size_t, std::size_t = alignof(std::max_align_t)) noexcept { hakmem_free(block); }
#endif

 private:
  // Unlike `new`, does not call the new-handler: a limit of the heap is no shortage of the program.
  void *get_block(std::size_t bytes, std::size_t alignment) {
    void *block = alignment <= detail::every_alignment ? hakmem_heap_malloc(heap_, bytes)
                                                       : hakmem_heap_aligned_alloc(heap_, alignment, bytes);
    if (block == nullptr) detail::fail_memory();
    return block;
  }

#if defined(HAKMEM_HAS_RESOURCE)
  void *do_allocate(std::size_t bytes, std::size_t alignment) override { return get_block(bytes, alignment); }
  void do_deallocate(void *block, std::size_t, std::size_t) override { hakmem_free(block); }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }
#endif

  hakmem_heap_t *heap_ = nullptr;
};

// Names a tag of hakmem.h, which lives as long as the process. Two of one name are one tag.
class tag_name {
 public:
  explicit tag_name(const char *name) : tag_(hakmem_tag_create(name)) {
    if (tag_ == nullptr) detail::fail_memory();
  }

  [[nodiscard]] hakmem_tag_t *get() const noexcept { return tag_; }
  [[nodiscard]] const char *name() const noexcept { return hakmem_tag_name(tag_); }
  // Sets limits of the tag's memory, in bytes; 0: none.
  void limit(std::size_t soft, std::size_t hard) const noexcept { hakmem_tag_limit(tag_, soft, hard); }

  // Returns whether a live block is charged to the tag.
  [[nodiscard]] bool owns(const void *block) const noexcept { return hakmem_tag_of(block) == tag_; }

  [[nodiscard]] hakmem_heap_usage_t usage() const noexcept {
    hakmem_heap_usage_t figures;
    hakmem_tag_usage(tag_, &figures, sizeof figures);
    return figures;
  }

  // The blocks that were allocated under the tag, and those that were freed.
  [[nodiscard]] hakmem_tag_counts_t counts() const noexcept {
    hakmem_tag_counts_t figures;
    hakmem_tag_counts(tag_, &figures, sizeof figures);
    return figures;
  }

 private:
  hakmem_tag_t *tag_;
};

// Charges what its thread allocates to a tag, while the guard lives:
//
//     static const hakmem::tag_name parsing("parsing");
//     hakmem::tag guard(parsing);
//
// Guards of one thread may end in any order. A guard stays in its thread.
class tag {
 public:
  explicit tag(const tag_name &charged) noexcept : tag(charged.get()) {}
  explicit tag(hakmem_tag_t *charged) noexcept : charged_(charged) { hakmem_tag_push(charged_); }
  explicit tag(const char *name) : tag(tag_name(name)) {}  // a search by name: for code that does not run often
  ~tag() { hakmem_tag_remove(charged_); }
  tag(const tag &) = delete;
  tag &operator=(const tag &) = delete;

 private:
  hakmem_tag_t *charged_;
};

}  // namespace hakmem

#endif  // HAKMEM_HAKMEM_HPP
