/* tests/api/cxx_named_test.cc - named heaps and tags of hakmem.hpp: containers in a heap, limits, guards. */
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "hakmem/hakmem.hpp"

namespace {

TEST(CxxNamed, ContainersLieInTheHeap) {
  hakmem::heap heap("containers");
  EXPECT_STREQ(heap.name(), "containers");
  std::pmr::vector<std::pmr::string> strings(&heap);
  std::pmr::map<int, std::pmr::string> map(&heap);
  for (int i = 0; i < 1000; i++) {
    strings.emplace_back(200, 'x');
    map[i] = std::pmr::string(300, 'y', &heap);
  }
  EXPECT_TRUE(heap.owns(strings.data()));
  EXPECT_TRUE(heap.owns(strings[500].data()));
  EXPECT_TRUE(heap.owns(map[700].data()));
  EXPECT_FALSE(heap.owns(std::make_unique<int>(1).get()));
  EXPECT_GE(heap.usage().bytes, 1000u * 500);
  void *aligned = heap.allocate(100, 4096);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 4096, 0u);
  heap.deallocate(aligned, 100, 4096);
}

TEST(CxxNamed, ResourcesAreEqualOnlyToThemselves) {
  hakmem::heap one("one"), two("two");
  EXPECT_TRUE(one == one);
  EXPECT_FALSE(one == two);
  std::pmr::string from(100, 'a', &one), to(&two);
  to = std::move(from);
  EXPECT_TRUE(two.owns(to.data()));
  static_assert(!std::is_copy_constructible_v<hakmem::heap> && !std::is_copy_assignable_v<hakmem::heap>);
}

TEST(CxxNamed, AHardLimitThrows) {
  hakmem_heap_options_t options = {};
  options.hard_limit = 1 << 20;
  hakmem::heap heap("limited", options);
  std::pmr::vector<int> numbers(&heap);
  EXPECT_THROW(numbers.resize(1 << 20), std::bad_alloc);
  numbers.resize(1000);
  EXPECT_EQ(numbers.size(), 1000u);
}

TEST(CxxNamed, AGuardChargesWhatNewAllocates) {
  static const hakmem::tag_name parsing("cxx parsing"), other("cxx other");
  EXPECT_STREQ(parsing.name(), "cxx parsing");
  EXPECT_EQ(hakmem::tag_name("cxx parsing").get(), parsing.get());
  void *inside = nullptr, *outside = nullptr;
  {
    hakmem::tag guard(parsing);
    inside = hakmem_malloc(100);
    auto early = std::make_unique<hakmem::tag>(other);
    auto late = std::make_unique<hakmem::tag>("cxx parsing");
    early.reset(); /* before the guard that was made after it */
    outside = hakmem_malloc(100);
    EXPECT_TRUE(parsing.owns(outside));
    late.reset();
  }
  EXPECT_TRUE(parsing.owns(inside));
  EXPECT_GE(parsing.counts().live_blocks, 2u);
  hakmem_free(inside);
  hakmem_free(outside);
  void *plain = hakmem_malloc(100);
  EXPECT_FALSE(parsing.owns(plain) || other.owns(plain));
  hakmem_free(plain);
  EXPECT_GT(parsing.usage().peak_bytes, 0u);
}

}  // namespace
