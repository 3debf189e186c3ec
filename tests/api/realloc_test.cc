/* tests/api/realloc_test.cc - realloc and reallocarray: contents kept through every pair of bands, in place or
 * moved. */
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/free_blocks.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/shadow_model.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

/* Three to five sizes of each band, its edges among them. */
const std::vector<size_t> kBandSizes = {1,      16,      24,          100,     1000,        kTinyMax, 1025,     1500,
                                        4096,   8192,    20000,       kMidMax, kMidMax + 1, 65536,    65537,    200000,
                                        500000, kRunMax, kRunMax + 1, 2097152, 2097153,     5 * kMiB, 20 * kMiB};

/* Full patterns, unlike the model's sampled ones: a copy that is one page short must show. */
void FillBytes(void *start, size_t size, unsigned seed) {
  unsigned char *bytes = static_cast<unsigned char *>(start);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<unsigned char>((i * 167 + (i >> 8) * 13 + seed) >> 1);
}

size_t FindBrokenByte(const void *start, size_t size, unsigned seed) {
  const unsigned char *bytes = static_cast<const unsigned char *>(start);
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != static_cast<unsigned char>((i * 167 + (i >> 8) * 13 + seed) >> 1)) return i;
  }
  return kIntact;
}

TEST(Realloc, EveryBandToEveryBandKeepsContents) {
  unsigned seed = 1;
  for (size_t from : kBandSizes) {
    for (size_t to : kBandSizes) {
      seed++;
      void *block = hakmem_malloc(from);
      ASSERT_NE(block, nullptr);
      size_t usable = hakmem_malloc_usable_size(block);
      FillBytes(block, usable, seed);
      void *other = hakmem_malloc(from); /* a neighbour: in place must not mean into it */
      ASSERT_NE(other, nullptr);
      FillBytes(other, from < 64 ? from : 64, seed + 1);
      void *moved = hakmem_realloc(block, to);
      ASSERT_NE(moved, nullptr) << from << " to " << to;
      ASSERT_EQ(reinterpret_cast<uintptr_t>(moved) % 16, 0u);
      ASSERT_EQ(FindBrokenByte(moved, usable < to ? usable : to, seed), kIntact) << from << " to " << to;
      size_t usable_after = hakmem_malloc_usable_size(moved);
      ASSERT_GE(usable_after, to);
      ASSERT_TRUE(hakmem_check_owned(moved));
      std::memset(moved, 0xee, usable_after);
      ASSERT_EQ(FindBrokenByte(other, from < 64 ? from : 64, seed + 1), kIntact) << from << " to " << to;
      hakmem_free(moved);
      hakmem_free(other);
    }
  }
}

TEST(Realloc, ChainsThroughAllBandsUpAndDown) {
  for (int round = 0; round < 3; round++) {
    char *block = nullptr;
    size_t old = 0;
    for (size_t size = 1; size <= 40 * kMiB; size += size / 3 + 1) {
      char *grown = static_cast<char *>(hakmem_realloc(block, size));
      ASSERT_NE(grown, nullptr);
      ASSERT_EQ(FindBrokenPattern(grown, old, old, 77), kIntact) << size;
      FillPattern(grown, size, 77);
      block = grown;
      old = size;
    }
    while (old > 1) {
      size_t size = old - (old / 4 + 1);
      if (size == 0) break;
      char *shrunk = static_cast<char *>(hakmem_realloc(block, size));
      ASSERT_NE(shrunk, nullptr);
      ASSERT_EQ(FindBrokenPattern(shrunk, old, size, 77), kIntact) << old << " to " << size;
      FillPattern(shrunk, size, 77);
      block = shrunk;
      old = size;
    }
    hakmem_free(block);
  }
}

TEST(Realloc, GrowingByOneByteKeepsEveryByte) {
  char *block = static_cast<char *>(hakmem_malloc(1));
  ASSERT_NE(block, nullptr);
  block[0] = 0;
  for (size_t size = 2; size <= 70000; size++) {
    block = static_cast<char *>(hakmem_realloc(block, size));
    ASSERT_NE(block, nullptr);
    block[size - 1] = static_cast<char>((size - 1) * 31);
    if (size % 997 == 0) {
      for (size_t i = 0; i < size; i++) ASSERT_EQ(block[i], static_cast<char>(i * 31)) << i << " of " << size;
    }
  }
  hakmem_free(block);
}

TEST(Realloc, WithinTheUsableSizeNothingMoves) {
  for (size_t size : kBandSizes) {
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    size_t usable = hakmem_malloc_usable_size(block);
    EXPECT_EQ(hakmem_realloc(block, usable), block) << size;
    EXPECT_EQ(hakmem_malloc_usable_size(block), usable) << size;
    if (size > usable / 2) { /* below that a smaller block saves memory */
      EXPECT_EQ(hakmem_realloc(block, size), block) << size;
    } else {
      block = hakmem_realloc(block, size);
    }
    hakmem_free(block);
  }
}

TEST(Realloc, NullIsMalloc) {
  for (size_t size : kBandSizes) {
    void *block = hakmem_realloc(nullptr, size);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(hakmem_malloc_usable_size(block), hakmem_good_size(size));
    hakmem_free(block);
  }
  void *block = hakmem_realloc(nullptr, 0);
  EXPECT_NE(block, nullptr); /* malloc(0), not free */
  hakmem_free(block);
}

TEST(Realloc, ToZeroFreesAndGivesNull) {
  for (size_t size : kBandSizes) {
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    errno = 4321;
    EXPECT_EQ(hakmem_realloc(block, 0), nullptr) << size;
    EXPECT_EQ(errno, 4321) << "a free is no failure; " << size;
    EXPECT_FALSE(hakmem_check_owned(block)) << size;
  }
  if (HAKMEM_TEST_SANITIZER) return;
  /* It frees: 40 GiB pass through. */
  for (int i = 0; i < 40000; i++) {
    void *block = hakmem_malloc(kMiB);
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(hakmem_realloc(block, 0), nullptr);
  }
}

TEST(Realloc, FailureKeepsTheBlock) {
  for (size_t size : kBandSizes) {
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    size_t usable = hakmem_malloc_usable_size(block);
    FillPattern(block, usable, size);
    for (size_t huge : {size_t{PTRDIFF_MAX} + 1, size_t{PTRDIFF_MAX}, SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX - usable,
                        SIZE_MAX - usable + 1, size_t{1} << 60, size_t{1} << 48}) {
      errno = 0;
      ASSERT_EQ(hakmem_realloc(block, huge), nullptr) << size << " to " << huge;
      ASSERT_EQ(errno, ENOMEM);
      ASSERT_TRUE(hakmem_check_owned(block));
      ASSERT_EQ(hakmem_malloc_usable_size(block), usable);
      ASSERT_EQ(FindBrokenPattern(block, usable, usable, size), kIntact);
    }
    hakmem_free(block);
  }
}

/* The block stays a sample after the profile has stopped, and is one without a weight after a failure. */
void FailToResizeASampledBlock(size_t size, size_t wanted) {
  ASSERT_TRUE(hakmem_profile_start(1));
  void *block = hakmem_malloc(size);
  hakmem_profile_stop();
  ASSERT_NE(block, nullptr);
  FillBytes(block, size, 5);
  errno = 0;
  EXPECT_EQ(hakmem_realloc(block, wanted), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(FindBrokenByte(block, size, 5), kIntact);
  hakmem_free(block);
}

TEST(Realloc, FailureKeepsASampledBlock) {
  const size_t most = size_t{PTRDIFF_MAX};
  if (!hakmem_profile_start(1)) GTEST_SKIP() << "this variant has no profile";
  hakmem_profile_stop();
  for (size_t size : {size_t{100}, size_t{100000}, 3 * kMiB}) {
    for (size_t wanted : {most - 100000, most - 1000, most - 17, most - 16, most, most + 1, SIZE_MAX}) {
      SCOPED_TRACE(std::to_string(size) + " to " + std::to_string(wanted) + " bytes");
      FailToResizeASampledBlock(size, wanted);
    }
  }
}

TEST(Realloc, ReallocarrayMultipliesWithCare) {
  void *block = hakmem_reallocarray(nullptr, 10, 10);
  ASSERT_NE(block, nullptr);
  EXPECT_GE(hakmem_malloc_usable_size(block), 100u);
  FillPattern(block, 100, 5);
  struct {
    size_t count, size;
  } overflows[] = {{SIZE_MAX, 2},           {2, SIZE_MAX},         {size_t{1} << 32, size_t{1} << 32},
                   {SIZE_MAX, SIZE_MAX},    {SIZE_MAX / 2 + 2, 2}, {size_t{1} << 63, 2},
                   {SIZE_MAX / 16 + 1, 16}, {3, SIZE_MAX / 3 + 1}, {size_t{1} << 31, size_t{1} << 32},
                   {PTRDIFF_MAX, 2}};
  for (auto &c : overflows) {
    errno = 0;
    EXPECT_EQ(hakmem_reallocarray(block, c.count, c.size), nullptr) << c.count << " " << c.size;
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(FindBrokenPattern(block, 100, 100, 5), kIntact);
    errno = 0;
    EXPECT_EQ(hakmem_reallocarray(nullptr, c.count, c.size), nullptr) << c.count << " " << c.size;
    EXPECT_EQ(errno, ENOMEM);
  }
  block = hakmem_reallocarray(block, 1000, 1000);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(FindBrokenPattern(block, 100, 100, 5), kIntact);
  EXPECT_EQ(hakmem_reallocarray(block, 0, 1000), nullptr); /* as realloc(block, 0): freed */
  EXPECT_FALSE(hakmem_check_owned(block));
  block = hakmem_malloc(50);
  EXPECT_EQ(hakmem_reallocarray(block, 1000, 0), nullptr);
  EXPECT_FALSE(hakmem_check_owned(block));
}

TEST(Realloc, AlignedBlocksKeepContents) {
  for (size_t alignment : {size_t{32}, size_t{256}, size_t{4096}, size_t{65536}, 2 * kMiB, 4 * kMiB}) {
    for (size_t from : {size_t{10}, size_t{1000}, size_t{30000}, size_t{100000}, 3 * kMiB}) {
      for (size_t to : {size_t{5}, size_t{2000}, size_t{40000}, size_t{500000}, 8 * kMiB}) {
        void *block = hakmem_aligned_alloc(alignment, from);
        ASSERT_NE(block, nullptr);
        size_t usable = hakmem_malloc_usable_size(block);
        FillPattern(block, usable, from);
        void *moved = hakmem_realloc(block, to);
        ASSERT_NE(moved, nullptr);
        ASSERT_EQ(FindBrokenPattern(moved, usable, usable < to ? usable : to, from), kIntact)
            << alignment << ": " << from << " to " << to;
        FillPattern(moved, hakmem_malloc_usable_size(moved), to);
        hakmem_free(moved);
      }
    }
  }
}

TEST(Realloc, GrowsManyLargeBlocksWithoutCopyingThem) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "slow there";
  /* 1 MiB to 64 MiB in steps of 256 KiB. Each step touches only what it added: the system moves mappings, hakmem does
   * not copy them. A copy each would be 8 GiB a block. */
  char *block = static_cast<char *>(hakmem_malloc(kMiB));
  ASSERT_NE(block, nullptr);
  for (size_t size = kMiB; size < 64 * kMiB; size += 256 * kKiB) {
    block = static_cast<char *>(hakmem_realloc(block, size));
    ASSERT_NE(block, nullptr);
    block[size - 1] = static_cast<char>(size >> 18);
  }
  for (size_t size = kMiB; size < 64 * kMiB; size += 256 * kKiB)
    ASSERT_EQ(block[size - 1], static_cast<char>(size >> 18));
  hakmem_free(block);
}

TEST(Realloc, ShrinkingGivesMemoryBack) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's shadow counts as resident";
  hakmem_collect();
  size_t before = ResidentBytes();
  std::vector<char *> blocks;
  for (int i = 0; i < 8; i++) {
    char *block = static_cast<char *>(hakmem_malloc(16 * kMiB));
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, 16 * kMiB);
    block = static_cast<char *>(hakmem_realloc(block, 1000));
    ASSERT_NE(block, nullptr);
    blocks.push_back(block);
  }
  hakmem_collect();
  EXPECT_LE(ResidentBytes(), before + 16 * kMiB) << "blocks of 1,000 bytes that were 16 MiB";
  for (char *block : blocks) hakmem_free(block);

  blocks.clear();
  for (int i = 0; i < 100; i++) {
    char *block = static_cast<char *>(hakmem_malloc(kRunMax));
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, kRunMax);
    blocks.push_back(block);
  }
  for (char *&block : blocks) {
    block = static_cast<char *>(hakmem_realloc(block, 70 * kKiB));
    ASSERT_NE(block, nullptr);
  }
  hakmem_collect();
  EXPECT_LE(ResidentBytes(), before + 24 * kMiB) << "100 blocks of 70 KiB that were 1 MiB";
  for (char *block : blocks) hakmem_free(block);
}

TEST(Realloc, NewPartOfALargeBlockIsItsOwn) {
  /* Grown in place over what another block used before: allowed to hold anything, but not to belong to anyone else. */
  TestRandom random(SeedFor("NewPartOfABigBlock"));
  ShadowModel model;
  for (size_t i = 0; i < Scaled(4000, 200); i++) {
    if (model.count() < 12) {
      size_t size = random.LogBetween(40000, 4 * kMiB);
      void *block = hakmem_malloc(size);
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(model.Add(block, size, hakmem_malloc_usable_size(block), 16)) << model.problem();
      continue;
    }
    size_t index = random.Below(model.count());
    if (random.OneIn(8)) {
      ASSERT_TRUE(FreeBlock(&model, index)) << model.problem();
      continue;
    }
    ASSERT_TRUE(model.Check(index)) << model.problem();
    size_t old = model.at(index).requested;
    size_t size = random.OneIn(2) ? old + random.Below(old / 2) : random.LogBetween(30000, 8 * kMiB);
    void *moved = hakmem_realloc(model.at(index).start, size);
    ASSERT_NE(moved, nullptr);
    ASSERT_TRUE(model.Replace(index, moved, size, hakmem_malloc_usable_size(moved))) << model.problem();
  }
  ASSERT_TRUE(model.CheckAll()) << model.problem();
  ASSERT_TRUE(FreeBlocks(&model)) << model.problem();
}

/* A program that copies memory as it is (a dump of itself) has the words of free blocks in its own blocks. */
TEST(Realloc, KeepsContentsThatLookLikeAFreeBlock) {
  const size_t sizes[] = {64, 3000, 40000, 200000, 3 * kMiB};
  void *freed = hakmem_malloc(64);
  hakmem_free(freed);
  unsigned char words[16];
  for (size_t i = 0; i < sizeof words; i++) words[i] = static_cast<volatile unsigned char *>(freed)[i];
  for (size_t from : sizes) {
    for (size_t to : sizes) {
      void *block = hakmem_malloc(from);
      memcpy(block, words, sizeof words);
      block = hakmem_realloc(block, to);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(memcmp(block, words, sizeof words), 0) << from << " to " << to << " bytes";
      hakmem_free(block);
    }
  }
}

} /* namespace */
