// base/mask.h, against loops that look at one bit at a time.
#include "base/mask.h"

#include <gtest/gtest.h>

#include <random>

namespace {

bool AllSet(uint32_t mask, unsigned first, unsigned count) {
  if (first + count > 32) return false;
  for (unsigned i = first; i < first + count; i++) {
    if ((mask >> i & 1) == 0) return false;
  }
  return true;
}

unsigned LongestRow(uint32_t mask) {
  unsigned longest = 0, length = 0;
  for (unsigned i = 0; i < 32; i++) {
    length = (mask >> i & 1) != 0 ? length + 1 : 0;
    if (length > longest) longest = length;
  }
  return longest;
}

// Dense, sparse and blocky masks: random ones alone have no long rows.
uint32_t Draw(std::mt19937 *random, int i) {
  uint32_t mask = (*random)();
  if (i % 4 == 1) mask |= (*random)() | (*random)();
  if (i % 4 == 2) mask &= (*random)();
  if (i % 4 == 3) mask |= hk_mask_range(mask % 20, 1 + mask / 32 % 12);
  return mask;
}

TEST(Mask, CountsTheBitsThatAreSet) {
  EXPECT_EQ(hk_mask_count(0), 0u);
  EXPECT_EQ(hk_mask_count(HK_MASK_ALL), 32u);
  std::mt19937 random(1);
  for (int i = 0; i < 20000; i++) {
    uint32_t mask = Draw(&random, i);
    unsigned count = 0;
    for (unsigned bit = 0; bit < 32; bit++) count += mask >> bit & 1;
    ASSERT_EQ(hk_mask_count(mask), count) << mask;
  }
}

TEST(Mask, ARangeHasItsBitsAndNoOthers) {
  for (unsigned count = 1; count <= 32; count++) {
    for (unsigned first = 0; first + count <= 32; first++) {
      uint32_t mask = hk_mask_range(first, count);
      for (unsigned i = 0; i < 32; i++)
        ASSERT_EQ(mask >> i & 1, i >= first && i < first + count) << first << " " << count;
    }
  }
}

TEST(Mask, MultiplesAreEachStepsBits) {
  for (unsigned step = 1; step <= 32; step *= 2) {
    for (unsigned i = 0; i < 32; i++) ASSERT_EQ(hk_mask_multiples(step) >> i & 1, i % step == 0) << step << " " << i;
  }
}

TEST(Mask, ARowStartsWhereAllItsBitsAreSet) {
  std::mt19937 random(1);
  for (int n = 0; n < 2000; n++) {
    uint32_t mask = n == 0 ? HK_MASK_ALL : Draw(&random, n);
    for (unsigned count = 1; count <= 32; count++) {
      uint32_t starts = hk_mask_row_starts(mask, count);
      for (unsigned i = 0; i < 32; i++)
        ASSERT_EQ((starts >> i & 1) != 0, AllSet(mask, i, count)) << mask << " " << count;
    }
  }
}

TEST(Mask, TheLongestRowIsAsASlowSearchFindsIt) {
  EXPECT_EQ(hk_mask_longest_row(0), 0u);
  EXPECT_EQ(hk_mask_longest_row(HK_MASK_ALL), 32u);
  for (unsigned count = 1; count <= 32; count++) {
    for (unsigned first = 0; first + count <= 32; first++) {
      ASSERT_EQ(hk_mask_longest_row(hk_mask_range(first, count)), count) << first;
    }
  }
  std::mt19937 random(2);
  for (int n = 0; n < 200000; n++) {
    uint32_t mask = Draw(&random, n);
    ASSERT_EQ(hk_mask_longest_row(mask), LongestRow(mask)) << mask;
  }
}

}  // namespace
