// policy/ahead: how much memory may be resident that the program has not written.
#include "policy/ahead.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "policy/price.h"

namespace {

size_t Most(uint64_t price, unsigned filled, size_t in_use_bytes, size_t unknown_bytes = 0) {
  hk_ahead_t ahead = {.unknown_bytes = unknown_bytes, .ahead_bytes = 0};
  hk_ahead_terms_t terms = {.ns_per_mib_second = price, .in_use_bytes = in_use_bytes, .filled = filled};
  return hk_ahead_most_bytes(&ahead, &terms);
}

TEST(Ahead, WhoHasFilledNothingHasNothingAhead) { EXPECT_EQ(Most(HK_PRICE_LEAST, 0, HK_TIB), 0u); }

TEST(Ahead, EachBlockInARowDoublesTheShare) {
  EXPECT_EQ(Most(HK_PRICE_BALANCED, 1, HK_GIB), HK_GIB / 8);
  EXPECT_EQ(Most(HK_PRICE_BALANCED, 2, HK_GIB), HK_GIB / 4);
  EXPECT_EQ(Most(HK_PRICE_BALANCED, 3, HK_GIB), HK_GIB / 2);
  EXPECT_EQ(Most(HK_PRICE_BALANCED, HK_AHEAD_ROW, HK_GIB), HK_GIB);
  EXPECT_EQ(Most(HK_PRICE_BALANCED, HK_AHEAD_ROW + 1, HK_GIB), HK_GIB);
}

TEST(Ahead, TheShareFallsWithThePrice) {
  EXPECT_EQ(Most(HK_PRICE_FAST, HK_AHEAD_ROW, HK_GIB), HK_AHEAD_MOST_SHARE * HK_GIB);
  size_t before = SIZE_MAX;
  for (uint64_t price = HK_PRICE_LEAST; price <= HK_PRICE_MOST; price *= 2) {
    size_t now = Most(price, HK_AHEAD_ROW, HK_GIB);
    EXPECT_LE(now, before);
    before = now;
  }
  EXPECT_LT(Most(HK_PRICE_LEAN, 1, HK_GIB), HK_GIB / 64);
  EXPECT_LE(Most(HK_PRICE_LEAN, HK_AHEAD_ROW, HK_GIB), HK_GIB / 10);
}

TEST(Ahead, WhatIsNotSeenFilledDoesNotCountAsWritten) {
  EXPECT_EQ(Most(HK_PRICE_BALANCED, HK_AHEAD_ROW, 3 * HK_GIB, HK_GIB), 2 * HK_GIB);
  EXPECT_EQ(Most(HK_PRICE_BALANCED, HK_AHEAD_ROW, HK_GIB, 3 * HK_GIB), 0u);
}

TEST(Ahead, WhatIsAheadAlreadyCounts) {
  hk_ahead_t ahead = {.unknown_bytes = 0, .ahead_bytes = 10};
  hk_ahead_terms_t terms = {.ns_per_mib_second = HK_PRICE_BALANCED, .in_use_bytes = 100, .filled = HK_AHEAD_ROW};
  EXPECT_TRUE(hk_ahead_may(&ahead, &terms, 90));
  EXPECT_FALSE(hk_ahead_may(&ahead, &terms, 91));
  ahead.ahead_bytes = 1000;
  EXPECT_FALSE(hk_ahead_may(&ahead, &terms, 1));
}

}  // namespace
