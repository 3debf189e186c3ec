// policy/keep: how much idle memory stays: the base, regret, and what time takes away again.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "policy/keep.h"

namespace {

constexpr uint64_t kWindow = 1000;
constexpr size_t kShare = 8;
constexpr size_t kRetain = 8 * HK_MIB;

class Keep : public testing::Test {
 protected:
  void SetUp() override { Look(0); }

  void Pass(uint64_t ms) { view_.now_ms += ms; }

  void Use(size_t bytes) {
    view_.in_use_bytes = bytes;
    hk_keep_look(&keep_, &view_);
  }

  void Look(size_t idle_bytes) {
    view_.idle_bytes = idle_bytes;
    hk_keep_look(&keep_, &view_);
  }

  size_t Limit() { return hk_keep_limit(&keep_, &view_); }
  size_t Earned() { return keep_.earned_bytes; }
  void GiveBack(size_t bytes) { hk_keep_note_given_back(&keep_, bytes); }
  size_t Want(size_t bytes) { return hk_keep_note_wanted(&keep_, &view_, bytes); }

  // Earns `bytes` at this moment.
  void Earn(size_t bytes) {
    GiveBack(bytes);
    ASSERT_EQ(Want(bytes), bytes);
  }

  hk_keep_t keep_ = {};
  hk_keep_view_t view_ = {
      .now_ms = 123456, .idle_bytes = 0, .in_use_bytes = 0, .retain_bytes = kRetain, .terms = {kWindow, kShare}};
};

TEST_F(Keep, TheBaseIsTheOptionOrAShareOfWhatIsInUse) {
  EXPECT_EQ(Limit(), kRetain);
  view_.in_use_bytes = kShare * kRetain;
  EXPECT_EQ(Limit(), kRetain);
  view_.in_use_bytes = 10 * kShare * kRetain;
  EXPECT_EQ(Limit(), 10 * kRetain);
  view_.retain_bytes = 0;
  EXPECT_EQ(Limit(), 10 * kRetain);
  view_.in_use_bytes = 0;
  EXPECT_EQ(Limit(), 0u);
}

TEST_F(Keep, TheLimitDoesNotOverflow) {
  Earn(5);
  Use(SIZE_MAX);
  view_.retain_bytes = SIZE_MAX;
  EXPECT_EQ(Limit(), SIZE_MAX);
}

TEST_F(Keep, WhatWasEarnedComesOnTopOfTheBase) {
  Use(HK_GIB);
  Use(0);
  Earn(24 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain + 24 * HK_MIB);
}

TEST_F(Keep, AllThereIsStaysNearTheMostThatWasInUse) {
  Earn(HK_GIB);
  EXPECT_EQ(Limit(), kRetain) << "the base stays in any case";
  Use(80 * HK_MIB);
  EXPECT_EQ(Limit(), 20 * HK_MIB) << "a quarter more";
  Use(30 * HK_MIB);
  EXPECT_EQ(Limit(), 70 * HK_MIB);
  Use(0);
  EXPECT_EQ(Limit(), 100 * HK_MIB);
}

TEST_F(Keep, ASmallProgramMayKeepMoreThanAQuarterOfItsPeak) {
  Earn(HK_GIB);
  Use(6 * HK_MIB);
  Use(0);
  EXPECT_EQ(Limit(), 14 * HK_MIB);
}

TEST_F(Keep, ThePeakIsForgottenAfterTwoWindows) {
  Pass(kWindow);
  Use(80 * HK_MIB);
  Earn(HK_GIB);
  Use(8 * HK_MIB);
  Pass(kWindow);
  Use(8 * HK_MIB);
  EXPECT_EQ(Limit(), 92 * HK_MIB) << "that of the window before counts";
  Pass(kWindow);
  Use(8 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain);
}

TEST_F(Keep, AfterAQuietTimeThePeakIsForgottenAtOnce) {
  Pass(kWindow);
  Use(80 * HK_MIB);
  Earn(HK_GIB);
  Use(8 * HK_MIB);
  Pass(2 * kWindow);
  Use(8 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain);
}

TEST_F(Keep, WhatIsWantedSoonAfterIsEarnedAtOnce) {
  GiveBack(24 * HK_MIB);
  Pass(kWindow - 1);
  EXPECT_EQ(Want(24 * HK_MIB), 24 * HK_MIB);
  EXPECT_EQ(Earned(), 24 * HK_MIB);
}

TEST_F(Keep, NoMoreIsRegrettedThanWasGivenBack) {
  GiveBack(10);
  EXPECT_EQ(Want(4), 4u);
  EXPECT_EQ(Want(100), 6u);
  EXPECT_EQ(Want(100), 0u);
  EXPECT_EQ(Earned(), 10u);
}

TEST_F(Keep, WhatWasNeverGivenBackIsNotRegretted) {
  EXPECT_EQ(Want(HK_GIB), 0u);
  EXPECT_EQ(Earned(), 0u);
}

TEST_F(Keep, AcrossTheWindowsEndItIsStillRemembered) {
  Pass(kWindow);
  Look(0);
  Pass(kWindow - 1);
  GiveBack(7);
  Pass(1);
  Look(0); /* the next window */
  GiveBack(5);
  EXPECT_EQ(Want(9), 9u);
  Pass(kWindow);
  Look(0);
  EXPECT_EQ(Want(9), 3u) << "of the later five";
}

TEST_F(Keep, AfterTwoWindowsItIsForgotten) {
  Pass(kWindow);
  Look(0);
  GiveBack(7);
  Pass(kWindow);
  Look(0);
  Pass(kWindow);
  Look(0);
  EXPECT_EQ(Want(7), 0u);
}

TEST_F(Keep, AfterAQuietTimeItIsForgottenAtOnce) {
  Pass(kWindow);
  Look(0);
  GiveBack(7);
  Pass(2 * kWindow);
  EXPECT_EQ(Want(7), 0u);
}

TEST_F(Keep, WhatIsUsedInEachWindowStays) {
  Pass(kWindow);
  Look(0);
  Earn(24 * HK_MIB);
  for (int i = 0; i < 100; i++) {
    Look(kRetain + 24 * HK_MIB);
    Pass(kWindow / 2);
    Look(0); /* all of it is in use for a moment */
    Pass(kWindow / 4);
    ASSERT_EQ(Earned(), 24 * HK_MIB) << i;
  }
}

TEST_F(Keep, WhatLayIdleAllThroughAWindowIsLost) {
  Pass(kWindow);
  Look(0);
  Earn(24 * HK_MIB);
  Look(kRetain + 10 * HK_MIB);
  Pass(kWindow / 2);
  Look(kRetain + 24 * HK_MIB);
  Pass(kWindow / 2);
  Look(kRetain + 24 * HK_MIB);
  EXPECT_EQ(Earned(), 24 * HK_MIB) << "the window began with nothing idle";
  Pass(kWindow / 2);
  Look(kRetain + 6 * HK_MIB);
  Pass(kWindow / 2);
  Look(kRetain + 24 * HK_MIB);
  EXPECT_EQ(Earned(), 18 * HK_MIB) << "six were never used";
}

TEST_F(Keep, WhatIsIdleBelowTheBaseIsNobodysLoss) {
  Pass(kWindow);
  Look(kRetain);
  Earn(HK_MIB);
  for (int i = 0; i < 3; i++) {
    Pass(kWindow);
    Look(kRetain);
  }
  EXPECT_EQ(Earned(), HK_MIB);
}

TEST_F(Keep, AfterAQuietWindowAllThatIsIdleIsLost) {
  Pass(kWindow);
  Look(0);
  Earn(24 * HK_MIB);
  Look(kRetain + 24 * HK_MIB);
  Pass(2 * kWindow);
  Look(kRetain + 24 * HK_MIB - 1);
  EXPECT_EQ(Earned(), 0u);
}

TEST_F(Keep, ALossIsNeverMoreThanWasEarned) {
  Pass(kWindow);
  Look(kRetain + HK_GIB);
  Earn(HK_MIB);
  Pass(5 * kWindow);
  Look(kRetain + HK_GIB);
  EXPECT_EQ(Earned(), 0u);
}

TEST_F(Keep, WithNothingToRetainNothingIsEarned) {
  view_.retain_bytes = 0;
  GiveBack(HK_GIB);
  EXPECT_EQ(Want(HK_GIB), 0u);
  EXPECT_EQ(Limit(), 0u);
}

TEST_F(Keep, AClockThatStepsBackStandsStill) {
  Pass(kWindow);
  Look(0);
  GiveBack(7);
  view_.now_ms -= 10;
  Look(0);
  EXPECT_EQ(Want(7), 7u);
}

TEST_F(Keep, ForgetsWhenToldTo) {
  Earn(HK_MIB);
  GiveBack(HK_MIB);
  hk_keep_forget(&keep_);
  EXPECT_EQ(Earned(), 0u);
  EXPECT_EQ(Want(HK_MIB), 0u);
}

}  // namespace
