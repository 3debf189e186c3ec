// policy/retention: the formula, one term after the other.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "policy/retention.h"

namespace {

constexpr size_t kRetain = 8 * HK_MIB;

class Retention : public testing::Test {
 protected:
  void SetUp() override { SetPrice(HK_PRICE_BALANCED); }
  void SetPrice(uint64_t price) { hk_retention_set_price(&retention_, view_.now_ms, price, true); }
  uint64_t BreakEvenMs() const { return hk_price_break_even_ms(&retention_.learn.price); }

  void Set(size_t in_use_mib, size_t dirty_mib) {
    view_.in_use_bytes = in_use_mib * HK_MIB;
    view_.dirty_bytes = dirty_mib * HK_MIB;
    hk_retention_note_change(&retention_, &view_);
  }
  hk_retention_limit_t Limit() const { return hk_retention_limit(&retention_, &view_); }
  size_t LimitMib() const { return Limit().bytes / HK_MIB; }

  void Refault(size_t mib) {
    hk_retention_note_purged(&retention_, &view_, hk_purge_too_much, mib * HK_MIB);
    EXPECT_EQ(hk_retention_note_touched(&retention_, &view_, mib * HK_MIB), mib * HK_MIB);
  }

  hk_retention_t retention_ = {};
  hk_retention_view_t view_ = {.now_ms = 123456,
                               .dirty_bytes = 0,
                               .in_use_bytes = 0,
                               .lazy_bytes = 0,
                               .apart_bytes = 0,
                               .retain_bytes = kRetain,
                               .memory_limit_bytes = 0,
                               .has_purge_thread = false,
                               .is_quiet = false};
};

TEST_F(Retention, TheFloorIsTheOptionOrAShareOfWhatIsInUse) {
  EXPECT_EQ(Limit().bytes, kRetain);
  Set(12 * 8, 0);
  EXPECT_EQ(LimitMib(), 8u);
  Set(12 * 80, 0);
  EXPECT_EQ(LimitMib(), 80u);
  view_.retain_bytes = 0;
  EXPECT_EQ(LimitMib(), 80u);
  view_.in_use_bytes = 0;
  EXPECT_EQ(LimitMib(), 0u);
}

TEST_F(Retention, WithAPurgeThreadWhatIsYoungMayStay) {
  view_.has_purge_thread = true;
  Set(200, 0);
  Set(100, 100);
  EXPECT_EQ(Limit().bytes, 100 * HK_MIB + 100 * HK_MIB / 16) << "and slack beside it";
  EXPECT_EQ(Limit().cause, hk_purge_too_old);
  view_.now_ms += BreakEvenMs() + 1;
  Set(100, 100);
  EXPECT_EQ(LimitMib(), 8u);
  EXPECT_EQ(Limit().cause, hk_purge_too_much);
}

TEST_F(Retention, WithoutOneAFirstFallLeavesTheFloor) {
  Set(200, 0);
  Set(100, 100);
  EXPECT_EQ(Limit().bytes, 100 * HK_MIB / 12);
  EXPECT_EQ(Limit().cause, hk_purge_too_much);
}

TEST_F(Retention, WithoutOneCreditBoundsWhatIsYoung) {
  Set(200, 0);
  Set(100, 0);
  Set(200, 0);
  Refault(20);
  Set(100, 100);
  EXPECT_EQ(Limit().bytes, 100 * HK_MIB / 12 + 40 * HK_MIB);
  Set(200, 0);
  Refault(40);
  Set(100, 100);
  EXPECT_EQ(Limit().bytes, 100 * HK_MIB + 100 * HK_MIB / 16);
  EXPECT_EQ(Limit().cause, hk_purge_too_old) << "and the time-outs hold";
  view_.now_ms += BreakEvenMs() + 1;
  Set(100, 100);
  EXPECT_EQ(LimitMib(), 8u);
}

TEST_F(Retention, AFallDeeperThanBeforeKeepsTheFloor) {
  Set(200, 0);
  Set(100, 0);
  Refault(100);
  Set(200, 0);
  Set(100, 100);
  EXPECT_GT(LimitMib(), 100u);
  Set(0, 200);
  EXPECT_EQ(Limit().bytes, kRetain);
}

TEST_F(Retention, WhereMemoryIsCheapNoCreditIsNeeded) {
  SetPrice(HK_PRICE_FAST);
  Set(200, 0);
  Set(0, 200);
  EXPECT_EQ(LimitMib(), 200u);
}

TEST_F(Retention, WithNothingToRetainAShareStays) {
  SetPrice(HK_PRICE_FAST);
  view_.retain_bytes = 0;
  view_.has_purge_thread = true;
  Set(200, 0);
  Refault(0);
  EXPECT_EQ(hk_retention_note_touched(&retention_, &view_, HK_GIB), 0u);
  Set(120, 80);
  EXPECT_EQ(LimitMib(), 10u);
}

TEST_F(Retention, SlackIsAtMostHalfOfTheRecentPeak) {
  view_.has_purge_thread = true;
  Set(100, 0);
  Set(100, 40);
  EXPECT_EQ(LimitMib(), 40u) << "it was never in use, and is new";
  EXPECT_EQ(Limit().cause, hk_purge_too_old);
  Set(100, 60);
  EXPECT_EQ(LimitMib(), 50u);
  EXPECT_EQ(Limit().cause, hk_purge_too_much);
  Set(80, 80);
  EXPECT_EQ(LimitMib(), 70u) << "20 by their age beside it";
}

TEST_F(Retention, AQuietProgramKeepsLittle) {
  view_.has_purge_thread = view_.is_quiet = true;
  Set(0, 100);
  EXPECT_EQ(LimitMib(), 1u);
  Set(160, 100);
  EXPECT_EQ(LimitMib(), 10u);
  view_.in_use_bytes = 0;
  view_.retain_bytes = 5;
  EXPECT_EQ(Limit().bytes, 5u);
}

TEST_F(Retention, AMemoryLimitBoundsAllOfIt) {
  view_.memory_limit_bytes = 100 * HK_MIB;
  view_.retain_bytes = HK_GIB;
  Set(60, 40);
  EXPECT_EQ(LimitMib(), 20u) << "to 80 of 100";
  EXPECT_EQ(Limit().cause, hk_purge_limited);
  EXPECT_EQ(Limit().unlimited_bytes, HK_GIB);
  view_.retain_bytes = 5 * HK_MIB;
  EXPECT_EQ(LimitMib(), 5u);
  EXPECT_EQ(Limit().cause, hk_purge_too_much);
  view_.lazy_bytes = 17 * HK_MIB;
  EXPECT_EQ(LimitMib(), 20u) << "and lazily purged memory counts";
  EXPECT_EQ(Limit().cause, hk_purge_limited);
}

TEST_F(Retention, ForgetsCreditWhenToldTo) {
  Set(200, 0);
  Refault(100);
  Set(195, 5);
  Set(200, 0);
  Set(180, 20);
  EXPECT_GT(LimitMib(), 20u);
  hk_retention_forget(&retention_);
  EXPECT_EQ(LimitMib(), 15u);
}

TEST_F(Retention, TheLowerMemoryLimitHolds) {
  EXPECT_EQ(hk_retention_memory_limit(&retention_, 0), 0u);
  EXPECT_EQ(hk_retention_memory_limit(&retention_, 5), 5u);
  retention_.pressure.seen.limit_bytes = 3;
  EXPECT_EQ(hk_retention_memory_limit(&retention_, 5), 3u);
  EXPECT_EQ(hk_retention_memory_limit(&retention_, 0), 3u);
}

TEST_F(Retention, NumbersAtTheirEnds) {
  for (bool has_purge_thread : {false, true}) {
    for (size_t in_use : {size_t{0}, SIZE_MAX}) {
      for (size_t dirty : {size_t{0}, SIZE_MAX}) {
        for (size_t retain : {size_t{0}, SIZE_MAX}) {
          view_.has_purge_thread = has_purge_thread;
          view_.in_use_bytes = in_use;
          view_.dirty_bytes = dirty;
          view_.retain_bytes = retain;
          hk_retention_note_change(&retention_, &view_);
          if (retain == SIZE_MAX) EXPECT_EQ(Limit().bytes, SIZE_MAX);
          EXPECT_GE(Limit().bytes, in_use / 12);
        }
      }
    }
  }
}

hk_retention_terms_t TermsAt(uint64_t ns_per_mib_second) {
  hk_price_t price;
  EXPECT_TRUE(hk_price_init(&price, ns_per_mib_second));
  return hk_retention_terms(&price);
}

TEST(RetentionTerms, TheWindowIsTheBreakEvenTimeWithinBounds) {
  EXPECT_EQ(TermsAt(HK_PRICE_FAST).window_ms, 18000u);
  EXPECT_EQ(TermsAt(HK_PRICE_BALANCED).window_ms, 1800u);
  EXPECT_EQ(TermsAt(HK_PRICE_LEAN).window_ms, 180u);
  EXPECT_EQ(TermsAt(HK_PRICE_MIN).window_ms, 20000u);
  EXPECT_EQ(TermsAt(HK_PRICE_MAX).window_ms, 100u);
}

TEST(RetentionTerms, TheShareIsLessWhereMemoryIsDear) {
  size_t share = TermsAt(HK_PRICE_BALANCED).share;
  EXPECT_GE(share, 8u);
  EXPECT_LE(share, 16u) << "what a quiet program keeps";
  EXPECT_EQ(TermsAt(HK_PRICE_MIN).share, share);
  EXPECT_EQ(TermsAt(2 * HK_PRICE_BALANCED - 1).share, share);
  EXPECT_EQ(TermsAt(2 * HK_PRICE_BALANCED).share, 2 * share);
  EXPECT_EQ(TermsAt(HK_PRICE_LEAN).share, 10 * share);
  EXPECT_EQ(TermsAt(HK_PRICE_MAX).share, 100 * share);
}

TEST(RetentionTerms, WhatIsCheaperThanTheBalancedPriceNeedsNoCredit) {
  for (uint64_t ns : {HK_PRICE_MIN, HK_PRICE_FAST, HK_PRICE_BALANCED - 1}) {
    EXPECT_TRUE(TermsAt(ns).has_unlimited_credit) << ns;
    EXPECT_EQ(TermsAt(ns).slack_share, 1u) << ns;
  }
  for (uint64_t ns : {HK_PRICE_BALANCED, HK_PRICE_LEAN}) {
    EXPECT_FALSE(TermsAt(ns).has_unlimited_credit) << ns;
    EXPECT_EQ(TermsAt(ns).slack_share, 2u) << ns;
  }
}

TEST(RetentionTerms, NumbersAtTheirEndsAreTermsToo) {
  hk_price_t none = {};
  EXPECT_EQ(hk_retention_terms(&none).window_ms, 100u);
  EXPECT_EQ(hk_retention_terms(&none).share, TermsAt(HK_PRICE_BALANCED).share);
  hk_price_t most = {};
  most.ns_per_mib_second = UINT64_MAX;
  most.purge_ms = UINT64_MAX;
  EXPECT_EQ(hk_retention_terms(&most).window_ms, 20000u);
  EXPECT_GT(hk_retention_terms(&most).share, UINT64_MAX / HK_PRICE_BALANCED);
}

// A child of fork finds the learner with its price and no terms when its parent was inside the call.
TEST_F(Retention, APriceWithoutTermsIsSetAgain) {
  hk_retention_t retention = {};
  ASSERT_TRUE(hk_learn_init(&retention.learn, 1, HK_PRICE_BALANCED));
  EXPECT_FALSE(hk_retention_has_price(&retention, HK_PRICE_BALANCED));
  hk_retention_set_price(&retention, 2, HK_PRICE_BALANCED, false);
  EXPECT_TRUE(hk_retention_has_price(&retention, HK_PRICE_BALANCED));
  EXPECT_NE(retention.terms.share, 0u);
  EXPECT_NE(retention.terms.window_ms, 0u);
}

}  // namespace
