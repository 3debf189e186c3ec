/* tests/api/aligned_resize_test.cc - hakmem_aligned_calloc and hakmem_aligned_realloc: zero, alignment and contents
 * through every pair of bands, and in place where the block may stay. */
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/shadow_model.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

const std::vector<size_t> kSizes = {1, 24, 1000, 5000, 32768, 32769, 65537, 300000, kMiB + 1};
const std::vector<size_t> kAlignments = {1, 32, 64, 4096, 32768, 65536, 131072, 2 * kMiB, 8 * kMiB};

bool IsAligned(const void *block, size_t alignment) { return reinterpret_cast<uintptr_t>(block) % alignment == 0; }

bool IsNotZero(unsigned char byte) { return byte != 0; }

void FillBytes(void *start, size_t size, size_t seed) {
  unsigned char *bytes = static_cast<unsigned char *>(start);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<unsigned char>((i * 167 + (i >> 8) * 13 + seed) >> 1);
}

bool HasBytes(const void *start, size_t size, size_t seed) {
  const unsigned char *bytes = static_cast<const unsigned char *>(start);
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != static_cast<unsigned char>((i * 167 + (i >> 8) * 13 + seed) >> 1)) return false;
  }
  return true;
}

void ResizeEveryBandToEveryBand(size_t alignment) {
  for (size_t from : kSizes) {
    for (size_t to : kSizes) {
      void *block = hakmem_aligned_alloc(alignment, from);
      ASSERT_NE(block, nullptr);
      FillBytes(block, from, to);
      void *resized = hakmem_aligned_realloc(block, alignment, to);
      ASSERT_NE(resized, nullptr);
      ASSERT_TRUE(IsAligned(resized, alignment)) << alignment << ": " << from << " to " << to;
      ASSERT_TRUE(HasBytes(resized, from < to ? from : to, to)) << alignment << ": " << from << " to " << to;
      ASSERT_GE(hakmem_malloc_usable_size(resized), to);
      ASSERT_TRUE(hakmem_check_owned(resized));
      if (resized != block) {
        ASSERT_FALSE(hakmem_check_owned(block)) << "the old block is freed";
      }
      hakmem_free(resized);
    }
  }
}

TEST(AlignedRealloc, KeepsAlignmentAndContents) {
  for (size_t alignment : kAlignments) ResizeEveryBandToEveryBand(alignment);
}

TEST(AlignedRealloc, KeepsThemWhileEveryBlockIsSampled) {
  if (!hakmem_profile_start(1)) GTEST_SKIP() << "this variant has no profile";
  for (size_t alignment : kAlignments) ResizeEveryBandToEveryBand(alignment);
  EXPECT_TRUE(hakmem_profile_stop());
}

TEST(AlignedRealloc, TakesABlockOfAnotherAlignment) {
  for (size_t size : kSizes) {
    for (size_t alignment : kAlignments) {
      void *block = hakmem_malloc(size);
      FillBytes(block, size, alignment);
      block = hakmem_aligned_realloc(block, alignment, size);
      ASSERT_TRUE(IsAligned(block, alignment)) << alignment << " " << size;
      ASSERT_TRUE(HasBytes(block, size, alignment));
      hakmem_free(block);
    }
  }
}

TEST(AlignedRealloc, MovesNothingWhereTheBlockMayStay) {
  char *small = static_cast<char *>(hakmem_aligned_alloc(64, 640));
  EXPECT_EQ(hakmem_aligned_realloc(small, 64, hakmem_malloc_usable_size(small)), small);
  hakmem_free(small);
  /* A shrinking run or large block gives up its end. */
  for (size_t size : {size_t{900000}, 8 * kMiB}) {
    void *block = hakmem_aligned_alloc(4096, size);
    hakmem_stats_events_t before, after;
    ASSERT_EQ(hakmem_stats_get_events(&before, sizeof before), 0);
    EXPECT_EQ(hakmem_aligned_realloc(block, 4096, size - size / 4), block);
    ASSERT_EQ(hakmem_stats_get_events(&after, sizeof after), 0);
    EXPECT_EQ(after.realloc_in_place, before.realloc_in_place + 1);
    hakmem_free(block);
  }
}

TEST(AlignedRealloc, OfNullAllocatesAndToZeroFrees) {
  void *block = hakmem_aligned_realloc(nullptr, 256, 1000);
  EXPECT_TRUE(IsAligned(block, 256));
  EXPECT_EQ(hakmem_aligned_realloc(block, 256, 0), nullptr);
  EXPECT_FALSE(hakmem_check_owned(block));
}

TEST(AlignedRealloc, KeepsTheBlockOnFailure) {
  for (size_t alignment : {size_t{16}, size_t{64}, size_t{4096}}) {
    void *block = hakmem_aligned_alloc(alignment, 1000);
    FillBytes(block, 1000, 1);
    errno = 0;
    EXPECT_EQ(hakmem_aligned_realloc(block, alignment, SIZE_MAX - 4096), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(hakmem_aligned_realloc(block, 48, 2000), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_TRUE(HasBytes(block, 1000, 1));
    hakmem_free(block);
  }
}

TEST(AlignedCalloc, IsAlignedAndZeroAfterDirtyBlocks) {
  TestRandom random(SeedFor("AlignedCalloc"));
  for (size_t round = 0; round < Scaled(3, 1); round++) {
    for (size_t alignment : kAlignments) {
      for (size_t size : kSizes) {
        unsigned char *dirty = static_cast<unsigned char *>(hakmem_aligned_alloc(alignment, size));
        std::memset(dirty, 0xee, hakmem_malloc_usable_size(dirty));
        hakmem_free(dirty);
        unsigned char *block = static_cast<unsigned char *>(hakmem_aligned_calloc(alignment, 1, size));
        ASSERT_NE(block, nullptr);
        ASSERT_TRUE(IsAligned(block, alignment)) << alignment << " " << size;
        ASSERT_EQ(std::find_if(block, block + size, IsNotZero), block + size) << alignment << " " << size;
        hakmem_free(block);
      }
    }
    if (round == 0) (void)hakmem_profile_start(random.Between(1, 100000)); /* the further rounds have samples */
  }
  (void)hakmem_profile_stop();
}

TEST(AlignedCalloc, LeavesFreshMemoryUntouched) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's shadow counts as resident";
  size_t before = ReadProcessMemory().resident_bytes;
  void *block = hakmem_aligned_calloc(4096, 1, size_t{1} << 30);
  ASSERT_NE(block, nullptr);
  EXPECT_LT(ReadProcessMemory().resident_bytes, before + 16 * kMiB);
  hakmem_free(block);
}

TEST(AlignedCalloc, RefusesAsCallocAndAlignedAlloc) {
  errno = 0;
  EXPECT_EQ(hakmem_aligned_calloc(64, SIZE_MAX / 2, 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(hakmem_aligned_calloc(48, 1, 100), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 4321;
  void *block = hakmem_aligned_calloc(64, 0, 100);
  EXPECT_TRUE(IsAligned(block, 64));
  EXPECT_EQ(errno, 4321);
  hakmem_free(block);
}

} /* namespace */
