/* tests/api/calloc_test.cc - calloc: always zero, also in memory that was dirty a moment ago, and never too little. */
#include <gtest/gtest.h>

#include <barrier>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/shadow_model.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

void *CallocChecked(size_t count, size_t size) {
  void *block = hakmem_calloc(count, size);
  EXPECT_NE(block, nullptr) << count << " x " << size;
  EXPECT_TRUE(block == nullptr || FindNonZero(block, count * size) == kIntact) << count << " x " << size;
  return block;
}

/* The first test: others fill large blocks, and a part of the next ones is then made resident ahead. */
TEST(Calloc, AnUntouchedLargeBlockIsNotResident) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's shadow counts as resident";
  /* What comes from the system is zero already: clearing it would touch it. */
  hakmem_collect();
  size_t before = ResidentBytes();
  void *block = hakmem_calloc(1, 256 * kMiB);
  ASSERT_NE(block, nullptr);
  EXPECT_LE(ResidentBytes(), before + 4 * kMiB);
  hakmem_free(block);
}

TEST(Calloc, FreshMemoryIsZeroAtEverySize) {
  for (size_t size = 0; size <= 40000; size += 1 + size / 200) hakmem_free(CallocChecked(1, size));
  for (size_t size : {kRunMax - 1, kRunMax, kRunMax + 1, 2 * kMiB, 5 * kMiB}) hakmem_free(CallocChecked(size, 1));
}

/* A coarse class serves the first requests of each tiny class in all heaps but the first, from dirty blocks. */
TEST(Calloc, FirstBlocksOfAClassAreZeroInDirtyMemoryOfAnother) {
  std::barrier all_have_heaps(2), may_end(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; i++) {
    threads.emplace_back([&all_have_heaps, &may_end] {
      hakmem_free(hakmem_malloc(16));
      all_have_heaps.arrive_and_wait();
      std::vector<void *> dirty, zero;
      for (size_t size : {96, 128, 192, 256, 384, 512, 768, 1024}) {
        for (int k = 0; k < 200; k++) dirty.push_back(std::memset(hakmem_malloc(size), 0xa5, size));
      }
      for (void *block : dirty) hakmem_free(block);
      for (int k = 0; k < 12; k++) {
        for (size_t size = 16; size <= 1024; size += 16) zero.push_back(CallocChecked(1, size));
      }
      for (void *block : zero) hakmem_free(block);
      may_end.arrive_and_wait();
    });
  }
  for (std::thread &thread : threads) thread.join();
}

class CallocDirty : public testing::TestWithParam<size_t> {};

/* Every block of a band is dirtied in all its usable bytes, freed, and asked for again: the LIFO way, the FIFO way,
 * every second one, and after the memory may have gone back to the system. */
TEST_P(CallocDirty, ReusedMemoryIsZero) {
  const size_t size = GetParam();
  const size_t count = size <= kMidMax ? 200 : (size <= kRunMax ? 20 : 5);
  for (int round = 0; round < 12; round++) {
    std::vector<void *> blocks;
    for (size_t i = 0; i < count; i++) {
      void *block = round % 3 == 0 ? hakmem_malloc(size) : CallocChecked(1, size);
      ASSERT_NE(block, nullptr);
      std::memset(block, 0xa5, hakmem_malloc_usable_size(block));
      blocks.push_back(block);
    }
    switch (round % 4) {
      case 0:
        for (size_t i = 0; i < count; i++) hakmem_free(blocks[i]);
        break;
      case 1:
        for (size_t i = count; i-- > 0;) hakmem_free(blocks[i]);
        break;
      case 2:
        for (size_t i = 0; i < count; i += 2) hakmem_free(blocks[i]);
        for (size_t i = 1; i < count; i += 2) hakmem_free(blocks[i]);
        break;
      default:
        for (size_t i = 0; i < count; i += 2) hakmem_free(blocks[i]);
        for (size_t i = 0; i < count; i += 2) {
          blocks[i] = CallocChecked(size, 1);
          std::memset(blocks[i], 0x5a, hakmem_malloc_usable_size(blocks[i]));
        }
        for (size_t i = 0; i < count; i++) hakmem_free(blocks[i]);
        if (round > 6) hakmem_collect();
        break;
    }
  }
}

/* A freed block's neighbourhood comes again at other sizes: the dirt lies elsewhere than the new block's start. */
TEST_P(CallocDirty, MemoryOfOtherSizesIsZero) {
  const size_t size = GetParam();
  TestRandom random(SeedFor("MemoryOfOtherSizesIsZero", size));
  const size_t rounds = Scaled(120, 10);
  for (size_t round = 0; round < rounds; round++) {
    std::vector<void *> blocks;
    for (int i = 0; i < 12; i++) {
      void *block = hakmem_malloc(random.Between(size / 2 + 1, size * 2));
      ASSERT_NE(block, nullptr);
      std::memset(block, 0xff, hakmem_malloc_usable_size(block));
      blocks.push_back(block);
    }
    for (void *block : blocks) hakmem_free(block);
    blocks.clear();
    for (int i = 0; i < 8; i++) {
      void *block = CallocChecked(1, random.Between(size / 2 + 1, size * 2));
      ASSERT_NE(block, nullptr);
      std::memset(block, 0xff, hakmem_malloc_usable_size(block));
      blocks.push_back(block);
    }
    for (void *block : blocks) hakmem_free(block);
  }
}

INSTANTIATE_TEST_SUITE_P(Bands, CallocDirty,
                         testing::Values(1, 8, 16, 24, 48, 64, 100, 512, 1000, kTinyMax, kTinyMax + 1, 2000, 4096, 5000,
                                         8192, 10000, 20000, kMidMax, kMidMax + 1, 65536, 70000, 200000, 524288,
                                         kRunMax, kRunMax + 1, 3 * kMiB));

TEST(Calloc, BlocksThatShrankOrGrewLeaveDirtThatIsCleared) {
  /* "Known to be zero" must not survive a realloc that dirtied the tail, in place or not. */
  for (size_t small : {size_t{40000}, size_t{100000}, kRunMax, 2 * kMiB}) {
    for (size_t large : {size_t{150000}, size_t{900000}, 3 * kMiB, 9 * kMiB}) {
      if (small >= large) continue;
      for (int round = 0; round < 4; round++) {
        void *block = hakmem_calloc(1, large);
        ASSERT_NE(block, nullptr);
        std::memset(block, 0xcc, large);
        block = hakmem_realloc(block, small);
        ASSERT_NE(block, nullptr);
        void *other = CallocChecked(1, large - small);
        void *third = CallocChecked(1, large);
        block = hakmem_realloc(block, large);
        ASSERT_NE(block, nullptr);
        std::memset(block, 0xcc, hakmem_malloc_usable_size(block));
        std::memset(other, 0xcc, hakmem_malloc_usable_size(other));
        std::memset(third, 0xcc, hakmem_malloc_usable_size(third));
        hakmem_free(other);
        hakmem_free(block);
        hakmem_free(third);
      }
    }
  }
}

TEST(Calloc, OverflowIsNullAndEnomem) {
  struct {
    size_t count, size;
  } cases[] = {{SIZE_MAX, 2},           {2, SIZE_MAX},         {size_t{1} << 32, size_t{1} << 32},
               {SIZE_MAX, SIZE_MAX},    {SIZE_MAX / 2 + 2, 2}, {size_t{1} << 63, 2},
               {SIZE_MAX / 16 + 1, 16}, {3, SIZE_MAX / 3 + 1}, {1, size_t{PTRDIFF_MAX} + 1},
               {SIZE_MAX, 1},           {1, SIZE_MAX},         {size_t{1} << 31, size_t{1} << 32},
               {SIZE_MAX / 3 + 1, 3},   {PTRDIFF_MAX, 1},      {size_t{1} << 16, size_t{1} << 47}};
  for (auto &c : cases) {
    errno = 0;
    EXPECT_EQ(hakmem_calloc(c.count, c.size), nullptr) << c.count << " " << c.size;
    EXPECT_EQ(errno, ENOMEM) << c.count << " " << c.size;
  }
}

TEST(Calloc, ZeroCountOrSizeGivesABlock) {
  for (size_t other : {size_t{0}, size_t{1}, size_t{100}, SIZE_MAX}) {
    void *a = hakmem_calloc(0, other);
    void *b = hakmem_calloc(other, 0);
    EXPECT_NE(a, nullptr);
    EXPECT_NE(b, nullptr);
    EXPECT_NE(a, b);
    hakmem_free(a);
    hakmem_free(b);
  }
}

TEST(Calloc, ProductsAreNotRoundedDown) {
  for (size_t count : {size_t{3}, size_t{7}, size_t{100}, size_t{1000}, size_t{65537}}) {
    for (size_t size : {size_t{1}, size_t{5}, size_t{24}, size_t{100}}) {
      void *block = CallocChecked(count, size);
      ASSERT_NE(block, nullptr);
      EXPECT_GE(hakmem_malloc_usable_size(block), count * size);
      hakmem_free(block);
    }
  }
}

} /* namespace */
