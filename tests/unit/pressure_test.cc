// policy/pressure: how much dirty memory a limit leaves, and when the limit is read again.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "policy/pressure.h"

namespace {

// The policy's retention far from any limit.
constexpr size_t kAllowed = 100 * HK_GIB;
// A limit whose twentieths are whole.
constexpr size_t kLimit = 200 * HK_MIB;
constexpr size_t kNear = kLimit / HK_PRESSURE_PARTS * HK_PRESSURE_NEAR;
constexpr size_t kFull = kLimit / HK_PRESSURE_PARTS * HK_PRESSURE_FULL;

class Pressure : public testing::Test {
 protected:
  void Pass(uint64_t ms) { view_.now_ms += ms; }
  void Hold(size_t in_use_bytes, size_t dirty_bytes) {
    view_.in_use_bytes = in_use_bytes;
    view_.dirty_bytes = dirty_bytes;
  }
  bool IsDue() { return hk_pressure_is_due(&pressure_, &view_); }
  void Note(size_t limit, size_t use, unsigned stalled_permille = 0) {
    hk_os_memory_limit_t seen = {limit, use, stalled_permille, 0};
    hk_pressure_note(&pressure_, &view_, &seen);
  }
  // A look that finds this much of the process's memory resident, and no limit of the system.
  void LookAtResident(size_t anonymous_bytes) {
    EXPECT_TRUE(IsDue());
    hk_os_memory_limit_t seen = {0, 0, 0, anonymous_bytes};
    hk_pressure_note(&pressure_, &view_, &seen);
  }
  // A look that finds nothing used but what we hold, and this much of others.
  void Look(size_t others = 0) {
    EXPECT_TRUE(IsDue());
    Note(kLimit, view_.in_use_bytes + view_.dirty_bytes + others);
  }
  bool IsFelt() { return hk_pressure_is_felt(&pressure_, &view_); }
  size_t Limit(size_t allowed = kAllowed) { return hk_pressure_limit(&pressure_, &view_, allowed); }

  hk_pressure_t pressure_ = {};
  hk_pressure_view_t view_ = {
      .now_ms = 123456, .dirty_bytes = 0, .in_use_bytes = 0, .apart_bytes = 0, .own_limit_bytes = 0};
};

TEST_F(Pressure, WithoutALimitAllStaysThatMay) {
  Hold(HK_TIB, HK_TIB);
  EXPECT_EQ(Limit(), kAllowed);
  EXPECT_TRUE(IsDue());
  Note(0, 0);
  EXPECT_EQ(Limit(), kAllowed);
  EXPECT_EQ(Limit(SIZE_MAX), SIZE_MAX);
  EXPECT_EQ(Limit(0), 0u);
}

TEST_F(Pressure, WithoutALimitTheSystemIsNotAskedAgain) {
  Hold(HK_GIB, 0);
  EXPECT_TRUE(IsDue());
  Note(0, 0, 1000);
  for (int i = 0; i < 10; i++) {
    Pass(3600 * 1000);
    Hold(HK_TIB, HK_TIB);
    EXPECT_FALSE(IsDue());
  }
  EXPECT_EQ(Limit(), kAllowed) << "whatever the machine's tasks wait for";
}

TEST_F(Pressure, ASmallProgramDoesNotAskTheSystem) {
  Hold(HK_PRESSURE_MIN_BYTES / 2, HK_PRESSURE_MIN_BYTES / 2 - 1);
  EXPECT_FALSE(IsDue());
  Pass(1000000);
  EXPECT_FALSE(IsDue());
  Hold(HK_PRESSURE_MIN_BYTES / 2, HK_PRESSURE_MIN_BYTES / 2);
  EXPECT_TRUE(IsDue());
}

TEST_F(Pressure, OneCallerIsToLook) {
  Hold(HK_GIB, 0);
  EXPECT_TRUE(IsDue());
  EXPECT_FALSE(IsDue());
  Hold(HK_TIB, 0);
  EXPECT_FALSE(IsDue()) << "growth counts from the last look";
  Pass(HK_PRESSURE_LOOK_MS - 1);
  EXPECT_FALSE(IsDue());
  Pass(1);
  EXPECT_TRUE(IsDue()) << "the first may never come back";
}

TEST_F(Pressure, FarFromTheLimitAllStaysThatMay) {
  Hold(20 * HK_MIB, 10 * HK_MIB);
  Look();
  EXPECT_EQ(Limit(100 * HK_MIB), 100 * HK_MIB);
  EXPECT_EQ(Limit(0), 0u);
}

TEST_F(Pressure, InUseAndDirtyStayBelowTheFirstMark) {
  for (size_t in_use : {size_t{20}, size_t{60}, size_t{100}, size_t{130}}) {
    Hold(in_use * HK_MIB, 0);
    pressure_ = {};
    Look();
    EXPECT_EQ(Limit(), kNear - in_use * HK_MIB) << in_use;
  }
}

TEST_F(Pressure, FromThereOnLessAndLessIsLeft) {
  for (size_t in_use : {size_t{140}, size_t{160}, size_t{188}}) {
    Hold(in_use * HK_MIB, 0);
    pressure_ = {};
    Look();
    EXPECT_EQ(Limit(), (kFull - in_use * HK_MIB) / 2) << in_use;
  }
  for (size_t in_use : {kFull, kFull + 1, kLimit, 3 * kLimit}) {
    Hold(in_use, 0);
    pressure_ = {};
    Look();
    EXPECT_EQ(Limit(), 0u) << in_use;
  }
}

TEST_F(Pressure, WhatIsNeededNeverLeavesMoreWhenItIsMore) {
  size_t before = SIZE_MAX;
  for (size_t in_use = HK_PRESSURE_MIN_BYTES; in_use < 2 * kLimit; in_use += HK_MIB / 4) {
    Hold(in_use, 0);
    pressure_ = {};
    Look();
    size_t now = Limit();
    ASSERT_LE(now, before) << in_use;
    ASSERT_TRUE(now == 0 || in_use + now < kFull) << in_use;
    before = now;
  }
}

TEST_F(Pressure, OthersCountToo) {
  Hold(20 * HK_MIB, 10 * HK_MIB);
  Look(80 * HK_MIB);
  EXPECT_EQ(Limit(), kNear - 100 * HK_MIB);
}

TEST_F(Pressure, WhatWeTakeBetweenTwoLooksCountsAtOnce) {
  Hold(20 * HK_MIB, 30 * HK_MIB);
  Look(80 * HK_MIB);
  Hold(25 * HK_MIB, 30 * HK_MIB);
  EXPECT_EQ(Limit(), kNear - 105 * HK_MIB);
  Hold(110 * HK_MIB, 30 * HK_MIB);
  EXPECT_EQ(Limit(), 0u);
  Hold(10 * HK_MIB, 40 * HK_MIB);
  EXPECT_EQ(Limit(), kNear - 90 * HK_MIB);
}

TEST_F(Pressure, ABurstThatIsNotTouchedYetCounts) {
  Hold(20 * HK_MIB, 30 * HK_MIB);
  Look(80 * HK_MIB);
  Hold(110 * HK_MIB, 30 * HK_MIB);
  EXPECT_TRUE(IsDue());
  Note(kLimit, 130 * HK_MIB); /* as before the burst: nothing of it is resident */
  EXPECT_EQ(Limit(), 0u);
  Pass(HK_PRESSURE_PERIOD_MS);
  EXPECT_TRUE(IsDue());
  Note(kLimit, 130 * HK_MIB);
  EXPECT_EQ(Limit(), 0u) << "that of the period before is believed";
  Pass(HK_PRESSURE_PERIOD_MS);
  EXPECT_TRUE(IsDue());
  Note(kLimit, 130 * HK_MIB);
  EXPECT_EQ(Limit(), kNear - 100 * HK_MIB) << "it will not be touched";
}

TEST_F(Pressure, WhatOthersTakeIsSeenByTheNextLook) {
  Hold(20 * HK_MIB, 30 * HK_MIB);
  Look(10 * HK_MIB);
  Pass(HK_PRESSURE_LOOK_MS);
  Look(80 * HK_MIB);
  EXPECT_EQ(Limit(), kNear - 100 * HK_MIB);
}

TEST_F(Pressure, AfterAQuietTimeOldLooksAreForgottenAtOnce) {
  Hold(20 * HK_MIB, 30 * HK_MIB);
  Look(80 * HK_MIB);
  Pass(2 * HK_PRESSURE_PERIOD_MS);
  Look(10 * HK_MIB);
  EXPECT_EQ(Limit(), kNear - 30 * HK_MIB);
}

TEST_F(Pressure, AnotherLimitCountsOthers) {
  Hold(20 * HK_MIB, 30 * HK_MIB);
  Look(80 * HK_MIB);
  Pass(HK_PRESSURE_LOOK_MS);
  EXPECT_TRUE(IsDue());
  Note(2 * kLimit, 60 * HK_MIB);
  EXPECT_EQ(Limit(), 2 * kNear - 30 * HK_MIB);
}

TEST_F(Pressure, ALimitThatIsNearForCertainLeavesNothing) {
  Hold(20 * HK_MIB, 100 * HK_MIB); /* of which nothing need be resident */
  EXPECT_TRUE(IsDue());
  Note(kLimit, kFull);
  EXPECT_EQ(Limit(), 0u);
  Pass(HK_PRESSURE_LOOK_MS);
  EXPECT_TRUE(IsDue());
  Note(kLimit, kFull - 1);
  EXPECT_GT(Limit(), 0u);
}

TEST_F(Pressure, MoreIsHeldThanTheSystemCounts) {
  Hold(HK_TIB, HK_TIB); /* never touched */
  EXPECT_TRUE(IsDue());
  Note(kLimit, 50 * HK_MIB);
  EXPECT_EQ(Limit(), kNear) << "needed memory is taken for no pressure";
}

TEST_F(Pressure, TimeForTheNextLook) {
  Hold(20 * HK_MIB, 30 * HK_MIB);
  Look(80 * HK_MIB);
  Pass(HK_PRESSURE_LOOK_MS - 1);
  EXPECT_FALSE(IsDue());
  Pass(1);
  EXPECT_TRUE(IsDue());
  view_.now_ms -= 50;
  EXPECT_FALSE(IsDue()) << "a step back counts as none";
}

TEST_F(Pressure, GrowthForTheNextLook) {
  Hold(20 * HK_MIB, 30 * HK_MIB);
  Look(80 * HK_MIB);
  size_t part = (kFull - 130 * HK_MIB) / HK_PRESSURE_GROWTH_SHARE;
  Hold(20 * HK_MIB + part - 1, 30 * HK_MIB);
  EXPECT_FALSE(IsDue());
  Hold(20 * HK_MIB, 30 * HK_MIB + part);
  EXPECT_TRUE(IsDue()) << "dirty memory was touched as well";
}

TEST_F(Pressure, NearTheEndGrowthCountsInLargerSteps) {
  Hold(20 * HK_MIB, 30 * HK_MIB);
  Look(kFull - 50 * HK_MIB - 4);
  size_t step = kLimit / HK_PRESSURE_MIN_GROWTH_SHARE;
  Hold(20 * HK_MIB + step - 1, 30 * HK_MIB);
  EXPECT_FALSE(IsDue());
  Hold(20 * HK_MIB + step, 30 * HK_MIB);
  EXPECT_TRUE(IsDue());
}

TEST_F(Pressure, AtTheEndOnlyTimeCounts) {
  Hold(20 * HK_MIB, 30 * HK_MIB);
  Look(kFull - 50 * HK_MIB);
  Hold(HK_TIB, HK_TIB);
  EXPECT_FALSE(IsDue());
  Pass(HK_PRESSURE_LOOK_MS);
  EXPECT_TRUE(IsDue());
}

TEST_F(Pressure, TasksThatWaitLowerWhatMayStay) {
  Hold(20 * HK_MIB, 10 * HK_MIB);
  for (unsigned permille = 0; permille <= HK_PRESSURE_STALLED_PERMILLE; permille += 20) {
    Note(kLimit, 30 * HK_MIB, permille);
    EXPECT_EQ(Limit(HK_PRESSURE_STALLED_PERMILLE * HK_KIB), (HK_PRESSURE_STALLED_PERMILLE - permille) * HK_KIB);
  }
  Note(kLimit, 30 * HK_MIB, 1000);
  EXPECT_EQ(Limit(), 0u);
}

TEST_F(Pressure, TheUsersLimitCountsWhatWeHold) {
  view_.own_limit_bytes = kLimit;
  Hold(100 * HK_MIB, 0);
  EXPECT_EQ(Limit(), kNear - 100 * HK_MIB) << "it needs no look";
  Hold(180 * HK_MIB, 0);
  EXPECT_EQ(Limit(), (kFull - 180 * HK_MIB) / 2);
  Hold(kFull, 0);
  EXPECT_EQ(Limit(), 0u);
  Hold(0, HK_TIB);
  EXPECT_EQ(Limit(), kNear);
  EXPECT_EQ(Limit(5), 5u);
}

TEST_F(Pressure, TheUsersLimitDoesNotCountWhatIsNotTouched) {
  view_.own_limit_bytes = kLimit;
  Hold(150 * HK_MIB, 10 * HK_MIB);
  EXPECT_EQ(Limit(), (kFull - 150 * HK_MIB) / 2);
  EXPECT_TRUE(IsFelt());
  LookAtResident(60 * HK_MIB);
  EXPECT_EQ(Limit(), kNear - 50 * HK_MIB);
  EXPECT_FALSE(IsFelt());
  Hold(170 * HK_MIB, 10 * HK_MIB);
  EXPECT_EQ(Limit(), kNear - 70 * HK_MIB) << "what is handed out after a look counts whole";
}

TEST_F(Pressure, TheUsersLimitDoesNotCountOthers) {
  view_.own_limit_bytes = kLimit;
  Hold(100 * HK_MIB, 10 * HK_MIB);
  LookAtResident(HK_GIB);
  EXPECT_EQ(Limit(), kNear - 100 * HK_MIB);
}

TEST_F(Pressure, TheUsersLimitCountsAllWhereTheSystemDoesNotTell) {
  view_.own_limit_bytes = kLimit;
  Hold(100 * HK_MIB, 10 * HK_MIB);
  LookAtResident(0);
  EXPECT_EQ(Limit(), kNear - 100 * HK_MIB);
}

TEST_F(Pressure, WhatWasResidentInThePeriodBeforeCounts) {
  view_.own_limit_bytes = kLimit;
  Hold(100 * HK_MIB, 0);
  LookAtResident(90 * HK_MIB);
  for (int i = 0; i < 2; i++) {
    Pass(HK_PRESSURE_OWN_PERIOD_MS);
    EXPECT_EQ(Limit(), kNear - 90 * HK_MIB) << i;
    LookAtResident(40 * HK_MIB);
  }
  EXPECT_EQ(Limit(), kNear - 40 * HK_MIB);
}

TEST_F(Pressure, GrowthBelowTheUsersLimitMakesALookDue) {
  view_.own_limit_bytes = kLimit;
  Hold(150 * HK_MIB, 0);
  LookAtResident(50 * HK_MIB);
  size_t part = (kFull - 50 * HK_MIB) / HK_PRESSURE_GROWTH_SHARE;
  Hold(150 * HK_MIB + part - 1, 0);
  EXPECT_FALSE(IsDue());
  Hold(150 * HK_MIB + part, 0);
  EXPECT_TRUE(IsDue());
}

TEST_F(Pressure, UnderTheUsersLimitTheSystemIsAskedTimeAndAgain) {
  view_.own_limit_bytes = kLimit;
  Hold(100 * HK_MIB, 0);
  EXPECT_TRUE(IsDue());
  Note(0, 0, 100);
  EXPECT_EQ(Limit(200), 100u);
  EXPECT_FALSE(IsDue());
  Pass(HK_PRESSURE_LOOK_MS);
  EXPECT_TRUE(IsDue());
}

TEST_F(Pressure, TheTighterOfBothLimitsHolds) {
  Hold(100 * HK_MIB, 0);
  Look();
  view_.own_limit_bytes = 2 * kLimit;
  EXPECT_EQ(Limit(), kNear - 100 * HK_MIB);
  view_.own_limit_bytes = 150 * HK_MIB;
  EXPECT_LT(Limit(), kNear - 100 * HK_MIB);
}

TEST_F(Pressure, IsFeltFromHalfOfALimitOn) {
  EXPECT_FALSE(IsFelt()) << "there is no limit";
  Hold(HK_TIB, 0);
  EXPECT_FALSE(IsFelt());
  Hold(20 * HK_MIB, HK_TIB);
  Note(kLimit, view_.in_use_bytes + view_.dirty_bytes + 50 * HK_MIB);
  EXPECT_FALSE(IsFelt()) << "dirty memory is not needed";
  Hold(kLimit / 2 - 50 * HK_MIB - 1, HK_TIB);
  EXPECT_FALSE(IsFelt());
  Hold(kLimit / 2 - 50 * HK_MIB, HK_TIB);
  EXPECT_TRUE(IsFelt()) << "with what others have";
  pressure_ = {};
  view_.own_limit_bytes = kLimit;
  EXPECT_FALSE(IsFelt());
  Hold(kLimit / 2, 0);
  EXPECT_TRUE(IsFelt()) << "it needs no look";
}

TEST_F(Pressure, OddNumbersDoNotOverflow) {
  view_.own_limit_bytes = SIZE_MAX;
  for (size_t limit : {size_t{1}, size_t{19}, size_t{21}, SIZE_MAX / 4, SIZE_MAX}) {
    for (size_t use : {size_t{0}, size_t{1}, SIZE_MAX / 4, SIZE_MAX}) {
      for (size_t held : {size_t{0}, size_t{1}, SIZE_MAX / 8}) {
        Hold(held, held);
        Note(limit, use);
        EXPECT_LE(Limit(kLimit), kLimit);
        hk_os_memory_limit_t seen = {limit, use, 0, use};
        hk_pressure_note(&pressure_, &view_, &seen);
        EXPECT_LE(Limit(kLimit), kLimit);
      }
    }
  }
  Note(1, 0);
  EXPECT_EQ(Limit(), 0u) << "a limit of one byte leaves nothing";
}

}  // namespace
