/* tests/api/tag_counts_test.cc - counts of tags: blocks that move, that were never written, and that other threads
 * freed. */
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"

namespace {

hakmem_tag_counts_t CountsOf(const hakmem_tag_t *tag) {
  hakmem_tag_counts_t counts;
  hakmem_tag_counts(tag, &counts, sizeof counts);
  return counts;
}

TEST(TagCounts, EachBlockThatAnotherThreadFreed) {
  const size_t count = 1200000, bytes = 16;
  hakmem_tag_t *tag = hakmem_tag_create("many remote frees");
  std::vector<void *> blocks(count);
  hakmem_tag_push(tag);
  for (void *&block : blocks) block = hakmem_malloc(bytes);
  hakmem_tag_pop();
  const uint64_t all_bytes = count * hakmem_malloc_usable_size(blocks[0]);
  std::thread([&] {
    for (void *block : blocks) hakmem_free(block);
  }).join();
  hakmem_tag_counts_t counts = CountsOf(tag);
  EXPECT_EQ(counts.allocated_blocks, count);
  EXPECT_EQ(counts.allocated_bytes, all_bytes);
  EXPECT_EQ(counts.freed_blocks, count);
  EXPECT_EQ(counts.live_blocks, 0u);
  EXPECT_EQ(counts.live_bytes, 0u);
}

/* The kernel moves the pages of a large block that has no room to grow. */
TEST(TagCounts, AResizeThatMovesABlockAllocatesAndFrees) {
  const size_t bytes = 4 << 20;
  hakmem_tag_t *tag = hakmem_tag_create("moved pages");
  std::vector<void *> blocks;
  uint64_t allocated = 0, allocated_bytes = 0;
  for (size_t i = 0; i < 8; i++) {
    hakmem_tag_push(tag);
    blocks.push_back(hakmem_malloc(bytes));
    hakmem_tag_pop();
    allocated++;
    allocated_bytes += hakmem_malloc_usable_size(blocks.back());
  }
  for (size_t times = 2; times <= 16; times *= 2) {
    for (void *&block : blocks) {
      const uintptr_t before = reinterpret_cast<uintptr_t>(block);
      const size_t bytes_before = hakmem_malloc_usable_size(block);
      block = hakmem_realloc(block, bytes * times);
      ASSERT_NE(block, nullptr);
      const bool has_moved = reinterpret_cast<uintptr_t>(block) != before;
      allocated += has_moved;
      allocated_bytes += hakmem_malloc_usable_size(block) - (has_moved ? 0 : bytes_before);
    }
  }
  EXPECT_EQ(CountsOf(tag).allocated_blocks, allocated);
  EXPECT_EQ(CountsOf(tag).allocated_bytes, allocated_bytes);
  EXPECT_EQ(CountsOf(tag).live_blocks, blocks.size());
  for (void *block : blocks) hakmem_free(block);
  EXPECT_EQ(CountsOf(tag).freed_blocks, allocated);
  EXPECT_EQ(CountsOf(tag).freed_bytes, allocated_bytes);
  EXPECT_EQ(CountsOf(tag).live_bytes, 0u);
}

/* A run may begin with the words of an earlier free block. A resize copies them, unless the program has written. */
TEST(TagCounts, ABlockThatTheProgramHasNotWritten) {
  const size_t count = 20;
  hakmem_tag_t *tag = hakmem_tag_create("not written");
  std::vector<void *> blocks;
  for (size_t round = 0; round < 5; round++) {
    hakmem_tag_push(tag);
    for (size_t i = 0; i < 40000; i++) blocks.push_back(hakmem_malloc(100));
    for (void *block : blocks) hakmem_free(block);
    blocks.clear();
    for (size_t i = 0; i < count; i++) blocks.push_back(hakmem_malloc(40000));
    uint64_t bytes = 0;
    for (void *&block : blocks) {
      block = hakmem_realloc(block, 1 + 50 * round);
      bytes += hakmem_malloc_usable_size(block);
    }
    hakmem_tag_pop();
    EXPECT_EQ(CountsOf(tag).live_blocks, count) << round;
    EXPECT_EQ(CountsOf(tag).live_bytes, bytes) << round;
    for (void *block : blocks) hakmem_free(block);
    blocks.clear();
    EXPECT_EQ(CountsOf(tag).live_blocks, 0u) << round;
  }
}

}  // namespace
