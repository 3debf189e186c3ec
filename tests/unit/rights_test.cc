// os/rights: when a thread of ours looks at its rights, and which verdict follows.
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "fake_os.h"
#include "os/rights.h"

namespace {

constexpr uint64_t kLook = HK_RIGHTS_LOOK_MS, kAgain = HK_RIGHTS_AGAIN_MS;

class Rights : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_os_reset();
    fake_os_set_rights(hk_rights_same);
  }
};

TEST_F(Rights, ADifferenceIsFoundWithinASecond) { EXPECT_LT(kLook + kAgain, 1000u); }

TEST_F(Rights, OfTheFirstThreadTheyAreRightForAWhile) {
  fake_os_set_rights(hk_rights_differ);
  hk_rights_watch_t watch = hk_rights_watch_begin(true, true, 1000);
  EXPECT_EQ(hk_rights_watch(&watch, 1000 + kLook - 1), hk_rights_same);
  EXPECT_EQ(fake_os_rights_questions(), 0u);
}

TEST_F(Rights, OfAnotherThreadTheyAreLookedAtFirst) {
  fake_os_set_rights(hk_rights_differ);
  hk_rights_watch_t watch = hk_rights_watch_begin(false, true, 1000);
  EXPECT_EQ(hk_rights_watch(&watch, 1000), hk_rights_differ);
}

TEST_F(Rights, AreLookedAtAgainAndAgain) {
  hk_rights_watch_t watch = hk_rights_watch_begin(false, true, 0);
  for (uint64_t now = 0; now < 10 * kLook; now += 50) EXPECT_EQ(hk_rights_watch(&watch, now), hk_rights_same);
  EXPECT_EQ(fake_os_rights_questions(), 10u);
}

TEST_F(Rights, AreSettledOnce) {
  fake_os_set_rights(hk_rights_settled);
  hk_rights_watch_t watch = hk_rights_watch_begin(false, true, 0);
  EXPECT_EQ(hk_rights_watch(&watch, 0), hk_rights_settled);
  EXPECT_EQ(watch.due_ms, UINT64_MAX);
}

// The C library changes one thread after the other.
TEST_F(Rights, ADifferenceThatIsSoonOverIsNone) {
  hk_rights_watch_t watch = hk_rights_watch_begin(true, true, 0);
  fake_os_set_rights(hk_rights_differ);
  EXPECT_EQ(hk_rights_watch(&watch, kLook), hk_rights_same);
  fake_os_set_rights(hk_rights_same);
  EXPECT_EQ(hk_rights_watch(&watch, kLook + kAgain), hk_rights_same);
  fake_os_set_rights(hk_rights_differ);
  EXPECT_EQ(hk_rights_watch(&watch, 3 * kLook), hk_rights_same) << "which is as new as the first";
  EXPECT_EQ(hk_rights_watch(&watch, 3 * kLook + kAgain - 1), hk_rights_same);
  EXPECT_EQ(hk_rights_watch(&watch, 3 * kLook + kAgain), hk_rights_differ);
}

TEST_F(Rights, OfAThreadThatTheCLibraryDoesNotChangeOneLookIsEnough) {
  hk_rights_watch_t watch = hk_rights_watch_begin(true, false, 0);
  fake_os_set_rights(hk_rights_differ);
  EXPECT_EQ(hk_rights_watch(&watch, kLook), hk_rights_differ);
}

TEST_F(Rights, AreLookedAtBeforeWhatTheyLeaveATraceIn) {
  hk_rights_watch_t watch = hk_rights_watch_begin(true, false, 0);
  hk_rights_watch_soon(&watch, 10);
  EXPECT_EQ(hk_rights_watch(&watch, 10), hk_rights_same);
  EXPECT_EQ(fake_os_rights_questions(), 0u) << "those of a new thread are right";
  EXPECT_EQ(hk_rights_watch(&watch, kLook), hk_rights_same);
  hk_rights_watch_soon(&watch, kLook + 1);
  EXPECT_EQ(hk_rights_watch(&watch, kLook + 1), hk_rights_same);
  EXPECT_EQ(fake_os_rights_questions(), 2u);
}

TEST_F(Rights, WhatCannotBeToldIsNotWaitedFor) {
  for (int verdict : {hk_rights_unknown, hk_rights_confined}) {
    fake_os_set_rights(hk_rights_same);
    hk_rights_watch_t watch = hk_rights_watch_begin(false, true, 0);
    EXPECT_EQ(hk_rights_watch(&watch, 0), hk_rights_same);
    fake_os_set_rights(verdict);
    hk_rights_t found = hk_rights_watch(&watch, kLook);
    EXPECT_EQ(found, verdict);
    EXPECT_FALSE(hk_rights_may_stay(found));
  }
}

TEST_F(Rights, TheFirstThreadKnowsItself) {
  EXPECT_TRUE(hk_rights_is_first_thread());
  std::thread([] { EXPECT_FALSE(hk_rights_is_first_thread()); }).join();
}

}  // namespace
