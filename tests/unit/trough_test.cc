// policy/trough: from where what is in use rises again, and what is below that.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/units.h"
#include "policy/trough.h"

namespace {

constexpr size_t kPeak = 80 * HK_MIB;
constexpr size_t kTurn = kPeak / 8;
constexpr size_t kBytes = 1000;

class Trough : public testing::Test {
 protected:
  void Go(std::initializer_list<size_t> mib) {
    for (size_t in_use : mib) hk_trough_note(&trough_, in_use * HK_MIB, kPeak);
  }

  size_t Familiar(size_t in_use_bytes) const { return hk_trough_familiar(&trough_, kBytes, in_use_bytes, kPeak); }

  hk_trough_t trough_ = {};
};

TEST_F(Trough, BeforeItHasFallenAndRisenAgainThePeakIsWhatIsKnown) {
  Go({0, 40, 80});
  EXPECT_EQ(Familiar(kPeak), kBytes);
  EXPECT_EQ(Familiar(kPeak - kTurn), kBytes);
  EXPECT_EQ(Familiar(kPeak - kTurn * 3 / 2), kBytes / 2);
  EXPECT_EQ(Familiar(kPeak - 2 * kTurn), 0u);
  Go({20});
  EXPECT_EQ(Familiar(20 * HK_MIB), 0u) << "nothing says that it will rise";
}

TEST_F(Trough, FromWhereItRoseAllIsFamiliar) {
  Go({80, 50, 80});
  EXPECT_EQ(Familiar(50 * HK_MIB), kBytes);
  EXPECT_EQ(Familiar(50 * HK_MIB - kTurn), kBytes);
  EXPECT_EQ(Familiar(50 * HK_MIB - kTurn * 3 / 2), kBytes / 2);
  EXPECT_EQ(Familiar(50 * HK_MIB - 2 * kTurn), 0u);
}

TEST_F(Trough, TheLowestCounts) {
  Go({80, 50, 80, 30, 80, 60, 80});
  EXPECT_EQ(Familiar(30 * HK_MIB), kBytes);
  EXPECT_EQ(Familiar(10 * HK_MIB), 0u);
}

TEST_F(Trough, StepsOnTheWayDownAreNone) {
  Go({80, 50, 55, 40, 49, 0, 9});
  EXPECT_EQ(trough_.low_bytes, 0u);
  Go({10});
  EXPECT_EQ(trough_.low_bytes, 1u) << "nothing in use is a low, too";
}

TEST_F(Trough, StepsOnTheWayUpAreNone) {
  Go({40, 31, 80, 71, 75, 80});
  EXPECT_EQ(trough_.low_bytes, 0u);
}

TEST_F(Trough, InASmallProgramLessThanAMiBIsNoTurn) {
  for (size_t in_use : {3 * HK_MIB, 2 * HK_MIB + 1, 3 * HK_MIB}) hk_trough_note(&trough_, in_use, 4 * HK_MIB);
  EXPECT_EQ(trough_.low_bytes, 0u);
  for (size_t in_use : {2 * HK_MIB, 3 * HK_MIB}) hk_trough_note(&trough_, in_use, 4 * HK_MIB);
  EXPECT_EQ(trough_.low_bytes, 2 * HK_MIB);
}

TEST_F(Trough, ItIsForgottenAfterTwoWindows) {
  Go({80, 20, 80});
  hk_trough_end_window(&trough_, false);
  Go({60, 80});
  EXPECT_EQ(Familiar(20 * HK_MIB), kBytes);
  hk_trough_end_window(&trough_, false);
  EXPECT_EQ(Familiar(20 * HK_MIB), 0u);
  EXPECT_EQ(Familiar(60 * HK_MIB), kBytes);
}

TEST_F(Trough, AfterAQuietTimeItIsForgottenAtOnce) {
  Go({80, 20, 80});
  hk_trough_end_window(&trough_, true);
  EXPECT_EQ(Familiar(20 * HK_MIB), 0u);
}

TEST_F(Trough, LargeNumbersDoNotOverflow) {
  hk_trough_note(&trough_, SIZE_MAX, SIZE_MAX);
  EXPECT_EQ(hk_trough_familiar(&trough_, SIZE_MAX, SIZE_MAX, SIZE_MAX), SIZE_MAX);
  EXPECT_EQ(hk_trough_familiar(&trough_, SIZE_MAX, 0, SIZE_MAX), 0u);
  size_t half = hk_trough_familiar(&trough_, SIZE_MAX, SIZE_MAX - SIZE_MAX / 16 * 3, SIZE_MAX);
  EXPECT_NEAR(static_cast<double>(half), static_cast<double>(SIZE_MAX) / 2, 0x1p40);
}

}  // namespace
