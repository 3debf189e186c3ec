// Containers of the standard library on <hakmem/hakmem.hpp>. Prints "ok", or the checks that fail.
//
// Written for every standard from C++17 on, with and without exceptions and RTTI: test_cxx_header.py and
// test_cxx_compilers.py compile it with each.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <forward_list>
#include <functional>
#include <hakmem/hakmem.hpp>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <scoped_allocator>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

int failures = 0;

#define CHECK(condition) \
  ((condition) ? (void)0 : (void)(++failures, std::printf("line %d: %s\n", __LINE__, #condition)))

template <class T>
using alloc = hakmem::allocator<T>;
using text = std::basic_string<char, std::char_traits<char>, alloc<char>>;

struct alignas(64) Line {
  char bytes[64];
};
struct alignas(4096) Page {
  char bytes[4096];
};
struct Three {
  char bytes[3];
};

bool is_ours(const void *block) { return hakmem_check_owned(block); }

bool is_aligned(const void *block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

// ---- hakmem::allocator

using traits = std::allocator_traits<alloc<int>>;
static_assert(std::is_empty_v<alloc<int>>, "an allocator takes no room in a container");
static_assert(traits::is_always_equal::value && traits::propagate_on_container_move_assignment::value);
static_assert(std::is_same_v<traits::rebind_alloc<Line>, alloc<Line>>);
static_assert(std::is_nothrow_constructible_v<alloc<int>, const alloc<void> &>);
static_assert(std::is_trivially_copyable_v<alloc<int>>);
static_assert(sizeof(std::vector<int, alloc<int>>) == sizeof(std::vector<int>));

void check_vector() {
  std::vector<int, alloc<int>> numbers;
  for (int i = 0; i < 100000; i++) numbers.push_back(i);
  CHECK(numbers.size() == 100000 && numbers[99999] == 99999 && is_ours(numbers.data()));
  const int *block = numbers.data();
  std::vector<int, alloc<int>> moved;
  moved = std::move(numbers);
  CHECK(moved.data() == block);
  std::vector<int, alloc<int>> other(moved.begin(), moved.begin() + 10);
  swap(moved, other);
  CHECK(other.data() == block && moved.size() == 10);
  other.shrink_to_fit();
  other.clear();
  std::vector<bool, alloc<bool>> bits(1000, true);
  CHECK(std::count(bits.begin(), bits.end(), true) == 1000);
}

void check_nodes() {
  std::map<int, text, std::less<int>, alloc<std::pair<const int, text>>> ordered;
  std::unordered_map<int, text, std::hash<int>, std::equal_to<int>, alloc<std::pair<const int, text>>> hashed;
  std::list<int, alloc<int>> list;
  std::forward_list<int, alloc<int>> forward;
  std::multiset<int, std::less<int>, alloc<int>> set;
  for (int i = 0; i < 1000; i++) {
    ordered.emplace(i, text(static_cast<std::size_t>(i), 'x'));
    hashed.emplace(i, text(static_cast<std::size_t>(i), 'y'));
    list.push_back(i);
    forward.push_front(i);
    set.insert(i % 10);
  }
  CHECK(is_ours(ordered.at(999).data()) && ordered.at(999).size() == 999);
  CHECK(is_ours(hashed.at(500).data()) && hashed.at(500).back() == 'y');
  CHECK(set.count(3) == 100);
  std::list<int, alloc<int>> front;
  front.splice(front.begin(), list, list.begin(), std::next(list.begin(), 500));
  CHECK(front.size() == 500 && list.front() == 500);
  for (int i = 0; i < 1000; i += 2) {
    ordered.erase(i);
    hashed.erase(i);
  }
  auto node = ordered.extract(1);
  CHECK(ordered.size() == 499 && hashed.size() == 500 && node.mapped().size() == 1);
}

void check_others() {
  std::deque<int, alloc<int>> queue;
  for (int i = 0; i < 10000; i++) {
    queue.push_back(i);
    if (i % 3 == 0) queue.pop_front();
  }
  CHECK(queue.back() == 9999 && is_ours(text(100, 'a').c_str()));
  const auto shared = std::allocate_shared<Line>(alloc<Line>());
  CHECK(is_aligned(shared.get(), alignof(Line)));
  using inner = std::vector<int, alloc<int>>;
  std::vector<inner, std::scoped_allocator_adaptor<alloc<inner>>> nested(10);
  nested[3].assign(1000, 7);
  CHECK(is_ours(nested.data()) && is_ours(nested[3].data()));
}

void check_alignment() {
  std::vector<Line, alloc<Line>> lines;
  std::list<Page, alloc<Page>> pages(3);
  for (int i = 0; i < 100; i++) {
    lines.emplace_back();
    CHECK(is_aligned(lines.data(), alignof(Line)));
  }
  for (const Page &page : pages) CHECK(is_aligned(&page, alignof(Page)));
  alloc<char> characters;
  char *one = characters.allocate(1);
  CHECK(is_aligned(one, alignof(std::max_align_t)));
  characters.deallocate(one, 1);
}

void check_equality() {
  CHECK(alloc<int>() == alloc<int>() && alloc<int>() == alloc<Page>());
  CHECK(!(alloc<int>() != alloc<int>()) && !(alloc<int>() != alloc<void>()));
  alloc<Line> lines;
  alloc<char> characters(lines);
  characters.deallocate(characters.allocate(0), 0);
  CHECK(characters == lines);
}

// ---- Room.

template <class T>
void check_room(std::size_t count) {
  const std::size_t room = hakmem::good_count<T>(count);
  alloc<T> allocator;
  const auto got = allocator.allocate_at_least(count);
  CHECK(room >= count && got.count == room && is_ours(got.ptr) && is_aligned(got.ptr, alignof(T)));
  CHECK(got.count * sizeof(T) <= hakmem_malloc_usable_size(got.ptr));
  std::fill_n(reinterpret_cast<unsigned char *>(got.ptr), got.count * sizeof(T), static_cast<unsigned char>(0xa5));
  allocator.deallocate(got.ptr, got.count);
  T *less = allocator.allocate(count);
  CHECK(hakmem_malloc_usable_size(less) / sizeof(T) >= room);
  allocator.deallocate(less, count);
}

void check_rooms() {
  for (std::size_t count = 0; count < 3000; count += 1 + count / 7) {
    check_room<char>(count);
    check_room<Three>(count);
    check_room<std::uint64_t>(count);
    check_room<Line>(count);
  }
  for (const std::size_t count : {1u, 2u, 5u, 33u, 300u}) check_room<Page>(count);
  CHECK(hakmem::good_count<char>(1001) > 1001);
  const std::size_t all = std::numeric_limits<std::size_t>::max();
  CHECK(hakmem::good_count<int>(all) == all);
  std::vector<char, alloc<char>> bytes;
  bytes.reserve(hakmem::good_count<char>(1000));
  CHECK(bytes.capacity() == hakmem_malloc_usable_size(bytes.data()));
#if defined(__cpp_lib_allocate_at_least)
  alloc<int> allocator;
  const auto got = std::allocator_traits<alloc<int>>::allocate_at_least(allocator, 1000);
  CHECK(got.count == hakmem::good_count<int>(1000));
  allocator.deallocate(got.ptr, got.count);
#endif
}

// ---- Without memory.

int handled = 0;
[[maybe_unused]] void handle_twice() {
  if (++handled == 2) std::set_new_handler(nullptr);
}

#if defined(__cpp_exceptions)
template <class Exception, class Request>
bool throws(const Request &request) {
  try {
    request();
  } catch (const Exception &) {
    return true;
  }
  return false;
}

void check_failures() {
  const std::size_t all = std::numeric_limits<std::size_t>::max();
  const volatile std::size_t seen_late = all;  // the compiler would warn of a size that it knows
  const std::size_t too_much = std::size_t{1} << 60;
  CHECK(throws<std::bad_array_new_length>([&] { return alloc<int>().allocate(all / 4 + 2); }));
  CHECK(throws<std::bad_array_new_length>([&] { return alloc<int>().allocate_at_least(all); }));
  CHECK(throws<std::bad_array_new_length>([&] { return alloc<char>().allocate(all / 2 + 1); }));
  CHECK(throws<std::bad_alloc>([&] { return alloc<char>().allocate(too_much); }));
  CHECK(throws<std::bad_alloc>([&] { return alloc<Page>().allocate(too_much / sizeof(Page)); }));
  std::set_new_handler(handle_twice);
  CHECK(throws<std::bad_alloc>([&] { return alloc<char>().allocate(too_much); }) && handled == 2);
  std::vector<int, alloc<int>> numbers(10, 5);
  CHECK(throws<std::bad_alloc>([&] { numbers.reserve(too_much / sizeof(int)); }));
  CHECK(numbers.size() == 10 && numbers[9] == 5);
#if defined(HAKMEM_HAS_RESOURCE)
  CHECK(throws<std::bad_alloc>([&] { return hakmem::resource()->allocate(seen_late, 8); }));
  CHECK(throws<std::bad_alloc>([&] { return hakmem::resource()->allocate(too_much, 4096); }));
#endif
}
#else
void check_failures() {}
#endif

// ---- std::pmr

#if defined(HAKMEM_HAS_RESOURCE)
std::pmr::vector<int> static_numbers(hakmem::resource());  // destroyed after main, by the resource

void check_resource() {
  std::pmr::memory_resource *resource = hakmem::resource();
  CHECK(resource == hakmem::resource() && !resource->is_equal(*std::pmr::new_delete_resource()));
  hakmem::memory_resource own;
#if defined(__cpp_rtti)
  CHECK(resource->is_equal(own) && own == *resource);
#else
  CHECK(own.is_equal(own));
#endif
  for (const std::size_t alignment : {1u, 8u, 16u, 32u, 64u, 4096u, 65536u}) {
    for (const std::size_t bytes : {0u, 1u, 24u, 1000u, 100000u, 3000000u}) {
      void *block = resource->allocate(bytes, alignment);
      CHECK(is_ours(block) && is_aligned(block, alignment) && hakmem_malloc_usable_size(block) >= bytes);
      resource->deallocate(block, bytes, alignment);
    }
  }
}

void check_pmr() {
  static_numbers.assign(1000, 1);
  CHECK(is_ours(static_numbers.data()));
  std::pmr::map<int, std::pmr::string> ordered(hakmem::resource());
  std::pmr::unordered_map<int, std::pmr::string> hashed(hakmem::resource());
  std::pmr::list<int> list(hakmem::resource());
  std::pmr::deque<Line> queue(hakmem::resource());
  for (int i = 0; i < 500; i++) {
    ordered[i] = std::pmr::string(100, 'x');
    hashed[i] = std::pmr::string(100, 'y');
    list.push_back(i);
    queue.emplace_back();
    CHECK(is_aligned(&queue.back(), alignof(Line)));
  }
  CHECK(is_ours(ordered[7].data()) && is_ours(hashed[7].data()) && is_ours(&list.front()) == is_ours(&list.back()));
  std::pmr::unsynchronized_pool_resource pool(hakmem::resource());
  std::pmr::monotonic_buffer_resource arena(hakmem::resource());
  std::pmr::vector<std::pmr::string> pooled(&pool), fast(&arena);
  for (int i = 0; i < 1000; i++) {
    pooled.emplace_back(50, 'p');
    fast.emplace_back(50, 'f');
  }
  CHECK(pooled[999] == std::pmr::string(50, 'p') && fast[999].size() == 50);
}
#else
void check_resource() {}
void check_pmr() {}
#endif

// ---- What linking alone gives: every form of new and delete, and all that calls them.

void check_operators() {
  Line *line = new Line;
  Page *pages = new Page[3];
  int *number = new (std::nothrow) int(7);
  char *text_of_program = new char[1000];
  CHECK(is_ours(line) && is_aligned(line, alignof(Line)) && is_ours(pages) && is_aligned(pages, alignof(Page)));
  CHECK(is_ours(number) && is_ours(text_of_program));
  delete line;
  delete[] pages;
#if defined(__cpp_sized_deallocation)
  ::operator delete(number, sizeof(int));
#else
  delete number;
#endif
  delete[] text_of_program;
  const std::vector<Line> lines(10);
  const std::string string(100, 's');
  CHECK(is_ours(lines.data()) && is_ours(string.data()) && is_ours(std::make_unique<int[]>(100).get()));
}

// ---- Blocks that another thread frees.

void check_threads() {
  std::vector<std::vector<text, alloc<text>>> made(4);
  std::vector<std::thread> threads;
  for (auto &texts : made) {
    threads.emplace_back([&texts] {
      for (int i = 0; i < 2000; i++) texts.emplace_back(static_cast<std::size_t>(i % 300), 't');
    });
  }
  for (auto &thread : threads) thread.join();
  std::size_t length = 0;
  for (const auto &texts : made)
    for (const auto &each : texts) length += each.size();
  CHECK(length == 4 * (6 * 44850 + 19900));
}

}  // namespace

int main() {
  check_vector();
  check_nodes();
  check_others();
  check_alignment();
  check_equality();
  check_rooms();
  check_failures();
  check_resource();
  check_pmr();
  check_operators();
  check_threads();
  if (failures == 0) std::puts("ok");
  return failures == 0 ? 0 : 1;
}
