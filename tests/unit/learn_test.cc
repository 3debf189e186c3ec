// policy/learn, learn_log: choosing, freezing and learning anew; numbers at their limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/units.h"
#include "policy/learn.h"
#include "policy/learn_record.h"
#include "scale.h"
#include "test_random.h"
#include "unit/learn_driver.h"

using namespace hk_test;

namespace {

TEST_F(Learn, StartsAtTheBreakEvenTimeout) {
  EXPECT_EQ(Timeout(), BreakEven());
  EXPECT_EQ(learn_.state, hk_learn_state_learning);
  EXPECT_EQ(LastDecision(), "epoch 0: 1800 ms, the break-even time: learning");
}

// Nothing is known, so a part of the freed memory goes at once and a part stays for longer than the break-even time.
TEST_F(Learn, BeforeAnythingIsKnownMemoryIsDivided) {
  hk_learn_note(&learn_, now_ms_, HK_GIB);
  hk_learn_note(&learn_, now_ms_, 0);
  EXPECT_EQ(hk_learn_kept_bytes(&learn_), HK_GIB);
  size_t before = HK_GIB;
  for (unsigned i = 0; i <= HK_PRICE_BREAK_EVEN; i++) {
    hk_level_pass(&learn_.level, now_ms_ + learn_.price.timeout_ms[i] + 1);
    size_t kept = hk_learn_kept_bytes(&learn_);
    EXPECT_LT(kept, before) << i;
    before = kept;
  }
  EXPECT_GT(before, 0u);
}

// A program that has just begun takes freed memory again soon, as far as is known.
TEST_F(Learn, OfAYoungProgramAllStaysForHalfTheBreakEvenTime) {
  ASSERT_TRUE(hk_learn_init(&learn_, 5000, HK_PRICE_BALANCED));
  hk_learn_note(&learn_, 5000, HK_GIB);
  hk_learn_note(&learn_, 5001, 0);
  uint64_t grown_ms = 5000 + BreakEven() / 2;
  for (uint64_t due_ms; hk_learn_next_due(&learn_, &due_ms) && due_ms < grown_ms;) {
    hk_learn_note(&learn_, due_ms, 0);
    ASSERT_EQ(hk_learn_kept_bytes(&learn_), HK_GIB) << due_ms;
  }
  uint64_t due_ms = 0;
  ASSERT_TRUE(hk_learn_next_due(&learn_, &due_ms));
  EXPECT_EQ(due_ms, grown_ms) << "then the purge thread has to come";
  hk_learn_note(&learn_, grown_ms, 0);
  EXPECT_LT(hk_learn_kept_bytes(&learn_), HK_GIB);
}

TEST_F(Learn, AnotherPriceMakesNoProgramYounger) {
  ASSERT_TRUE(hk_learn_init(&learn_, 5000, HK_PRICE_BALANCED));
  hk_learn_note(&learn_, 5000, HK_GIB);
  ASSERT_TRUE(hk_learn_set_price(&learn_, 5000 + BreakEven() / 4, HK_PRICE_LEAN));
  EXPECT_FALSE(learn_.is_young) << "half of that break-even time is over";
  ASSERT_TRUE(hk_learn_set_price(&learn_, 5500, HK_PRICE_FAST));
  EXPECT_TRUE(learn_.is_young) << "and half of this one is not";
}

TEST_F(Learn, AProgramWithARecordIsNotYoung) {
  ASSERT_TRUE(hk_learn_init(&learn_, now_ms_, HK_PRICE_BALANCED));
  unsigned char record[HK_LEARN_RECORD_BYTES];
  hk_learn_export(&learn_, record);
  ASSERT_EQ(hk_learn_import(&learn_, record, sizeof record), hk_learn_record_good);
  hk_learn_note(&learn_, now_ms_, HK_GIB);
  hk_learn_note(&learn_, now_ms_, 0);
  hk_level_pass(&learn_.level, now_ms_ + BreakEven() / 4);
  EXPECT_LT(hk_learn_kept_bytes(&learn_), HK_GIB);
}

TEST_F(Learn, AFrozenLeaderHasAllMemory) {
  Burst(5000, 50 * HK_MIB, BreakEven() / 10);
  ASSERT_EQ(learn_.state, hk_learn_state_frozen);
  hk_learn_note(&learn_, now_ms_, HK_GIB);
  hk_learn_note(&learn_, now_ms_, 0);
  hk_level_pass(&learn_.level, now_ms_ + Timeout());
  EXPECT_EQ(hk_learn_kept_bytes(&learn_), HK_GIB);
  hk_level_pass(&learn_.level, now_ms_ + Timeout() + 1);
  EXPECT_EQ(hk_learn_kept_bytes(&learn_), 0u);
}

// However long small gaps were the same, what they taught does not hold for a thousand times as much. The leader thaws
// by the size of the stake, long before the epochs would show that it costs more.
TEST_F(Learn, AFrozenLeaderDoesNotKeepMuchMoreThanUsual) {
  Burst(5000, HK_MIB, BreakEven() / 10);
  ASSERT_EQ(learn_.state, hk_learn_state_frozen);
  uint64_t freed_ms = now_ms_;
  hk_learn_note(&learn_, now_ms_, 2 * HK_GIB);
  hk_learn_note(&learn_, now_ms_, 10 * HK_MIB);
  WakeUntil(freed_ms + BreakEven() / 16, 10 * HK_MIB);
  EXPECT_GT(hk_learn_kept_bytes(&learn_), HK_GIB) << "it may be wanted again as soon as usual";
  WakeUntil(freed_ms + BreakEven() / 2, 10 * HK_MIB);
  EXPECT_LT(hk_learn_kept_bytes(&learn_), HK_GIB);
  WakeUntil(freed_ms + BreakEven(), 10 * HK_MIB);
  EXPECT_LT(hk_learn_kept_bytes(&learn_), HK_GIB / 16);
  EXPECT_LT(WakeUntil(freed_ms + 100 * BreakEven(), 10 * HK_MIB), 64u) << "an idle process sleeps";
}

TEST_F(Learn, AFrozenLeaderKeepsAsMuchAsUsual) {
  Burst(5000, 50 * HK_MIB, BreakEven() / 10);
  ASSERT_EQ(learn_.state, hk_learn_state_frozen);
  hk_learn_note(&learn_, now_ms_, 60 * HK_MIB);
  hk_learn_note(&learn_, now_ms_, 10 * HK_MIB);
  WakeUntil(now_ms_ + BreakEven() / 10, 10 * HK_MIB);
  EXPECT_EQ(hk_learn_kept_bytes(&learn_), 50 * HK_MIB);
}

TEST_F(Learn, APriceThatIsNoneChangesNothing) {
  hk_learn_t before = learn_;
  EXPECT_FALSE(hk_learn_init(&learn_, 0, 0));
  EXPECT_FALSE(hk_learn_set_price(&learn_, 0, HK_PRICE_MAX + 1));
  EXPECT_EQ(memcmp(&before, &learn_, sizeof learn_), 0);
}

TEST_F(Learn, LongGapsAreNotWaitedFor) {
  Burst(3, 50 * HK_MIB, 20 * BreakEven());
  hk_learn_note(&learn_, now_ms_, 10 * HK_MIB);
  EXPECT_EQ(Timeout(), 0u);
  EXPECT_EQ(hk_learn_kept_bytes(&learn_), 0u) << "after the rest all is to be given back";
}

TEST_F(Learn, ShortGapsAreKept) {
  Burst(50, 50 * HK_MIB, BreakEven() / 3);
  EXPECT_GE(Timeout(), BreakEven() / 3);
}

TEST_F(Learn, AMixtureIsKeptForItsShortGapsOnly) {
  for (int i = 0; i < 30; i++) {
    Burst(9, 50 * HK_MIB, BreakEven() / 20);
    Burst(1, 50 * HK_MIB, 5 * BreakEven());
  }
  EXPECT_GE(Timeout(), BreakEven() / 20);
  EXPECT_LE(Timeout(), BreakEven() / 4);
}

TEST_F(Learn, BytesCountAndNotGaps) {
  for (int i = 0; i < 60; i++) {
    Burst(8, HK_MIB, BreakEven() / 2);
    Burst(1, 500 * HK_MIB, 5 * BreakEven());
  }
  EXPECT_EQ(Timeout(), 0u) << "many small gaps are short, but the large part stays away";
}

TEST_F(Learn, WhatIsFixedLearnsNothing) {
  hk_learn_fix(&learn_, true);
  hk_learn_t before = learn_;
  Burst(300, 50 * HK_MIB, 20 * BreakEven());
  EXPECT_EQ(Timeout(), BreakEven());
  EXPECT_EQ(learn_.epoch, 0u);
  EXPECT_EQ(memcmp(learn_.owed, before.owed, sizeof learn_.owed), 0);
  EXPECT_EQ(hk_learn_log_find(&learn_.log, 1), nullptr) << "nothing was decided since the start";
  hk_learn_fix(&learn_, false);
  Burst(20, 50 * HK_MIB, 20 * BreakEven());
  EXPECT_LT(Timeout(), BreakEven());
}

TEST_F(Learn, WhatIsFixedStillSaysWhatIsToBeGivenBackAndWhen) {
  hk_learn_fix(&learn_, true);
  hk_learn_note(&learn_, now_ms_, 50 * HK_MIB);
  uint64_t due_ms;
  EXPECT_FALSE(hk_learn_next_due(&learn_, &due_ms)) << "nothing is dirty";
  hk_learn_note(&learn_, now_ms_ += 10, 10 * HK_MIB);
  ASSERT_TRUE(hk_learn_next_due(&learn_, &due_ms));
  EXPECT_EQ(due_ms, now_ms_ + BreakEven() + 1);
  hk_learn_note(&learn_, due_ms - 1, 10 * HK_MIB);
  EXPECT_EQ(hk_learn_kept_bytes(&learn_), 40 * HK_MIB);
  hk_learn_note(&learn_, due_ms, 10 * HK_MIB);
  EXPECT_EQ(hk_learn_kept_bytes(&learn_), 0u);
  EXPECT_FALSE(hk_learn_next_due(&learn_, &due_ms)) << "no epoch has to end";
}

TEST_F(Learn, WhatIsFixedAtNeverIsNeverDue) {
  hk_learn_lead(&learn_, hk_learn_loaded, hk_learn_state_learning, HK_PRICE_CANDIDATES - 1);
  hk_learn_fix(&learn_, true);
  hk_learn_note(&learn_, now_ms_, SIZE_MAX);
  hk_learn_note(&learn_, now_ms_ += 10, 0);
  uint64_t due_ms;
  EXPECT_FALSE(hk_learn_next_due(&learn_, &due_ms));
  hk_learn_note(&learn_, UINT64_MAX, 0);
  EXPECT_EQ(hk_learn_kept_bytes(&learn_), SIZE_MAX);
}

TEST_F(Learn, AnotherPriceFixesNoLess) {
  hk_learn_fix(&learn_, true);
  ASSERT_TRUE(hk_learn_set_price(&learn_, now_ms_, HK_PRICE_LEAN));
  EXPECT_EQ(BreakEven(), 180u);
  Burst(300, 50 * HK_MIB, 20 * BreakEven());
  EXPECT_EQ(Timeout(), BreakEven());
}

TEST_F(Learn, AGapThatHasNotEndedIsChargedToo) {
  hk_learn_note(&learn_, now_ms_, HK_GIB);
  hk_learn_note(&learn_, now_ms_ += 10, HK_MIB);
  uint64_t due_ms;
  for (int i = 0; i < 100 && hk_learn_next_due(&learn_, &due_ms); i++) {
    ASSERT_GE(due_ms, now_ms_);
    hk_learn_note(&learn_, now_ms_ = due_ms, HK_MIB);
  }
  EXPECT_FALSE(hk_learn_next_due(&learn_, &due_ms)) << "nothing is kept: an idle process sleeps";
  EXPECT_EQ(hk_learn_kept_bytes(&learn_), 0u);
  EXPECT_LT(Timeout(), BreakEven());
  EXPECT_TRUE(HasDecided(hk_learn_found_better));
}

// What the learner knows from little memory does not hold for much: it learns anew before keeping has cost
// much.
TEST_F(Learn, MuchMoreThanUsualIsNotKeptForAsLong) {
  Burst(60, HK_MIB, BreakEven() / 3);
  uint64_t freed_ms = now_ms_;
  hk_learn_note(&learn_, now_ms_, HK_GIB);
  hk_learn_note(&learn_, now_ms_, 10 * HK_MIB);
  WakeUntil(freed_ms + learn_.price.purge_ms / 4, 10 * HK_MIB);
  EXPECT_GT(hk_learn_kept_bytes(&learn_), HK_GIB / 2) << "it may be wanted again as soon as usual";
  WakeUntil(freed_ms + BreakEven() / 2, 10 * HK_MIB);
  EXPECT_LT(hk_learn_kept_bytes(&learn_), HK_GIB / 16);
  EXPECT_LT(WakeUntil(freed_ms + 100 * BreakEven(), 10 * HK_MIB), 64u) << "an idle process sleeps";
  EXPECT_EQ(hk_learn_kept_bytes(&learn_), 0u);
}

TEST_F(Learn, AsMuchAsUsualIsKeptForAsLong) {
  Burst(60, HK_MIB, BreakEven() / 3);
  hk_learn_note(&learn_, now_ms_, 11 * HK_MIB);
  hk_learn_note(&learn_, now_ms_, 10 * HK_MIB);
  WakeUntil(now_ms_ + BreakEven() / 3, 10 * HK_MIB);
  EXPECT_GT(hk_learn_kept_bytes(&learn_), HK_MIB / 2);
}

TEST_F(Learn, WhatIsDueIsLaterThanNow) {
  TestRandom random(SeedFor("due"));
  for (size_t i = 0; i < Scaled(20000, 500); i++) {
    hk_learn_note(&learn_, now_ms_ += random.OneIn(2) ? 0 : random.LogBetween(1, 3000), random.LogBetween(1, HK_GIB));
    uint64_t due_ms;
    if (hk_learn_next_due(&learn_, &due_ms)) ASSERT_GT(due_ms, now_ms_) << "a visit when it is due gets ahead";
  }
}

TEST_F(Learn, ASettledOrderIsFrozenAndLearnedAnewWhenItCostsMore) {
  Burst(5000, 50 * HK_MIB, BreakEven() / 10);
  ASSERT_EQ(learn_.state, hk_learn_state_frozen);
  uint64_t frozen_timeout_ms = Timeout();
  EXPECT_NE(LastDecision().find("nothing was better for long: frozen"), std::string::npos);
  Burst(2000, 50 * HK_MIB, BreakEven() / 11);
  EXPECT_EQ(Timeout(), frozen_timeout_ms) << "what stays as it is changes nothing";
  Burst(60, 50 * HK_MIB, 10 * BreakEven());
  EXPECT_TRUE(HasDecided(hk_learn_cost_more));
  EXPECT_TRUE(HasDecided(hk_learn_gave_up));
  EXPECT_LT(Timeout(), frozen_timeout_ms);
}

TEST_F(Learn, AFrozenLeaderOnlyChangesByWayOfTheCanary) {
  TestRandom random(SeedFor("frozen"));
  bool was_frozen = false;
  for (size_t i = 0; i < Scaled(30000, 9000); i++) {
    hk_learn_state_t state = learn_.state;
    uint64_t timeout_ms = Timeout();
    Burst(1, random.LogBetween(HK_MIB, 64 * HK_MIB), i / 4000 % 2 == 0 ? 50 : random.LogBetween(1, 20000));
    was_frozen = was_frozen || state == hk_learn_state_frozen;
    if (state == hk_learn_state_frozen && learn_.state == hk_learn_state_frozen) ASSERT_EQ(Timeout(), timeout_ms);
  }
  EXPECT_TRUE(was_frozen);
}

TEST_F(Learn, ThePriceChangesAndAgesStay) {
  hk_learn_note(&learn_, now_ms_, HK_GIB);
  hk_learn_note(&learn_, now_ms_ += 10, HK_MIB);
  now_ms_ += 1000;
  ASSERT_TRUE(hk_learn_set_price(&learn_, now_ms_, HK_PRICE_LEAN));
  EXPECT_EQ(Timeout(), 180u);
  EXPECT_LT(hk_learn_kept_bytes(&learn_), HK_GIB / 32) << "a second is too long now, but for one that never purges";
  EXPECT_EQ(hk_level_dirty_bytes(&learn_.level), HK_GIB - HK_MIB);
  EXPECT_EQ(LastDecision(), "epoch 0: 180 ms, memory has another price: learning");
  uint64_t count = learn_.log.count;
  EXPECT_TRUE(hk_learn_set_price(&learn_, now_ms_, HK_PRICE_LEAN));
  EXPECT_EQ(learn_.log.count, count) << "the same price is no change";
}

TEST_F(Learn, AnotherPriceChargesNothingForWhatWas) {
  hk_learn_note(&learn_, now_ms_, HK_GIB);
  hk_learn_note(&learn_, now_ms_, 0);
  now_ms_ += 100 * BreakEven();
  ASSERT_TRUE(hk_learn_set_price(&learn_, now_ms_, HK_PRICE_LEAN));
  hk_learn_note(&learn_, now_ms_ += BreakEven(), 0);
  EXPECT_EQ(learn_.owed[HK_PRICE_BREAK_EVEN], 0u) << "it had given back all of it";
  EXPECT_EQ(learn_.owed[HK_PRICE_CANDIDATES - 1], HK_GIB / HK_KIB * BreakEven()) << "never keeps it";
}

TEST_F(Learn, TheSameIsLearnedFromTheSame) {
  TestRandom random(SeedFor("same"));
  hk_learn_t other = learn_;
  for (size_t i = 0; i < Scaled(20000, 500); i++) {
    now_ms_ += random.OneIn(4) ? 0 : random.LogBetween(1, 10000);
    size_t in_use = random.LogBetween(0, HK_GIB);
    hk_learn_note(&learn_, now_ms_, in_use);
    hk_learn_note(&other, now_ms_, in_use);
    ASSERT_EQ(memcmp(&learn_, &other, sizeof other), 0);
  }
}

// However many epochs end while a gap lasts, each candidate is charged for it once. Each epoch takes away a twentieth
// of the debt before it, and no more.
TEST_F(Learn, EpochsChargeEachGapOnce) {
  TestRandom random(SeedFor("once"));
  for (size_t round = 0; round < Scaled(200, 5); round++) {
    ASSERT_TRUE(hk_learn_init(&learn_, 0, HK_PRICE_BALANCED));
    size_t bytes = random.LogBetween(1, 1000) * HK_MIB;
    std::vector<uint64_t> expected(HK_PRICE_CANDIDATES);
    hk_learn_note(&learn_, now_ms_, bytes);
    for (int i = 0; i < 3; i++) {
      uint64_t gap_ms = random.LogBetween(1, 30000), end_ms = now_ms_ + gap_ms;
      hk_learn_note(&learn_, now_ms_, 0);
      while (now_ms_ < end_ms) {
        now_ms_ = std::min<uint64_t>(end_ms, now_ms_ + random.LogBetween(1, 4000));
        hk_learn_note(&learn_, now_ms_, 0);
      }
      hk_learn_note(&learn_, now_ms_, bytes);
      hk_price_gaps_t gap = {};
      hk_price_add_gap(&learn_.price, &gap, bytes, gap_ms);
      double left = std::pow(0.95, static_cast<double>(learn_.epoch)) * 0.999;
      for (unsigned k = 0; k < HK_PRICE_CANDIDATES; k++) {
        expected[k] += hk_price_cost(&learn_.price, &gap, k, false);
        uint64_t charged = learn_.owed[k] + hk_price_cost(&learn_.price, &learn_.ended, k, false) - learn_.open_cost[k];
        if (learn_.gap_count == 0) charged = learn_.owed[k];
        ASSERT_LE(charged, expected[k]);
        ASSERT_GE(static_cast<double>(charged) + 1, left * static_cast<double>(expected[k]));
      }
    }
  }
}

TEST_F(Learn, NothingOverflows) {
  constexpr uint64_t kYearMs = uint64_t{365} * 24 * 3600 * 1000;
  for (int i = 0; i < 100; i++) {
    hk_learn_note(&learn_, now_ms_, size_t{1} << 47);
    hk_learn_note(&learn_, now_ms_ += kYearMs, 0);
    hk_learn_note(&learn_, now_ms_ += kYearMs, 0);
  }
  EXPECT_EQ(Timeout(), 0u);
  hk_learn_note(&learn_, UINT64_MAX - 1, size_t{1} << 47);
  hk_learn_note(&learn_, UINT64_MAX, 0);
  uint64_t due_ms;
  if (hk_learn_next_due(&learn_, &due_ms)) EXPECT_EQ(due_ms, UINT64_MAX);
}

TEST_F(Learn, RatingsFollowCosts) {
  Burst(200, 50 * HK_MIB, 10 * BreakEven());
  EXPECT_EQ(hk_learn_rating(&learn_, HK_PRICE_BREAK_EVEN), 1500);
  for (unsigned k = 1; k <= HK_PRICE_BREAK_EVEN; k++) {
    EXPECT_LE(hk_learn_rating(&learn_, k), hk_learn_rating(&learn_, k - 1));
  }
  EXPECT_NEAR(static_cast<double>(hk_learn_rating(&learn_, 0)), 1900, 5) << "less by all that was at stake";
}

TEST_F(Learn, TheLogKeepsTheLast) {
  hk_learn_log_t log = {};
  EXPECT_EQ(hk_learn_log_find(&log, 0), nullptr);
  for (uint64_t i = 0; i < HK_LEARN_LOG_ENTRIES + 5; i++) {
    hk_learn_decision_t decision = {};
    decision.epoch = i;
    hk_learn_log_add(&log, &decision);
  }
  EXPECT_EQ(hk_learn_log_find(&log, 0)->epoch, HK_LEARN_LOG_ENTRIES + 4);
  EXPECT_EQ(hk_learn_log_find(&log, HK_LEARN_LOG_ENTRIES - 1)->epoch, 5u);
  EXPECT_EQ(hk_learn_log_find(&log, HK_LEARN_LOG_ENTRIES), nullptr);
}

TEST_F(Learn, MeasuredCostsMoveTheTimeoutsAndKeepWhatWasLearned) {
  Burst(300, 50 * HK_MIB, 4 * BreakEven());
  unsigned leader = learn_.leader;
  hk_learn_state_t state = learn_.state;
  uint64_t owed = learn_.owed[HK_PRICE_BREAK_EVEN], break_even_ms = BreakEven();
  hk_learn_set_costs(&learn_, now_ms_, 2 * HK_PRICE_PURGE_NS, 2 * HK_PRICE_FAULT_NS);
  EXPECT_EQ(BreakEven(), 2 * break_even_ms);
  EXPECT_EQ(learn_.leader, leader);
  EXPECT_EQ(learn_.state, state);
  EXPECT_EQ(learn_.owed[HK_PRICE_BREAK_EVEN], 2 * owed);
  EXPECT_EQ(hk_learn_log_find(&learn_.log, 0)->reason, hk_learn_measured);
  EXPECT_NE(LastDecision().find("purging and faulting in a MiB take 900 us instead of 450"), std::string::npos);
  ASSERT_TRUE(hk_learn_set_price(&learn_, now_ms_, HK_PRICE_LEAN));
  EXPECT_EQ(BreakEven(), 2 * break_even_ms / 10) << "another price keeps the costs";
}

}  // namespace
