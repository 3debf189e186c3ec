// policy/keep: how much idle memory stays: the base, regret, how far the program has fallen before, and what time takes away again.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "policy/keep.h"

namespace {

constexpr uint64_t kWindow = 1000;
constexpr size_t kShare = 8;
constexpr size_t kSlackShare = 4;
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
  void GiveBack(size_t bytes) { hk_keep_note_given_back(&keep_, &view_, bytes); }
  size_t Want(size_t bytes) { return hk_keep_note_wanted(&keep_, &view_, bytes); }

  // Falls to so much and rises again, as a program does that goes on.
  void FallAndRise(size_t bytes) {
    size_t before = view_.in_use_bytes;
    Use(bytes);
    Use(before);
  }

  // Earns `bytes` at this moment: twice what is regretted.
  void Earn(size_t bytes) {
    ASSERT_EQ(bytes % 2, 0u);
    GiveBack(bytes / 2);
    ASSERT_EQ(Want(bytes / 2), bytes / 2);
  }

  hk_keep_t keep_ = {};
  hk_keep_view_t view_ = {.now_ms = 123456,
                          .idle_bytes = 0,
                          .in_use_bytes = 0,
                          .retain_bytes = kRetain,
                          .terms = {kWindow, kShare, kSlackShare, false}};
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
  Earn(6);
  Use(SIZE_MAX);
  view_.retain_bytes = SIZE_MAX;
  EXPECT_EQ(Limit(), SIZE_MAX);
}

TEST_F(Keep, WhatWasEarnedComesOnTopOfTheBase) {
  Use(HK_GIB);
  FallAndRise(0);
  Use(0);
  Earn(24 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain + 24 * HK_MIB);
}

TEST_F(Keep, AllThereIsStaysNearTheMostThatWasInUse) {
  Earn(HK_GIB);
  EXPECT_EQ(Limit(), kRetain) << "the base stays in any case";
  Use(80 * HK_MIB);
  EXPECT_EQ(Limit(), 20 * HK_MIB) << "a quarter more";
  FallAndRise(0);
  Use(30 * HK_MIB);
  EXPECT_EQ(Limit(), 70 * HK_MIB);
  Use(0);
  EXPECT_EQ(Limit(), 100 * HK_MIB);
}

TEST_F(Keep, ASmallProgramMayKeepMoreThanAQuarterOfItsPeak) {
  Earn(HK_GIB);
  Use(6 * HK_MIB);
  FallAndRise(0);
  Use(0);
  EXPECT_EQ(Limit(), 14 * HK_MIB);
}

TEST_F(Keep, ThePeakIsForgottenAfterTwoWindows) {
  Pass(kWindow);
  Use(80 * HK_MIB);
  FallAndRise(8 * HK_MIB);
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
  FallAndRise(8 * HK_MIB);
  Earn(HK_GIB);
  Use(8 * HK_MIB);
  Pass(2 * kWindow);
  Use(8 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain);
}

TEST_F(Keep, WhoFallsDeeperThanBeforeKeepsTheBase) {
  Use(80 * HK_MIB);
  FallAndRise(40 * HK_MIB);
  Earn(40 * HK_MIB);
  Use(40 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain + 40 * HK_MIB);
  Use(25 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain + 20 * HK_MIB) << "ten MiB deeper is as good as the same, twenty are not";
  Use(20 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain);
  Use(40 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain + 40 * HK_MIB) << "it is still earned";
  view_.terms.is_trusting = true;
  Use(0);
  EXPECT_EQ(Limit(), kRetain + 40 * HK_MIB) << "where that is paid for";
}

TEST_F(Keep, TwiceWhatIsWantedSoonAfterIsEarnedAtOnce) {
  GiveBack(24 * HK_MIB);
  Pass(kWindow * 7 / 8 - 1);
  EXPECT_EQ(Want(24 * HK_MIB), 24 * HK_MIB);
  EXPECT_EQ(Earned(), 48 * HK_MIB);
}

TEST_F(Keep, WhatIsWantedAWindowLaterIsNotRegretted) {
  GiveBack(24 * HK_MIB);
  Pass(kWindow);
  EXPECT_EQ(Want(24 * HK_MIB), 0u);
  EXPECT_EQ(Earned(), 0u);
}

TEST_F(Keep, NoMoreIsRegrettedThanWasGivenBack) {
  GiveBack(10);
  EXPECT_EQ(Want(4), 4u);
  EXPECT_EQ(Want(100), 6u);
  EXPECT_EQ(Want(100), 0u);
  EXPECT_EQ(Earned(), 20u);
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
  Pass(kWindow / 4);
  GiveBack(5);
  EXPECT_EQ(Want(4), 4u) << "of the earlier seven";
  Pass(kWindow * 3 / 4);
  Look(0);
  EXPECT_EQ(Want(9), 5u) << "of the later five";
}

TEST_F(Keep, AfterAQuietTimeItIsForgottenAtOnce) {
  Pass(kWindow);
  Look(0);
  GiveBack(7);
  Pass(2 * kWindow);
  EXPECT_EQ(Want(7), 0u);
}

TEST_F(Keep, WhatIsUsedInEachWindowStays) {
  Use(40 * HK_MIB);
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
  Use(40 * HK_MIB);
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

TEST_F(Keep, WhatGoesLongAfterTheLastChangeIsYoung) {
  Pass(kWindow);
  Look(0);
  Pass(kWindow * 3 / 4);
  GiveBack(7);
  Pass(kWindow * 3 / 8);
  EXPECT_EQ(Want(7), 7u);
}

TEST_F(Keep, AClockThatStepsBackWithinAWindowStandsStill) {
  Pass(kWindow);
  Look(0);
  Pass(300);
  GiveBack(7);
  view_.now_ms -= 150;
  EXPECT_EQ(Want(7), 7u);
}

TEST_F(Keep, WhereItRoseIsForgottenInTheEnd) {
  Use(80 * HK_MIB);
  FallAndRise(0);
  Earn(40 * HK_MIB);
  for (int i = 0; i < 2; i++) {
    Pass(kWindow);
    FallAndRise(60 * HK_MIB);
  }
  EXPECT_EQ(Earned(), 40 * HK_MIB);
  Use(30 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain);
}

TEST_F(Keep, AtTheEndOfAWindowNoMoreIsEarnedThanCouldEverStay) {
  Use(80 * HK_MIB);
  Earn(HK_GIB);
  EXPECT_EQ(Earned(), HK_GIB) << "the peak may be higher before long";
  Pass(kWindow);
  Use(80 * HK_MIB);
  EXPECT_EQ(Earned(), 100 * HK_MIB);
}

TEST_F(Keep, AClockThatStepsBackStandsStill) {
  Pass(kWindow);
  Look(0);
  GiveBack(7);
  view_.now_ms -= 10;
  Look(0);
  EXPECT_EQ(Want(7), 7u);
}

hk_keep_terms_t TermsAt(uint64_t ns_per_mib_second) {
  hk_price_t price;
  EXPECT_TRUE(hk_price_init(&price, ns_per_mib_second));
  return hk_keep_terms(&price);
}

TEST(KeepTerms, TheWindowIsTheBreakEvenTimeWithinBounds) {
  EXPECT_EQ(TermsAt(HK_PRICE_FAST).window_ms, 18000u);
  EXPECT_EQ(TermsAt(HK_PRICE_BALANCED).window_ms, 1800u);
  EXPECT_EQ(TermsAt(HK_PRICE_LEAN).window_ms, 180u);
  EXPECT_EQ(TermsAt(HK_PRICE_LEAST).window_ms, 20000u);
  EXPECT_EQ(TermsAt(HK_PRICE_MOST).window_ms, 100u);
}

TEST(KeepTerms, TheShareIsLessWhereMemoryIsDear) {
  size_t share = TermsAt(HK_PRICE_BALANCED).share;
  EXPECT_GE(share, 8u);
  EXPECT_LE(share, 16u) << "what a quiet program keeps";
  EXPECT_EQ(TermsAt(HK_PRICE_LEAST).share, share);
  EXPECT_EQ(TermsAt(2 * HK_PRICE_BALANCED - 1).share, share);
  EXPECT_EQ(TermsAt(2 * HK_PRICE_BALANCED).share, 2 * share);
  EXPECT_EQ(TermsAt(HK_PRICE_LEAN).share, 10 * share);
  EXPECT_EQ(TermsAt(HK_PRICE_MOST).share, 100 * share);
}

TEST(KeepTerms, NumbersAtTheirEndsAreTermsToo) {
  hk_price_t none = {};
  EXPECT_EQ(hk_keep_terms(&none).window_ms, 100u);
  EXPECT_EQ(hk_keep_terms(&none).share, TermsAt(HK_PRICE_BALANCED).share);
  hk_price_t most = {};
  most.ns_per_mib_second = UINT64_MAX;
  most.give_ms = UINT64_MAX;
  EXPECT_EQ(hk_keep_terms(&most).window_ms, 20000u);
  EXPECT_GT(hk_keep_terms(&most).share, UINT64_MAX / HK_PRICE_BALANCED);
}

TEST_F(Keep, TheBaseIsThereWhateverWasEarned) {
  view_.in_use_bytes = 10 * kShare * kRetain;
  EXPECT_EQ(hk_keep_base(&view_), 10 * kRetain);
  Earn(HK_GIB);
  EXPECT_EQ(hk_keep_base(&view_), 10 * kRetain);
  view_.in_use_bytes = SIZE_MAX;
  EXPECT_EQ(hk_keep_base(&view_), SIZE_MAX / kShare);
  view_.terms = TermsAt(HK_PRICE_LEAN);
  EXPECT_EQ(hk_keep_base(&view_), SIZE_MAX / view_.terms.share);
  view_.retain_bytes = SIZE_MAX;
  EXPECT_EQ(hk_keep_base(&view_), SIZE_MAX);
}

TEST_F(Keep, ALongerWindowForgivesLonger) {
  view_.terms = TermsAt(HK_PRICE_FAST);
  Look(0);
  GiveBack(HK_MIB);
  Pass(15749);
  Look(0);
  EXPECT_EQ(Want(HK_MIB), HK_MIB);
  GiveBack(HK_MIB);
  view_.terms = TermsAt(HK_PRICE_LEAN);
  Pass(180);
  EXPECT_EQ(Want(HK_MIB), 0u) << "at another price it is long ago";
}

TEST_F(Keep, ForgetsWhenToldTo) {
  Earn(HK_MIB);
  GiveBack(HK_MIB);
  hk_keep_forget(&keep_);
  EXPECT_EQ(Earned(), 0u);
  EXPECT_EQ(Want(HK_MIB), 0u);
}

TEST_F(Keep, WhatIsTrustedStaysUntilAWindowIsOver) {
  view_.terms.is_trusting = true;
  Use(100 * HK_MIB);
  Use(0);
  Look(100 * HK_MIB);
  EXPECT_EQ(Limit(), 100 * HK_MIB);
  Pass(kWindow);
  Use(40 * HK_MIB);
  EXPECT_EQ(Limit(), 85 * HK_MIB)
      << "at the window's begin all was in use: now the peak, and a quarter, is what counts";
  Look(60 * HK_MIB);
  Look(90 * HK_MIB);
  EXPECT_EQ(Earned(), 92 * HK_MIB) << "what comes and goes is not earned twice";
  Pass(kWindow);
  Look(90 * HK_MIB);
  EXPECT_EQ(Earned(), 40 * HK_MIB) << "60 were not wanted all through the window, of which 8 are the base";
}

TEST_F(Keep, WhatIsNotTrustedDoesNot) {
  Use(100 * HK_MIB);
  Use(0);
  Look(100 * HK_MIB);
  EXPECT_EQ(Limit(), kRetain);
}

TEST_F(Keep, WhereNothingIsRetainedNothingIsTrusted) {
  view_.terms.is_trusting = true;
  view_.retain_bytes = 0;
  Use(100 * HK_MIB);
  Use(0);
  Look(100 * HK_MIB);
  EXPECT_EQ(Limit(), 0u);
}

TEST(KeepTerms, WhatIsCheaperThanTheBalancedPriceIsTrusted) {
  hk_price_t price;
  for (uint64_t ns : {HK_PRICE_LEAST, HK_PRICE_FAST, HK_PRICE_BALANCED - 1}) {
    ASSERT_TRUE(hk_price_init(&price, ns));
    EXPECT_TRUE(hk_keep_terms(&price).is_trusting) << ns;
    EXPECT_EQ(hk_keep_terms(&price).slack_share, 1u) << ns;
  }
  for (uint64_t ns : {HK_PRICE_BALANCED, HK_PRICE_LEAN}) {
    ASSERT_TRUE(hk_price_init(&price, ns));
    EXPECT_FALSE(hk_keep_terms(&price).is_trusting) << ns;
    EXPECT_EQ(hk_keep_terms(&price).slack_share, 2u) << ns;
  }
}

}  // namespace
