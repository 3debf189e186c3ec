// policy/ahead: how much memory may be resident that the program has not written.
#include "policy/ahead.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "policy/price.h"

namespace {

size_t Room(uint64_t price, unsigned filled, size_t in_use_bytes, const hk_ahead_t &ahead = {}) {
  hk_ahead_terms_t terms = {.ns_per_mib_second = price, .in_use_bytes = in_use_bytes, .filled = filled};
  return hk_ahead_room(&ahead, &terms);
}

TEST(Ahead, OneFilledBlockEarnsNothing) {
  EXPECT_EQ(Room(HK_PRICE_MIN, 0, HK_TIB), 0u);
  EXPECT_EQ(Room(HK_PRICE_MIN, 1, HK_TIB), 0u);
}

TEST(Ahead, EachFurtherOneEarnsAsMuchUpToTheWholeShare) {
  for (unsigned filled = 2; filled <= HK_AHEAD_ROW; filled++) {
    EXPECT_NEAR(static_cast<double>(Room(HK_PRICE_BALANCED, filled, HK_GIB)),
                static_cast<double>(HK_GIB * (filled - 1) / (HK_AHEAD_ROW - 1)), HK_GIB / 1024.0);
  }
  EXPECT_EQ(Room(HK_PRICE_BALANCED, HK_AHEAD_ROW, HK_GIB), HK_GIB);
  EXPECT_EQ(Room(HK_PRICE_BALANCED, HK_AHEAD_ROW + 1, HK_GIB), HK_GIB);
}

TEST(Ahead, TheShareFallsWithThePrice) {
  EXPECT_EQ(Room(HK_PRICE_FAST, HK_AHEAD_ROW, HK_GIB), HK_AHEAD_MAX_TIMES * HK_GIB);
  size_t before = SIZE_MAX;
  for (uint64_t price = HK_PRICE_MIN; price <= HK_PRICE_MAX; price *= 2) {
    size_t now = Room(price, HK_AHEAD_ROW, HK_GIB);
    EXPECT_LE(now, before);
    before = now;
  }
  EXPECT_LE(Room(HK_PRICE_LEAN, HK_AHEAD_ROW, HK_GIB), HK_GIB / 10);
}

TEST(Ahead, MemoryThatIsNotSeenFilledDoesNotCountAsWritten) {
  hk_ahead_t ahead = {.unknown_bytes = HK_GIB, .ahead_bytes = 0, .written_bytes = 0};
  EXPECT_EQ(Room(HK_PRICE_BALANCED, HK_AHEAD_ROW, 3 * HK_GIB, ahead), 2 * HK_GIB);
  EXPECT_EQ(Room(HK_PRICE_BALANCED, HK_AHEAD_ROW, HK_MIB, ahead), 0u);
}

TEST(Ahead, MemoryThatIsAheadAlreadyCounts) {
  hk_ahead_t ahead = {.unknown_bytes = 0, .ahead_bytes = 10, .written_bytes = 0};
  EXPECT_EQ(Room(HK_PRICE_BALANCED, HK_AHEAD_ROW, 100, ahead), 90u);
  ahead.ahead_bytes = 1000;
  EXPECT_EQ(Room(HK_PRICE_BALANCED, HK_AHEAD_ROW, 100, ahead), 0u);
}

TEST(Ahead, TheMostThatWasWrittenCountsAndIsForgotten) {
  hk_ahead_t ahead = {};
  hk_ahead_note_filled(&ahead, HK_GIB);
  hk_ahead_note_filled(&ahead, HK_MIB);
  EXPECT_EQ(Room(HK_PRICE_BALANCED, HK_AHEAD_ROW, 0, ahead), HK_GIB);
  for (unsigned i = 0; i < HK_AHEAD_FORGET_SHARE; i++) hk_ahead_note_block(&ahead);
  size_t later = Room(HK_PRICE_BALANCED, HK_AHEAD_ROW, 0, ahead);
  EXPECT_LT(later, HK_GIB / 2);
  EXPECT_GT(later, HK_GIB / 4);
}

}  // namespace
