// policy/cost: medians, bounds, and calls that say nothing.
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>

#include "base/units.h"
#include "policy/cost.h"

namespace {

constexpr uint64_t kExpected = 100000;

uint64_t CostAfter(std::initializer_list<uint64_t> ns_per_mib) {
  hk_cost_t cost = {};
  for (uint64_t ns : ns_per_mib) hk_cost_add(&cost, 2 * HK_MIB, 2 * ns);
  return hk_cost_ns(&cost, kExpected);
}

TEST(Cost, IsTheExpectedOneUntilEnoughCallsWereMeasured) {
  EXPECT_EQ(CostAfter({}), kExpected);
  EXPECT_EQ(CostAfter({200000, 200000, 200000, 200000}), kExpected);
  EXPECT_EQ(CostAfter({200000, 200000, 200000, 200000, 200000}), 200000u);
}

TEST(Cost, IsTheMedianInWhateverOrder) {
  EXPECT_EQ(CostAfter({900000, 200000, 210000, 190000, 5}), 200000u);
  EXPECT_EQ(CostAfter({5, 6, 200000, 900000, 900000}), 200000u) << "later calls do not count";
  EXPECT_EQ(CostAfter({300000, 300000, 300000, 300000, 300000, 1, 1, 1, 1, 1, 1}), 300000u);
}

TEST(Cost, IsBounded) {
  EXPECT_EQ(CostAfter({1, 1, 1, 1, 1}), kExpected / HK_COST_BOUND);
  EXPECT_EQ(CostAfter({UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2}),
            kExpected * HK_COST_BOUND);
}

TEST(Cost, NearTheExpectedOneIsWithinAQuarter) {
  for (uint64_t ns : {75000, 99000, 125000}) EXPECT_TRUE(hk_cost_is_near(ns, kExpected)) << ns;
  for (uint64_t ns : {74999, 125001, 0}) EXPECT_FALSE(hk_cost_is_near(ns, kExpected)) << ns;
}

TEST(Cost, CallsThatSayNothingAreNotCounted) {
  hk_cost_t cost = {};
  hk_cost_add(&cost, HK_COST_MIN_BYTES - 1, 1000);
  hk_cost_add(&cost, HK_COST_MAX_BYTES + 1, 1000);
  hk_cost_add(&cost, HK_MIB, 0);
  EXPECT_EQ(cost.count, 0u);
  hk_cost_add(&cost, HK_COST_MIN_BYTES, 1000);
  EXPECT_EQ(cost.ns_per_mib[0], 16000u);
}

}  // namespace
