// policy/low_water: credit for refaults, how deep it counts, and when it ends.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/units.h"
#include "policy/level.h"
#include "policy/low_water.h"

namespace {

constexpr size_t kPeak = 80 * HK_MIB;
constexpr size_t kTurn = kPeak / 8;
constexpr size_t kBytes = 1000;
constexpr uint64_t kWindow = 1000;

class LowWater : public testing::Test {
 protected:
  void Note(size_t in_use_bytes) {
    size_t returning_bytes = hk_level_returning_bytes(&level_, now_ms_, kWindow, in_use_bytes);
    hk_low_water_note(&low_water_, now_ms_, kWindow, in_use_bytes, returning_bytes);
    hk_level_note(
        &level_, now_ms_, in_use_bytes, [](void *, size_t, uint64_t) {}, nullptr);
  }
  void Go(std::initializer_list<size_t> mib) {
    for (size_t in_use : mib) Note(in_use * HK_MIB);
  }
  // At the peak.
  void EndWindow() {
    now_ms_ += kWindow;
    Note(kPeak);
  }

  size_t Credit(size_t in_use_bytes) const { return hk_low_water_credit_bytes(&low_water_, in_use_bytes, kPeak); }

  void SetUp() override {
    Note(0);
    hk_low_water_note_refault(&low_water_, kBytes / 2);
  }

  hk_low_water_t low_water_ = {};
  hk_level_t level_ = {};
  uint64_t now_ms_ = 123456;
};

TEST_F(LowWater, BeforeItHasFallenAndRisenAgainThePeakIsWhatIsKnown) {
  Go({0, 40, 80, 79, 80});
  EXPECT_EQ(Credit(kPeak), kBytes);
  EXPECT_EQ(Credit(kPeak - kTurn), kBytes);
  EXPECT_EQ(Credit(kPeak - kTurn * 3 / 2), kBytes / 2);
  EXPECT_EQ(Credit(kPeak - 2 * kTurn), 0u);
  Go({20});
  EXPECT_EQ(Credit(20 * HK_MIB), 0u) << "nothing says that it will rise";
}

TEST_F(LowWater, FromWhereItRoseAllCounts) {
  Go({80, 50, 80});
  EXPECT_EQ(Credit(50 * HK_MIB), kBytes);
  EXPECT_EQ(Credit(50 * HK_MIB - kTurn), kBytes);
  EXPECT_EQ(Credit(50 * HK_MIB - kTurn * 3 / 2), kBytes / 2);
  EXPECT_EQ(Credit(50 * HK_MIB - 2 * kTurn), 0u);
}

TEST_F(LowWater, TheLowestCounts) {
  Go({80, 50, 80, 30, 80, 60, 80});
  EXPECT_EQ(Credit(30 * HK_MIB), kBytes);
  EXPECT_EQ(Credit(10 * HK_MIB), 0u);
}

TEST_F(LowWater, TwiceWhatIsRefaultedIsCreditAtOnce) {
  Go({80});
  hk_low_water_note_refault(&low_water_, 24 * HK_MIB);
  EXPECT_EQ(Credit(kPeak), kBytes + 48 * HK_MIB);
  hk_low_water_note_refault(&low_water_, SIZE_MAX);
  EXPECT_EQ(Credit(kPeak), SIZE_MAX);
}

// The credit that a climb leaves at the end of a window.
TEST_F(LowWater, ItEndsAtTwiceWhatWasTakenAgain) {
  hk_low_water_note_refault(&low_water_, HK_GIB);
  Go({80, 40, 70, 80, 70, 75});
  EndWindow();
  EXPECT_EQ(Credit(kPeak), 80 * HK_MIB) << "the 40 MiB, in two steps";
  Go({70, 80});
  EndWindow();
  EXPECT_EQ(Credit(kPeak), 80 * HK_MIB) << "the window before counts";
  EndWindow();
  EXPECT_EQ(Credit(kPeak), 20 * HK_MIB) << "nor does memory refaulted long ago, and not freed since";
  EndWindow();
  EndWindow();
  EXPECT_EQ(Credit(kPeak), 0u) << "nothing was taken again";
}

// A program that begins to use more has not taken that again.
TEST_F(LowWater, NewMemoryIsNotTakenAgain) {
  hk_low_water_note_refault(&low_water_, HK_GIB);
  Go({4, 0, 4, 80});
  EndWindow();
  EXPECT_EQ(Credit(kPeak), 8 * HK_MIB);
}

TEST_F(LowWater, WhatIsTakenAfterAWindowIsNotTakenAgain) {
  hk_low_water_note_refault(&low_water_, HK_GIB);
  Go({80, 40});
  now_ms_ += kWindow + 1;
  Go({80});
  EndWindow();
  EXPECT_EQ(Credit(kPeak), 0u);
}

TEST_F(LowWater, StepsOnTheWayDownAreNone) {
  Go({80, 56, 62, 40, 44, 0});
  EXPECT_EQ(low_water_.low_bytes, 0u) << "an eighth of where it turned";
  Go({1});
  EXPECT_EQ(low_water_.low_bytes, 1u) << "nothing in use is a low, too";
}

TEST_F(LowWater, StepsOnTheWayUpAreNone) {
  Go({40, 36, 80, 71, 75, 80});
  EXPECT_EQ(low_water_.low_bytes, 0u);
}

TEST_F(LowWater, FarBelowThePeakSmallSwingsCount) {
  Go({80, 8, 10, 8, 10});
  EXPECT_EQ(Credit(8 * HK_MIB), kBytes);
}

TEST_F(LowWater, InASmallProgramLessThanAMiBIsNoTurn) {
  for (size_t in_use : {3 * HK_MIB, 2 * HK_MIB + 1, 3 * HK_MIB}) Note(in_use);
  EXPECT_EQ(low_water_.low_bytes, 0u);
  for (size_t in_use : {2 * HK_MIB, 3 * HK_MIB}) Note(in_use);
  EXPECT_EQ(low_water_.low_bytes, 2 * HK_MIB);
}

TEST_F(LowWater, ALowIsForgottenAfterTwoWindowsWithOthers) {
  Go({80, 20, 80});
  EndWindow();
  Go({60, 80});
  EXPECT_EQ(Credit(20 * HK_MIB), kBytes);
  EndWindow();
  EXPECT_EQ(Credit(20 * HK_MIB), 0u);
  EXPECT_EQ(Credit(60 * HK_MIB), kBytes);
}

TEST_F(LowWater, WhereNothingChangesTheLowIsNotForgotten) {
  Go({80, 20, 80});
  for (int i = 0; i < 9; i++) EndWindow();
  hk_low_water_note_refault(&low_water_, kBytes / 2);
  EXPECT_GE(Credit(20 * HK_MIB), kBytes);
}

TEST_F(LowWater, WhereItRoseAfterAWindowIsNoLow) {
  Go({80, 20});
  now_ms_ += kWindow - 1;
  Go({80});
  EXPECT_EQ(Credit(20 * HK_MIB), kBytes);
  Go({0});
  now_ms_ += kWindow;
  Go({80});
  EXPECT_EQ(Credit(0), 0u) << "the program did without for too long";
}

TEST_F(LowWater, WhereItStaysForAWindowIsNoLowEither) {
  Go({80, 20});
  for (int i = 0; i < 4; i++) {
    now_ms_ += kWindow / 4;
    Go({20});
  }
  Go({80});
  EXPECT_EQ(Credit(20 * HK_MIB), 0u) << "a change of something else does not make it new";
}

TEST_F(LowWater, OneThatStepsDownForLongRisesFromItsLastStep) {
  Go({80, 40});
  now_ms_ += 5 * kWindow;
  Go({20});
  now_ms_ += kWindow / 2;
  Go({80});
  hk_low_water_note_refault(&low_water_, kBytes / 2);
  EXPECT_EQ(Credit(20 * HK_MIB), kBytes);
}

TEST_F(LowWater, TimeThatStepsBackCountsAsNone) {
  Go({80, 20});
  now_ms_ -= 5 * kWindow;
  Go({80});
  EXPECT_EQ(Credit(20 * HK_MIB), kBytes);
}

TEST_F(LowWater, LargeNumbersDoNotOverflow) {
  hk_low_water_note(&low_water_, now_ms_, kWindow, SIZE_MAX, SIZE_MAX);
  hk_low_water_note(&low_water_, now_ms_, kWindow, SIZE_MAX, SIZE_MAX);
  hk_low_water_note_refault(&low_water_, SIZE_MAX);
  EXPECT_EQ(hk_low_water_credit_bytes(&low_water_, SIZE_MAX, SIZE_MAX), SIZE_MAX);
  EXPECT_EQ(hk_low_water_credit_bytes(&low_water_, 0, SIZE_MAX), 0u);
  size_t half = hk_low_water_credit_bytes(&low_water_, SIZE_MAX - SIZE_MAX / 16 * 3, SIZE_MAX);
  EXPECT_NEAR(static_cast<double>(half), static_cast<double>(SIZE_MAX) / 2, 0x1p40);
}

}  // namespace
