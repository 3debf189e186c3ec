/* tests/api/sizes_test.cc - malloc, usable_size and good_size for every size there is. */
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/free_blocks.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/shadow_model.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

/* Each band's edge, one to each side, and a few places where a class or a slab or a page ends. */
std::vector<size_t> EdgeSizes() {
  std::vector<size_t> sizes = {0, 1, 7, 8, 9};
  for (size_t edge : {size_t{16}, size_t{32}, size_t{64}, size_t{128}, size_t{256}, size_t{512}, kTinyMax,
                      2 * kKiB,   4 * kKiB,   8 * kKiB,   16 * kKiB,   kMidMax,     40 * kKiB,   64 * kKiB,
                      128 * kKiB, 512 * kKiB, 960 * kKiB, kRunMax,     2 * kMiB,    4 * kMiB,    10 * kMiB}) {
    for (size_t delta : {size_t{0}, size_t{1}, size_t{2}, size_t{15}, size_t{16}, size_t{17}}) {
      sizes.push_back(edge + delta);
      if (delta <= edge) sizes.push_back(edge - delta);
    }
  }
  return sizes;
}

TEST(Sizes, EverySizeTo70000IsWritableToItsLastByte) {
  for (size_t size = 0; size <= 70000; size++) {
    char *block = static_cast<char *>(hakmem_malloc(size));
    ASSERT_NE(block, nullptr) << size;
    ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % 16, 0u) << size;
    size_t usable = hakmem_malloc_usable_size(block);
    ASSERT_GE(usable, size);
    std::memset(block, static_cast<int>(size & 0xff), usable);
    ASSERT_EQ(hakmem_malloc_usable_size(block), usable) << size;
    hakmem_free(block);
  }
}

TEST(Sizes, EverySizeTo70000AliveTogetherWithItsNeighbours) {
  /* The last 300 blocks live at any time: neighbours in size often are neighbours in memory. */
  ShadowModel model;
  TestRandom random(SeedFor("EverySizeTo70000AliveTogether"));
  for (size_t size = 0; size <= 70000; size++) {
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr) << size;
    ASSERT_TRUE(model.Add(block, size, hakmem_malloc_usable_size(block), 16)) << model.problem();
    while (model.count() > 300) {
      ASSERT_TRUE(FreeBlock(&model, random.Below(model.count()))) << model.problem();
    }
  }
  ASSERT_TRUE(FreeBlocks(&model)) << model.problem();
}

TEST(Sizes, BandEdgesHoldTheirBytesTogether) {
  ShadowModel model;
  for (int round = 0; round < 3; round++) {
    for (size_t size : EdgeSizes()) {
      void *block = hakmem_malloc(size);
      ASSERT_NE(block, nullptr) << size;
      ASSERT_TRUE(model.Add(block, size, hakmem_malloc_usable_size(block), 16)) << model.problem();
    }
    ASSERT_TRUE(model.CheckAll()) << model.problem();
    /* Leave every second one: the next round's blocks come to lie between them. */
    for (size_t index = model.count(); index-- > 0;) {
      if (index % 2 == 0 && round < 2) continue;
      ASSERT_TRUE(FreeBlock(&model, index)) << model.problem();
    }
  }
}

TEST(Sizes, ZeroGivesBlocksOfTheirOwn) {
  std::vector<void *> blocks;
  ShadowModel model;
  for (int i = 0; i < 1000; i++) {
    void *block = hakmem_malloc(0);
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(hakmem_check_owned(block));
    ASSERT_TRUE(model.Add(block, 0, hakmem_malloc_usable_size(block), 16)) << model.problem();
    blocks.push_back(block);
  }
  for (void *block : blocks) hakmem_free(block);
}

TEST(Sizes, TooLargeIsNullAndEnomem) {
  const size_t max = PTRDIFF_MAX;
  for (size_t size :
       {max + 1, max + 2, max + 4096, SIZE_MAX / 2 + 1, SIZE_MAX - (size_t{2} << 20), SIZE_MAX - 65536,
        SIZE_MAX - 65535, SIZE_MAX - 4096, SIZE_MAX - 4095, SIZE_MAX - 16, SIZE_MAX - 15, SIZE_MAX - 1, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(hakmem_malloc(size), nullptr) << size;
    EXPECT_EQ(errno, ENOMEM) << size;
  }
  /* Allowed by the interface, but no machine has it. Rounding up must not make it small. */
  for (size_t size : {max, max - 1, max - 15, max - 4096, max - 65536, max - (size_t{2} << 20), size_t{1} << 62,
                      size_t{1} << 48, (size_t{1} << 48) - 4096}) {
    errno = 0;
    EXPECT_EQ(hakmem_malloc(size), nullptr) << size;
    EXPECT_EQ(errno, ENOMEM) << size;
  }
  void *after = hakmem_malloc(100);
  EXPECT_NE(after, nullptr);
  hakmem_free(after);
}

TEST(Sizes, GoodSizeIsTheUsableSizeTo40000) {
  for (size_t size = 0; size <= 40000; size++) {
    size_t good = hakmem_good_size(size);
    ASSERT_GE(good, size);
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(hakmem_malloc_usable_size(block), good) << size;
    hakmem_free(block);
  }
}

TEST(Sizes, GoodSizeIsTheUsableSizeAbove) {
  TestRandom random(SeedFor("GoodSizeAbove"));
  std::vector<size_t> sizes = EdgeSizes();
  for (int i = 0; i < 400; i++) sizes.push_back(random.LogBetween(40000, 64 * kMiB));
  for (size_t size : sizes) {
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr) << size;
    ASSERT_EQ(hakmem_malloc_usable_size(block), hakmem_good_size(size)) << size;
    hakmem_free(block);
  }
}

TEST(Sizes, GoodSizeIsAFixedPointAndMonotone) {
  size_t last = 0;
  for (size_t size = 0; size <= 2 * kMiB; size += size < 40000 ? 1 : 509) {
    size_t good = hakmem_good_size(size);
    ASSERT_GE(good, last) << size;
    ASSERT_EQ(hakmem_good_size(good), good) << size;
    last = good;
  }
}

TEST(Sizes, GoodSizeWastesLittle) {
  /* Classes are 16 bytes apart to 1 KiB, 8 a doubling to 32 KiB, whole slabs then: 16 bytes, an eighth, a slab. */
  for (size_t size = 1; size <= kRunMax; size += size < kMidMax ? 1 : 101) {
    size_t waste = hakmem_good_size(size) - size;
    if (size <= kTinyMax) {
      ASSERT_LT(waste, 16u) << size;
    } else if (size <= kMidMax) {
      ASSERT_LE(waste, size / 8 + 16) << size;
    } else {
      ASSERT_LT(waste, 64 * kKiB) << size;
    }
  }
}

TEST(Sizes, GoodSizeOfTheImpossibleReturns) {
  for (size_t size : {size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} + 1, SIZE_MAX - 4095, SIZE_MAX - 1, SIZE_MAX}) {
    /* No block has it, so the value says nothing; but it must not be less than the request. */
    EXPECT_GE(hakmem_good_size(size), size) << size;
  }
}

TEST(Sizes, UsableSizeIsStableForTheBlocksLife) {
  ShadowModel model;
  for (size_t size : EdgeSizes()) {
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(model.Add(block, size, hakmem_malloc_usable_size(block), 16)) << model.problem();
  }
  for (int round = 0; round < 3; round++) {
    hakmem_collect();
    for (size_t index = 0; index < model.count(); index++) {
      ASSERT_TRUE(model.Check(index, hakmem_malloc_usable_size(model.at(index).start))) << model.problem();
    }
    std::vector<void *> others;
    for (int i = 0; i < 2000; i++) others.push_back(hakmem_malloc(static_cast<size_t>(i) * 37));
    for (void *other : others) hakmem_free(other);
  }
  for (size_t index = 0; index < model.count(); index++) hakmem_free(model.at(index).start);
}

TEST(Sizes, UsableSizeOfABlockIsTheSameForEveryThread) {
  for (size_t size : {1, 100, 1024, 5000, 32768, 40000, 2000000}) {
    void *own = hakmem_malloc(size), *others = nullptr;
    size_t usable = hakmem_malloc_usable_size(own), seen = 0, seen_there = 0;
    std::thread([own, size, &others, &seen, &seen_there] {
      seen = hakmem_malloc_usable_size(own);
      others = hakmem_malloc(size);
      seen_there = hakmem_malloc_usable_size(others);
    }).join();
    EXPECT_EQ(seen, usable) << size;
    EXPECT_EQ(hakmem_malloc_usable_size(others), seen_there) << size << ", of a thread that has ended";
    hakmem_free(own);
    hakmem_free(others);
  }
}

TEST(Sizes, UsableSizeOfNullIsZero) { EXPECT_EQ(hakmem_malloc_usable_size(nullptr), 0u); }

TEST(Sizes, FreedMemoryIsUsedAgain) {
  /* A loop that frees what it takes must not grow: in no band. */
  for (size_t size : {size_t{16}, size_t{100}, kTinyMax, size_t{1500}, size_t{5000}, kMidMax, size_t{50000},
                      size_t{200000}, kRunMax, size_t{3} << 20}) {
    size_t before = 0;
    for (int i = 0; i < 4000; i++) {
      char *block = static_cast<char *>(hakmem_malloc(size));
      ASSERT_NE(block, nullptr);
      block[0] = 1;
      block[size - 1] = 1;
      hakmem_free(block);
      if (i == 100) before = ReadProcessMemory().virtual_bytes;
    }
    EXPECT_LE(ReadProcessMemory().virtual_bytes, before + 8 * kMiB) << size;
  }
}

TEST(Sizes, ALiveBlockMayHoldAnyBytes) {
  /* free compares the block's bytes with those of a free block. Misuse would end this program. */
  for (size_t size : {size_t{16}, size_t{64}, size_t{2000}}) {
    std::set<void *> blocks;
    for (unsigned i = 0; i <= UINT16_MAX; i++) {
      uint16_t words[8];
      std::fill(std::begin(words), std::end(words), static_cast<uint16_t>(i));
      void *block = hakmem_malloc(size);
      std::memcpy(block, words, sizeof words);
      ASSERT_GE(hakmem_malloc_usable_size(block), size) << i;
      hakmem_free(block);
      blocks.insert(block);
    }
    EXPECT_LE(blocks.size(), 100u) << size;
  }
}

TEST(Sizes, VersionIsTheHeaders) {
  char expected[40];
  std::snprintf(expected, sizeof expected, "%d.%d.%d", HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR,
                HAKMEM_VERSION_PATCH);
  EXPECT_STREQ(hakmem_version(), expected);
}

} /* namespace */
