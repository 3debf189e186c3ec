// policy/peak: what goes as the process's peak rises, and what that may cost.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "policy/peak.h"

namespace {

constexpr uint64_t kStart = 123456;
constexpr size_t kPeak = 100 * HK_MIB;
constexpr size_t kPlenty = HK_GIB;

class Peak : public testing::Test {
 protected:
  // At first the system tells kPeak, and nothing is to be done.
  void SetUp() override {
    ASSERT_TRUE(hk_price_init(&price_, HK_PRICE_BALANCED));
    ASSERT_TRUE(hk_peak_is_due(&peak_, &price_, kStart, kPlenty));
    ASSERT_EQ(NoteAt(kStart, kPeak, kPlenty), 0u);
  }

  size_t NoteAt(uint64_t now_ms, size_t peak_bytes, size_t purgeable_bytes) {
    return hk_peak_note(&peak_, &price_, now_ms, peak_bytes, purgeable_bytes);
  }
  size_t NoteLate(size_t peak_bytes, size_t purgeable_bytes) {
    return NoteAt(kStart + 100000, peak_bytes, purgeable_bytes);
  }

  // The time after which the budget is this many MiB.
  uint64_t TimeFor(uint64_t mib) const {
    uint64_t ns = mib * (price_.purge_ns + price_.fault_ns) * HK_PEAK_TIME_SHARE;
    return kStart + ns / 1000000 + 1;
  }

  hk_peak_t peak_ = {};
  hk_price_t price_ = {};
};

TEST_F(Peak, AsMuchGoesAsItRises) {
  EXPECT_EQ(NoteLate(kPeak, kPlenty), 0u);
  EXPECT_EQ(NoteLate(kPeak + 5 * HK_MIB, kPlenty), 5 * HK_MIB);
  hk_peak_settle(&peak_, 5 * HK_MIB, 5 * HK_MIB);
  EXPECT_EQ(NoteLate(kPeak + 5 * HK_MIB, kPlenty), 0u);
  EXPECT_EQ(NoteLate(kPeak + 7 * HK_MIB, kPlenty), 2 * HK_MIB);
}

TEST_F(Peak, WhatAThreadPurgesYetNoOtherPurgesAgain) {
  EXPECT_EQ(NoteLate(kPeak + 5 * HK_MIB, kPlenty), 5 * HK_MIB);
  EXPECT_EQ(NoteLate(kPeak + 6 * HK_MIB, kPlenty), HK_MIB);
}

TEST_F(Peak, NoMoreGoesThanIsSpare) { EXPECT_EQ(NoteLate(kPeak + 5 * HK_MIB, 3 * HK_MIB), 3 * HK_MIB); }

TEST_F(Peak, WhatCouldNotGoIsDueWhenItRisesAgain) {
  EXPECT_EQ(NoteLate(kPeak + 5 * HK_MIB, kPlenty), 5 * HK_MIB);
  hk_peak_settle(&peak_, 5 * HK_MIB, HK_MIB);
  EXPECT_EQ(NoteLate(kPeak + 5 * HK_MIB, kPlenty), 0u) << "it does not rise now";
  EXPECT_EQ(NoteLate(kPeak + 6 * HK_MIB, kPlenty), 5 * HK_MIB);
}

TEST_F(Peak, WhatWentBeyondTheRiseCountsForTheNextRises) {
  EXPECT_EQ(NoteLate(kPeak + 64 * HK_KIB, kPlenty), 64 * HK_KIB);
  hk_peak_settle(&peak_, 64 * HK_KIB, 2 * HK_MIB + 64 * HK_KIB);
  for (size_t mib = 1; mib <= 2; mib++) EXPECT_EQ(NoteLate(kPeak + mib * HK_MIB, kPlenty), 0u);
  EXPECT_EQ(NoteLate(kPeak + 3 * HK_MIB, kPlenty), HK_MIB - 64 * HK_KIB);
}

TEST_F(Peak, LessThanASlabWaits) {
  EXPECT_EQ(NoteLate(kPeak + 60 * HK_KIB, kPlenty), 0u);
  EXPECT_EQ(NoteLate(kPeak + 64 * HK_KIB, kPlenty), 64 * HK_KIB);
}

TEST_F(Peak, TheBudgetGrowsWithTime) {
  EXPECT_EQ(NoteAt(TimeFor(3), kPeak + 10 * HK_MIB, kPlenty), 3 * HK_MIB);
  hk_peak_settle(&peak_, 3 * HK_MIB, 3 * HK_MIB);
  EXPECT_EQ(NoteAt(TimeFor(3), kPeak + 11 * HK_MIB, kPlenty), 0u);
  EXPECT_EQ(NoteAt(TimeFor(5), kPeak + 12 * HK_MIB, kPlenty), 2 * HK_MIB);
}

TEST_F(Peak, TheBudgetHasWhatWentBeyondTheRise) {
  EXPECT_EQ(NoteAt(TimeFor(3), kPeak + HK_MIB, kPlenty), HK_MIB);
  hk_peak_settle(&peak_, HK_MIB, 2 * HK_MIB);
  EXPECT_EQ(NoteAt(TimeFor(3), kPeak + 10 * HK_MIB, kPlenty), HK_MIB);
}

TEST_F(Peak, TheBudgetDoesNotHaveWhatTheSystemRefused) {
  EXPECT_EQ(NoteAt(TimeFor(3), kPeak + 3 * HK_MIB, kPlenty), 3 * HK_MIB);
  hk_peak_settle(&peak_, 3 * HK_MIB, 0);
  EXPECT_EQ(NoteAt(TimeFor(3), kPeak + 4 * HK_MIB, kPlenty), 3 * HK_MIB);
}

TEST_F(Peak, AMachineOnWhichPurgesCostMoreHasASmallerBudget) {
  uint64_t three_ms = TimeFor(30);
  hk_price_set_costs(&price_, 3 * HK_PRICE_PURGE_NS, 3 * HK_PRICE_FAULT_NS);
  EXPECT_EQ(NoteAt(three_ms, kPeak + kPlenty, kPlenty), 10 * HK_MIB);
}

TEST_F(Peak, TheSystemIsNotAskedWhereMemoryIsCheap) {
  EXPECT_TRUE(hk_peak_is_due(&peak_, &price_, kStart + 1, kPlenty));
  ASSERT_TRUE(hk_price_init(&price_, HK_PRICE_BALANCED - 1));
  EXPECT_FALSE(hk_peak_is_due(&peak_, &price_, kStart + 2, kPlenty));
}

TEST_F(Peak, WhereMemoryIsDearerTheBudgetIsTheSame) {
  ASSERT_TRUE(hk_price_init(&price_, HK_PRICE_LEAN));
  EXPECT_EQ(NoteAt(TimeFor(3), kPeak + 10 * HK_MIB, kPlenty), 3 * HK_MIB);
}

TEST_F(Peak, ALateLowerPeakChangesNothing) {
  EXPECT_EQ(NoteLate(kPeak + 5 * HK_MIB, kPlenty), 5 * HK_MIB);
  EXPECT_EQ(NoteLate(kPeak + HK_MIB, kPlenty), 0u);
  EXPECT_EQ(NoteLate(kPeak + 6 * HK_MIB, kPlenty), HK_MIB);
}

TEST_F(Peak, WhereTheSystemDoesNotTellNothingGoes) {
  peak_ = {};
  EXPECT_EQ(NoteLate(0, kPlenty), 0u);
  EXPECT_EQ(NoteLate(0, kPlenty), 0u);
  EXPECT_EQ(NoteLate(kPeak, kPlenty), 0u) << "the first that it tells";
}

TEST_F(Peak, TheSystemIsAskedOnceInAMillisecond) {
  EXPECT_FALSE(hk_peak_is_due(&peak_, &price_, kStart, kPlenty));
  EXPECT_FALSE(hk_peak_is_due(&peak_, &price_, kStart - 1, kPlenty)) << "a clock that steps back stands still";
  EXPECT_TRUE(hk_peak_is_due(&peak_, &price_, kStart + 1, kPlenty));
  EXPECT_FALSE(hk_peak_is_due(&peak_, &price_, kStart + 1, kPlenty));
}

TEST_F(Peak, TheSystemIsNotAskedWhereNothingCouldGo) {
  EXPECT_FALSE(hk_peak_is_due(&peak_, &price_, kStart + 1, 0));
  EXPECT_FALSE(hk_peak_is_due(&peak_, &price_, kStart + 1, 63 * HK_KIB));
  EXPECT_TRUE(hk_peak_is_due(&peak_, &price_, kStart + 1, 64 * HK_KIB));
}

TEST_F(Peak, NumbersAtTheirEnds) {
  EXPECT_EQ(NoteAt(UINT64_MAX, SIZE_MAX - 1, kPlenty), kPlenty);
  hk_peak_settle(&peak_, kPlenty, SIZE_MAX);
  hk_peak_settle(&peak_, 0, SIZE_MAX);
  EXPECT_EQ(NoteAt(UINT64_MAX, SIZE_MAX, SIZE_MAX), 0u) << "the budget is spent";
  EXPECT_EQ(NoteAt(0, SIZE_MAX, SIZE_MAX), 0u);
}

TEST_F(Peak, TheBudgetEndsAfterFiftyDays) {
  constexpr uint64_t kDay = UINT64_C(24) * 60 * 60 * 1000;
  size_t after_fifty = NoteAt(kStart + 50 * kDay, SIZE_MAX / 2, SIZE_MAX / 2);
  EXPECT_GT(after_fifty, HK_TIB);
  hk_peak_settle(&peak_, after_fifty, after_fifty);
  EXPECT_LT(NoteAt(UINT64_MAX, SIZE_MAX / 2 + SIZE_MAX / 4, SIZE_MAX / 2), after_fifty / 64);
}

}  // namespace
