/* tests/api/destroyed_heap_test.cc - the memory of blocks that were in use at the end of their named heap. */
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <iterator>
#include <vector>

#include "hakmem/hakmem.h"
#include "policy/safety.h"

namespace {

constexpr size_t kSmall[] = {16, 24, 64, 200, 1000, 1500, 4000, 16000, 32000};
constexpr size_t kLarger[] = {40000, 200000, 3 << 20};
constexpr unsigned char kSecret = 0x5e;

using Blocks = std::vector<unsigned char *>;

size_t CountOf(size_t size) { return size <= 32000 ? (2 << 20) / size : 8; }

bool IsZero(const unsigned char *block, size_t size) {
  return block[0] == 0 && memcmp(block, block + 1, size - 1) == 0;
}

unsigned NotZeroOf(const Blocks &blocks, size_t size) {
  unsigned count = 0;
  for (const unsigned char *block : blocks) count += !IsZero(block, size);
  return count;
}

Blocks AllocIn(hakmem_heap_t *heap, size_t size) {
  Blocks blocks;
  for (size_t i = 0; i < CountOf(size); i++) {
    void *block = heap != nullptr ? hakmem_heap_malloc(heap, size) : hakmem_malloc(size);
    blocks.push_back(static_cast<unsigned char *>(block));
  }
  return blocks;
}

/* Returns the old addresses. Some of the blocks were freed before, so that their slabs' lists are not in order. */
Blocks DestroyWithSecret(size_t size, int report_leaks = 0) {
  hakmem_heap_options_t options = {};
  options.size = sizeof options;
  options.report_leaks = report_leaks;
  hakmem_heap_t *heap = hakmem_heap_create("secret", &options);
  Blocks blocks = AllocIn(heap, size);
  for (unsigned char *block : blocks) memset(block, kSecret, size);
  for (size_t i = 0; i < blocks.size(); i += 7) hakmem_free(blocks[i]);
  hakmem_heap_destroy(heap);
  return blocks;
}

TEST(DestroyedHeap, OldAddressesOfSmallBlocksShowNothing) {
  if (!HK_HARDENED) GTEST_SKIP() << "blocks are cleared in a hardened build";
  for (size_t size : kSmall) {
    EXPECT_EQ(NotZeroOf(DestroyWithSecret(size), size), 0u) << size;
    EXPECT_EQ(NotZeroOf(DestroyWithSecret(size), size), 0u) << size << ", slabs that serve again";
    (void)hakmem_malloc_trim(0);
    EXPECT_EQ(NotZeroOf(DestroyWithSecret(size), size), 0u) << size << ", slabs that were purged";
  }
}

TEST(DestroyedHeap, NewBlocksShowNothing) {
  if (!HK_HARDENED) GTEST_SKIP() << "blocks are cleared in a hardened build";
  std::vector<size_t> sizes(std::begin(kSmall), std::end(kSmall));
  sizes.insert(sizes.end(), std::begin(kLarger), std::end(kLarger));
  for (size_t size : sizes) {
    for (int report_leaks = 0; report_leaks < 2; report_leaks++) {
      (void)DestroyWithSecret(size, report_leaks);
      Blocks blocks = AllocIn(nullptr, size);
      EXPECT_EQ(NotZeroOf(blocks, size), 0u) << size << " bytes of malloc";
      for (unsigned char *block : blocks) memset(block, kSecret, size);
      for (unsigned char *block : blocks) hakmem_free(block);
      (void)DestroyWithSecret(size);
      hakmem_heap_t *heap = hakmem_heap_create("next", nullptr);
      EXPECT_EQ(NotZeroOf(AllocIn(heap, size), size), 0u) << size << " bytes of a heap";
      hakmem_heap_destroy(heap);
    }
  }
}

TEST(DestroyedHeapDeathTest, WritesToOldAddressesAreNoticed) {
  if (!HK_HARDENED) GTEST_SKIP() << "a hardened build compares blocks with zero";
  for (size_t size : {24, 1000, 20000}) {
    for (size_t offset : {size_t{0}, size / 2 & ~size_t{7}}) {
      auto write_to_old = [&] {
        for (unsigned char *block : DestroyWithSecret(size)) block[offset] = 1;
        (void)AllocIn(nullptr, size);
      };
      EXPECT_DEATH(write_to_old(), "damaged-block: free block .* was written to after it was freed")
          << size << " bytes, at " << offset;
    }
  }
}

/* The new heap's span covers old addresses that no request has had yet. Other builds notice no free of such a place. */
TEST(DestroyedHeapDeathTest, AFreeOfAnOldAddressIsStoppedWhileItHasNoNewBlock) {
  if (!HK_HARDENED) GTEST_SKIP() << "a hardened build has live bits";
  for (size_t size : {24, 1000, 20000}) {
    auto free_old = [&] {
      Blocks old = DestroyWithSecret(size);
      hakmem_heap_t *heap = hakmem_heap_create("next", nullptr);
      (void)hakmem_heap_malloc(heap, size);
      for (unsigned char *block : old) {
        if (hakmem_heap_of(block) == nullptr) hakmem_free(block);
      }
    };
    EXPECT_DEATH(free_old(), "double-free|invalid-free") << size;
  }
}

TEST(DestroyedHeapDeathTest, BlocksAreCountedRightlyInSlabsThatServeAgain) {
  auto leak_three = [] {
    for (size_t size : {64, 2048}) (void)DestroyWithSecret(size);
    hakmem_heap_options_t options = {};
    options.size = sizeof options;
    options.report_leaks = 1;
    hakmem_heap_t *heap = hakmem_heap_create("again", &options);
    for (size_t size : {50, 2000}) {
      Blocks blocks = AllocIn(heap, size);
      for (size_t i = 3; i < blocks.size(); i++) hakmem_free(blocks[i]);
    }
    hakmem_heap_destroy(heap);
    _exit(0);
  };
  EXPECT_EXIT(leak_three(), testing::ExitedWithCode(0), "\"again\" is destroyed with 6 blocks of [0-9]+ bytes in use");
}

}  // namespace
