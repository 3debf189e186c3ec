// Named heaps that end while the profile runs: the parts of the next ones begin without a block of theirs.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "hakmem/hakmem.h"

namespace {

constexpr size_t kSizes[] = {100, 1500, 3000, 9000, 30000};

struct Block {
  unsigned char *start;
  size_t size;
  unsigned char value;
};

Block Alloc(hakmem_heap_t *heap, size_t size, unsigned value) {
  Block block = {static_cast<unsigned char *>(hakmem_heap_malloc(heap, size)), size, static_cast<unsigned char>(value)};
  memset(block.start, block.value, size);
  return block;
}

bool IsIntact(const Block &block) {
  for (size_t i = 0; i < block.size; i++) {
    if (block.start[i] != block.value) return false;
  }
  return true;
}

/* Ends with free blocks in every list that a part has, of the program's order. */
void UseAndEnd(hakmem_heap_t *heap, unsigned turn) {
  std::vector<Block> blocks;
  for (size_t size : kSizes) {
    for (unsigned i = 0; i < 40; i++) blocks.push_back(Alloc(heap, size, turn + i));
  }
  for (size_t i = 0; i < blocks.size(); i += 2) hakmem_free(blocks[i].start);
  for (size_t i = 0; i < blocks.size(); i += 2) blocks[i] = Alloc(heap, blocks[i].size, turn + 100);
  for (const Block &block : blocks) ASSERT_TRUE(IsIntact(block)) << block.size << " bytes, turn " << turn;
  for (size_t i = 0; i < blocks.size(); i++) {
    if (i % 3 != 0) hakmem_free(blocks[i].start);
  }
  hakmem_heap_destroy(heap);
}

TEST(ReusedPart, BeginsWithoutBlocksOfTheHeapThatEnded) {
  if (!hakmem_profile_start(20000)) GTEST_SKIP() << "this variant has no profile";
  hakmem_heap_t *other = hakmem_heap_create("other", nullptr);
  std::vector<Block> others;
  for (unsigned turn = 0; turn < 30; turn++) {
    UseAndEnd(hakmem_heap_create("ends", nullptr), turn);
    /* What the ended heap had serves the other one, and plain requests. */
    for (size_t size : kSizes) others.push_back(Alloc(other, size, turn));
  }
  for (const Block &block : others) EXPECT_TRUE(IsIntact(block)) << block.size;
  hakmem_heap_destroy(other);
  hakmem_profile_stop();
}

// The next part finds its bins closed when the profile begins again.
TEST(ReusedPart, FollowsAProfileThatBeginsAfterwards) {
  if (!hakmem_profile_start(20000)) GTEST_SKIP() << "this variant has no profile";
  for (unsigned turn = 0; turn < 10; turn++) {
    UseAndEnd(hakmem_heap_create("ends", nullptr), turn);
    hakmem_profile_stop();
    hakmem_heap_t *heap = hakmem_heap_create("next", nullptr);
    std::vector<Block> blocks;
    for (size_t size : kSizes) {
      for (unsigned i = 0; i < 10; i++) blocks.push_back(Alloc(heap, size, i));
    }
    ASSERT_TRUE(hakmem_profile_start(20000));
    blocks.push_back(Alloc(heap, 40, turn)); /* which begins with a slow path */
    for (size_t i = 0; i < blocks.size(); i += 2) hakmem_free(blocks[i].start);
    UseAndEnd(heap, turn);
  }
  hakmem_profile_stop();
}

}  // namespace
