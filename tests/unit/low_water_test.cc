// policy/low-water mark: from where what is in use rises again, and what is below that.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/units.h"
#include "policy/low_water.h"

namespace {

constexpr size_t kPeak = 80 * HK_MIB;
constexpr size_t kTurn = kPeak / 8;
constexpr size_t kBytes = 1000;

class Trough : public testing::Test {
 protected:
  void Go(std::initializer_list<size_t> mib) {
    for (size_t in_use : mib) hk_low_water_note(&trough_, in_use * HK_MIB);
  }

  size_t Credit(size_t in_use_bytes) const { return hk_low_water_credit_bytes(&trough_, kBytes, in_use_bytes, kPeak); }

  hk_low_water_t trough_ = {};
};

TEST_F(Trough, BeforeItHasFallenAndRisenAgainThePeakIsWhatIsKnown) {
  Go({0, 40, 80});
  EXPECT_EQ(Credit(kPeak), kBytes);
  EXPECT_EQ(Credit(kPeak - kTurn), kBytes);
  EXPECT_EQ(Credit(kPeak - kTurn * 3 / 2), kBytes / 2);
  EXPECT_EQ(Credit(kPeak - 2 * kTurn), 0u);
  Go({20});
  EXPECT_EQ(Credit(20 * HK_MIB), 0u) << "nothing says that it will rise";
}

TEST_F(Trough, FromWhereItRoseAllCounts) {
  Go({80, 50, 80});
  EXPECT_EQ(Credit(50 * HK_MIB), kBytes);
  EXPECT_EQ(Credit(50 * HK_MIB - kTurn), kBytes);
  EXPECT_EQ(Credit(50 * HK_MIB - kTurn * 3 / 2), kBytes / 2);
  EXPECT_EQ(Credit(50 * HK_MIB - 2 * kTurn), 0u);
}

TEST_F(Trough, TheLowestCounts) {
  Go({80, 50, 80, 30, 80, 60, 80});
  EXPECT_EQ(Credit(30 * HK_MIB), kBytes);
  EXPECT_EQ(Credit(10 * HK_MIB), 0u);
}

TEST_F(Trough, StepsOnTheWayDownAreNone) {
  Go({80, 56, 62, 40, 44, 0});
  EXPECT_EQ(trough_.low_bytes, 0u) << "an eighth of where it turned";
  Go({1});
  EXPECT_EQ(trough_.low_bytes, 1u) << "nothing in use is a low, too";
}

TEST_F(Trough, StepsOnTheWayUpAreNone) {
  Go({40, 36, 80, 71, 75, 80});
  EXPECT_EQ(trough_.low_bytes, 0u);
}

TEST_F(Trough, FarBelowThePeakSmallSwingsCount) {
  Go({80, 8, 10, 8, 10});
  EXPECT_EQ(Credit(8 * HK_MIB), kBytes);
}

TEST_F(Trough, InASmallProgramLessThanAMiBIsNoTurn) {
  for (size_t in_use : {3 * HK_MIB, 2 * HK_MIB + 1, 3 * HK_MIB}) hk_low_water_note(&trough_, in_use);
  EXPECT_EQ(trough_.low_bytes, 0u);
  for (size_t in_use : {2 * HK_MIB, 3 * HK_MIB}) hk_low_water_note(&trough_, in_use);
  EXPECT_EQ(trough_.low_bytes, 2 * HK_MIB);
}

TEST_F(Trough, ALowIsForgottenAfterTwoWindowsWithOthers) {
  Go({80, 20, 80});
  hk_low_water_end_window(&trough_);
  Go({60, 80});
  EXPECT_EQ(Credit(20 * HK_MIB), kBytes);
  hk_low_water_end_window(&trough_);
  EXPECT_EQ(Credit(20 * HK_MIB), 0u);
  EXPECT_EQ(Credit(60 * HK_MIB), kBytes);
}

TEST_F(Trough, WhereNothingChangesNothingIsForgotten) {
  Go({80, 20, 80});
  for (int i = 0; i < 9; i++) hk_low_water_end_window(&trough_);
  EXPECT_EQ(Credit(20 * HK_MIB), kBytes);
}

TEST_F(Trough, LargeNumbersDoNotOverflow) {
  hk_low_water_note(&trough_, SIZE_MAX);
  EXPECT_EQ(hk_low_water_credit_bytes(&trough_, SIZE_MAX, SIZE_MAX, SIZE_MAX), SIZE_MAX);
  EXPECT_EQ(hk_low_water_credit_bytes(&trough_, SIZE_MAX, 0, SIZE_MAX), 0u);
  size_t half = hk_low_water_credit_bytes(&trough_, SIZE_MAX, SIZE_MAX - SIZE_MAX / 16 * 3, SIZE_MAX);
  EXPECT_NEAR(static_cast<double>(half), static_cast<double>(SIZE_MAX) / 2, 0x1p40);
}

}  // namespace
