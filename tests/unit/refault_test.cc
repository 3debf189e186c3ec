// policy/refault: how much purged memory is touched again within a window.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "policy/refault.h"

namespace {

constexpr uint64_t kWindow = 1000;

class Refault : public testing::Test {
 protected:
  void Pass(uint64_t ms) { now_ms_ += ms; }
  void Purge(size_t bytes) { hk_refault_note_purged(&refault_, now_ms_, kWindow, bytes); }
  size_t Want(size_t bytes) { return hk_refault_note_touched(&refault_, now_ms_, kWindow, bytes); }

  hk_refault_t refault_ = {};
  uint64_t now_ms_ = 123456;
};

TEST_F(Refault, WhatIsWantedWithinAWindowCounts) {
  Purge(24 * HK_MIB);
  Pass(kWindow * 7 / 8 - 1);
  EXPECT_EQ(Want(24 * HK_MIB), 24 * HK_MIB);
}

TEST_F(Refault, WhatIsWantedAWindowLaterDoesNot) {
  Purge(24 * HK_MIB);
  Pass(kWindow);
  EXPECT_EQ(Want(24 * HK_MIB), 0u);
}

TEST_F(Refault, NoMoreCountsThanWasPurged) {
  Purge(10);
  EXPECT_EQ(Want(4), 4u);
  EXPECT_EQ(Want(100), 6u);
  EXPECT_EQ(Want(100), 0u);
}

TEST_F(Refault, WhatWasNeverPurgedDoesNotCount) { EXPECT_EQ(Want(HK_GIB), 0u); }

TEST_F(Refault, WhatWasPurgedFirstIsForgottenFirst) {
  Purge(7);
  Pass(kWindow / 4);
  Purge(5);
  EXPECT_EQ(Want(4), 4u) << "of the earlier seven";
  Pass(kWindow * 3 / 4);
  EXPECT_EQ(Want(9), 5u) << "of the later five";
}

TEST_F(Refault, AfterALongTimeAllIsForgottenAtOnce) {
  Purge(7);
  Pass(100 * kWindow);
  EXPECT_EQ(Want(7), 0u);
}

TEST_F(Refault, WhatGoesLongAfterTheLastPurgeIsNew) {
  Purge(1);
  Pass(kWindow * 15 / 8);
  Purge(7);
  Pass(kWindow * 3 / 8);
  EXPECT_EQ(Want(7), 7u);
}

TEST_F(Refault, AClockThatStepsBackStandsStill) {
  Pass(300);
  Purge(7);
  now_ms_ -= 200;
  EXPECT_EQ(Want(7), 7u);
}

TEST_F(Refault, ALongerWindowRemembersLonger) {
  Purge(HK_MIB);
  EXPECT_EQ(hk_refault_note_touched(&refault_, now_ms_ + 15000, 18000, HK_MIB), HK_MIB);
  Purge(HK_MIB);
  EXPECT_EQ(hk_refault_note_touched(&refault_, now_ms_ + 15180, 180, HK_MIB), 0u);
}

TEST_F(Refault, ForgetsWhenToldTo) {
  Purge(HK_MIB);
  hk_refault_forget(&refault_);
  EXPECT_EQ(Want(HK_MIB), 0u);
}

TEST_F(Refault, NumbersAtTheirEnds) {
  Purge(SIZE_MAX);
  Purge(SIZE_MAX);
  EXPECT_EQ(Want(SIZE_MAX), SIZE_MAX);
  EXPECT_EQ(hk_refault_note_touched(&refault_, UINT64_MAX, kWindow, SIZE_MAX), 0u);
}

}  // namespace
