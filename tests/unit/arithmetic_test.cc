// base/arithmetic: sums and products at the ends of their type.
#include "base/arithmetic.h"

#include <gtest/gtest.h>

namespace {

constexpr uint64_t kMost = UINT64_MAX;

TEST(Arithmetic, SumsStopAtTheEnd) {
  EXPECT_EQ(hk_add_saturating(2, 3), 5u);
  EXPECT_EQ(hk_add_saturating(kMost - 1, 1), kMost);
  EXPECT_EQ(hk_add_saturating(kMost, 1), kMost);
  EXPECT_EQ(hk_add_saturating(kMost, kMost), kMost);
  EXPECT_EQ(hk_add_saturating(kMost, 0), kMost);
}

TEST(Arithmetic, ProductsStopAtTheEnd) {
  EXPECT_EQ(hk_multiply_saturating(6, 7), 42u);
  EXPECT_EQ(hk_multiply_saturating(kMost, 0), 0u);
  EXPECT_EQ(hk_multiply_saturating(kMost, 1), kMost);
  EXPECT_EQ(hk_multiply_saturating(kMost / 2, 2), kMost - 1);
  EXPECT_EQ(hk_multiply_saturating(kMost / 2 + 1, 2), kMost);
  EXPECT_EQ(hk_multiply_saturating(uint64_t{1} << 32, uint64_t{1} << 32), kMost);
}

TEST(Arithmetic, DifferencesStopAtZero) {
  EXPECT_EQ(hk_subtract_to_zero(5, 3), 2u);
  EXPECT_EQ(hk_subtract_to_zero(3, 3), 0u);
  EXPECT_EQ(hk_subtract_to_zero(3, 5), 0u);
  EXPECT_EQ(hk_subtract_to_zero(0, kMost), 0u);
  EXPECT_EQ(hk_subtract_to_zero(kMost, 0), kMost);
}

TEST(Arithmetic, MultiplySaysWhenItOverflows) {
  size_t product = 1;
  EXPECT_TRUE(hk_multiply(0, SIZE_MAX, &product));
  EXPECT_EQ(product, 0u);
  EXPECT_TRUE(hk_multiply(SIZE_MAX, 1, &product));
  EXPECT_EQ(product, SIZE_MAX);
  EXPECT_TRUE(hk_multiply(UINT32_MAX, UINT32_MAX, &product));
  EXPECT_EQ(product, size_t{0xfffffffe00000001});
  EXPECT_FALSE(hk_multiply(size_t{1} << 32, size_t{1} << 32, &product));
  EXPECT_FALSE(hk_multiply(SIZE_MAX, 2, &product));
  EXPECT_FALSE(hk_multiply(SIZE_MAX / 2 + 1, 2, &product));
}

TEST(Arithmetic, SmallerAndLarger) {
  EXPECT_EQ(hk_smaller(1, kMost), 1u);
  EXPECT_EQ(hk_smaller(kMost, 1), 1u);
  EXPECT_EQ(hk_larger(0, kMost), kMost);
  EXPECT_EQ(hk_larger(kMost, 0), kMost);
  EXPECT_EQ(hk_smaller(7, 7), 7u);
  EXPECT_EQ(hk_larger(7, 7), 7u);
}

}  // namespace
