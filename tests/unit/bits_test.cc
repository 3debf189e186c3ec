// base/bits and base/units.
#include "base/bits.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace {

TEST(Bits, PowersOfTwo) {
  EXPECT_FALSE(hk_is_power_of_two(0));
  for (unsigned shift = 0; shift < 64; shift++) EXPECT_TRUE(hk_is_power_of_two(size_t{1} << shift)) << shift;
  for (unsigned shift = 2; shift < 64; shift++) {
    EXPECT_FALSE(hk_is_power_of_two((size_t{1} << shift) - 1)) << shift;
    EXPECT_FALSE(hk_is_power_of_two((size_t{1} << shift) + 1)) << shift;
  }
  EXPECT_FALSE(hk_is_power_of_two(SIZE_MAX));
}

TEST(Bits, AlignUp) {
  EXPECT_EQ(hk_align_up(0, 16), 0u);
  EXPECT_EQ(hk_align_up(1, 16), 16u);
  EXPECT_EQ(hk_align_up(16, 16), 16u);
  EXPECT_EQ(hk_align_up(17, 16), 32u);
  EXPECT_EQ(hk_align_up(17, 1), 17u);
  EXPECT_EQ(hk_align_up(SIZE_MAX - 15, 16), SIZE_MAX - 15);
}

TEST(Bits, AlignDown) {
  EXPECT_EQ(hk_align_down(0, 16), 0u);
  EXPECT_EQ(hk_align_down(15, 16), 0u);
  EXPECT_EQ(hk_align_down(16, 16), 16u);
  EXPECT_EQ(hk_align_down(SIZE_MAX, 4096), SIZE_MAX - 4095);
}

TEST(Bits, IsAligned) {
  EXPECT_TRUE(hk_is_aligned(0, 4096));
  EXPECT_TRUE(hk_is_aligned(8192, 4096));
  EXPECT_FALSE(hk_is_aligned(8191, 4096));
  EXPECT_FALSE(hk_is_aligned(2048, 4096));
  EXPECT_TRUE(hk_is_aligned(3, 1));
}

TEST(Bits, NextPowerOfTwo) {
  EXPECT_EQ(hk_next_power_of_two(1), 1u);
  EXPECT_EQ(hk_next_power_of_two(2), 2u);
  EXPECT_EQ(hk_next_power_of_two(3), 4u);
  EXPECT_EQ(hk_next_power_of_two(4096), 4096u);
  EXPECT_EQ(hk_next_power_of_two(4097), 8192u);
  EXPECT_EQ(hk_next_power_of_two((size_t{1} << 62) + 1), size_t{1} << 63);
  EXPECT_EQ(hk_next_power_of_two(size_t{1} << 63), size_t{1} << 63);
}

TEST(Bits, NextPowerOfTwoSaysWhenThereIsNone) {
  EXPECT_EQ(hk_next_power_of_two((size_t{1} << 63) + 1), 0u);
  EXPECT_EQ(hk_next_power_of_two(SIZE_MAX), 0u);
}

TEST(Bits, HighestAndLowestBit) {
  for (unsigned shift = 0; shift < 64; shift++) {
    EXPECT_EQ(hk_highest_bit(size_t{1} << shift), shift);
    EXPECT_EQ(hk_lowest_bit(size_t{1} << shift), shift);
    EXPECT_EQ(hk_highest_bit(SIZE_MAX >> shift), 63 - shift);
    EXPECT_EQ(hk_lowest_bit(SIZE_MAX << shift), shift);
  }
}

TEST(Units, AreWhatTheyAreCalled) {
  EXPECT_EQ(HK_KIB, 1u << 10);
  EXPECT_EQ(HK_MIB, 1u << 20);
  EXPECT_EQ(HK_GIB, 1u << 30);
  EXPECT_EQ(HK_TIB, size_t{1} << 40);
}

TEST(Units, GeometryFitsTogether) {
  EXPECT_EQ(HK_SUPERSLAB_SLABS * HK_SLAB_BYTES, HK_SUPERSLAB_BYTES);
  EXPECT_EQ(HK_REGION_COUNT * HK_REGION_SLABS * HK_SLAB_BYTES, size_t{1} << HK_ADDRESS_BITS);
  EXPECT_LT(HK_TINY_MAX_BYTES, HK_MID_MAX_BYTES);
  EXPECT_LT(HK_MID_MAX_BYTES, HK_RUN_MAX_BYTES);
}

}  // namespace
