// policy/price: costs against a sum gap by gap; the break-even time; numbers at their limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/units.h"
#include "policy/price.h"
#include "scale.h"
#include "test_random.h"

using namespace hk_test;

namespace {

struct Gap {
  size_t bytes;
  uint64_t ms;
};

// One gap's cost by the sentence in price.h, in KiB x ms.
uint64_t CostOf(const hk_price_t &price, const Gap &gap, unsigned candidate, bool is_open) {
  uint64_t kib = (gap.bytes + HK_KIB - 1) / HK_KIB, timeout_ms = price.timeout_ms[candidate];
  if (gap.ms <= timeout_ms) return kib * gap.ms;
  return kib * (timeout_ms + price.purge_ms + (is_open ? 0 : price.fault_ms));
}

TEST(Price, Limits) {
  hk_price_t price;
  EXPECT_TRUE(hk_price_init(&price, HK_PRICE_MIN));
  EXPECT_TRUE(hk_price_init(&price, HK_PRICE_MAX));
  hk_price_t before = price;
  EXPECT_FALSE(hk_price_init(&price, HK_PRICE_MIN - 1));
  EXPECT_FALSE(hk_price_init(&price, HK_PRICE_MAX + 1));
  EXPECT_FALSE(hk_price_init(&price, 0));
  EXPECT_EQ(memcmp(&before, &price, sizeof price), 0);
}

TEST(Price, BreakEvenIsWhereKeepingCostsWhatGivingBackDoes) {
  for (uint64_t ns : {HK_PRICE_MIN, HK_PRICE_FAST, HK_PRICE_BALANCED, HK_PRICE_LEAN, HK_PRICE_MAX}) {
    hk_price_t price;
    ASSERT_TRUE(hk_price_init(&price, ns));
    EXPECT_EQ(price.timeout_ms[HK_PRICE_BREAK_EVEN], price.purge_ms + price.fault_ms);
    EXPECT_TRUE(std::is_sorted(price.timeout_ms, price.timeout_ms + HK_PRICE_CANDIDATES));
    EXPECT_EQ(price.timeout_ms[0], 0u);
    EXPECT_EQ(price.timeout_ms[HK_PRICE_CANDIDATES - 1], HK_PRICE_NEVER);
    double kept_ns = static_cast<double>(price.timeout_ms[HK_PRICE_BREAK_EVEN]) * static_cast<double>(ns) / 1000;
    EXPECT_NEAR(kept_ns / static_cast<double>(HK_PRICE_PURGE_NS + HK_PRICE_FAULT_NS), 1.0, 0.06) << ns;
  }
}

TEST(Price, SumsAreThoseOfSingleGaps) {
  TestRandom random(SeedFor("sums"));
  for (size_t round = 0; round < Scaled(300, 3); round++) {
    hk_price_t price;
    ASSERT_TRUE(hk_price_init(&price, random.LogBetween(HK_PRICE_MIN, HK_PRICE_MAX)));
    hk_price_gaps_t gaps = {};
    uint64_t cost[2][HK_PRICE_CANDIDATES] = {}, give[HK_PRICE_CANDIDATES] = {}, least = 0;
    for (size_t i = random.Below(50); i-- > 0;) {
      Gap gap = {random.LogBetween(1, HK_GIB), random.LogBetween(0, 10'000'000)};
      if (random.OneIn(3)) gap.ms = price.timeout_ms[random.Below(HK_PRICE_CANDIDATES - 1)] + random.Below(2);
      hk_price_add_gap(&price, &gaps, gap.bytes, gap.ms);
      for (unsigned k = 0; k < HK_PRICE_CANDIDATES; k++) {
        cost[0][k] += CostOf(price, gap, k, false);
        cost[1][k] += CostOf(price, gap, k, true);
        if (gap.ms <= price.timeout_ms[k]) give[k] += (gap.bytes + HK_KIB - 1) / HK_KIB * price.purge_ms;
      }
      uint64_t kib = (gap.bytes + HK_KIB - 1) / HK_KIB;
      least += kib * std::min(gap.ms, price.purge_ms + price.fault_ms);
    }
    for (unsigned k = 0; k < HK_PRICE_CANDIDATES; k++) {
      ASSERT_EQ(hk_price_cost(&price, &gaps, k, false), cost[0][k]);
      ASSERT_EQ(hk_price_cost(&price, &gaps, k, true), cost[1][k]);
      ASSERT_EQ(hk_price_purge_cost(&price, &gaps, k), give[k]);
    }
    ASSERT_EQ(hk_price_least_cost(&price, &gaps, false), least);
  }
}

TEST(Price, SumsStopAtTheirLimit) {
  hk_price_t price;
  ASSERT_TRUE(hk_price_init(&price, HK_PRICE_BALANCED));
  hk_price_gaps_t gaps = {};
  for (int i = 0; i < 100; i++) hk_price_add_gap(&price, &gaps, size_t{1} << 47, UINT64_MAX);
  EXPECT_EQ(hk_price_cost(&price, &gaps, HK_PRICE_CANDIDATES - 1, false), UINT64_MAX);
  EXPECT_LT(hk_price_cost(&price, &gaps, 0, false), UINT64_MAX);
  EXPECT_EQ(hk_price_ns(&price, UINT64_MAX),
            static_cast<uint64_t>(static_cast<unsigned __int128>(UINT64_MAX) * HK_PRICE_BALANCED / (1024 * 1000)));
  ASSERT_TRUE(hk_price_init(&price, HK_PRICE_MAX));
  EXPECT_EQ(hk_price_ns(&price, UINT64_MAX), UINT64_MAX);
}

}  // namespace
