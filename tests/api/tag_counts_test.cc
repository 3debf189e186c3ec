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

}  // namespace
