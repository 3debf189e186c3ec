// policy/thp_policy: for which superslabs and large blocks huge pages are advised.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "policy/option.h"
#include "policy/price.h"
#include "policy/thp_policy.h"

namespace {

constexpr size_t kBytes = HK_SUPERSLAB_BYTES;
constexpr size_t kMostUnused = kBytes / HK_THP_WASTE_SHARE;

class ThpPolicy : public testing::Test {
 protected:
  void Set(hk_choice_huge_pages_t choice, hk_os_huge_t setting) {
    terms_.choice = choice;
    terms_.setting = setting;
  }
  void Price(uint64_t ns_per_mib_second) { terms_.ns_per_mib_second = ns_per_mib_second; }

  hk_thp_advice_t OfSuperslab() { return hk_thp_policy_of_superslab(&terms_); }
  bool HasLooks() { return hk_thp_policy_has_looks(&terms_); }
  bool IsDense(size_t unused_bytes) { return hk_thp_policy_is_dense(&terms_, kBytes - unused_bytes); }

  hk_thp_advice_t OfBlock(size_t bytes = kBytes) { return hk_thp_policy_of_block(&blocks_, &terms_, bytes); }
  void End(unsigned resident, size_t bytes = kBytes, uint32_t life_ms = 1) {
    hk_thp_policy_note_block(&blocks_, bytes, resident, life_ms);
  }
  // What the next one gets that is not to be a sample.
  hk_thp_advice_t OfNextBlock(size_t bytes = kBytes) {
    hk_thp_advice_t advice = OfBlock(bytes);
    return advice == hk_thp_sample ? OfBlock(bytes) : advice;
  }
  void ExpectAskedButForSamples() {
    unsigned samples = 0, asked = 0;
    for (int i = 0; i < 10 * HK_THP_SAMPLE_SHARE; i++) {
      hk_thp_advice_t advice = OfBlock();
      samples += advice == hk_thp_sample;
      asked += advice == hk_thp_ask;
    }
    EXPECT_EQ(samples, 10u);
    EXPECT_EQ(asked, 10u * (HK_THP_SAMPLE_SHARE - 1));
  }

  hk_thp_terms_t terms_ = {.choice = hk_huge_pages_auto,
                           .setting = hk_os_huge_on_request,
                           .ns_per_mib_second = HK_PRICE_BALANCED,
                           .is_dear = false};
  hk_thp_blocks_t blocks_ = {};
};

TEST_F(ThpPolicy, WhatTheSystemNeverDoesIsNotAskedFor) {
  for (auto choice : {hk_huge_pages_auto, hk_huge_pages_never, hk_huge_pages_always}) {
    Set(choice, hk_os_huge_never);
    EXPECT_EQ(OfSuperslab(), hk_thp_leave);
    EXPECT_EQ(OfBlock(), hk_thp_leave);
    EXPECT_FALSE(HasLooks());
  }
}

TEST_F(ThpPolicy, WhatIsDearIsNotAskedForUntilItIsTriedAgain) {
  hk_thp_pause_t pause = {};
  EXPECT_FALSE(hk_thp_policy_note_fault(&pause, 5000, HK_THP_DEAR_NS));
  EXPECT_EQ(pause.ms, 0u) << "no more than small pages, as far as that can be told";
  uint64_t now_ms = 5000, expected_ms = HK_THP_PAUSE_MIN_MS;
  for (int i = 0; i < 10; i++) {
    EXPECT_TRUE(hk_thp_policy_note_fault(&pause, now_ms, HK_THP_DEAR_NS + 1));
    EXPECT_EQ(pause.ms, expected_ms);
    EXPECT_EQ(pause.until_ms, now_ms + expected_ms);
    now_ms = pause.until_ms;
    expected_ms = std::min(2 * expected_ms, HK_THP_PAUSE_MAX_MS);
  }
  EXPECT_FALSE(hk_thp_policy_note_fault(&pause, now_ms, HK_THP_FAULT_NS));
  EXPECT_EQ(pause.ms, 0u);
  EXPECT_EQ(pause.until_ms, now_ms);
  EXPECT_TRUE(hk_thp_policy_note_fault(&pause, now_ms, HK_THP_DEAR_NS + 1));
  EXPECT_EQ(pause.ms, HK_THP_PAUSE_MIN_MS) << "from the start";
}

TEST_F(ThpPolicy, WhatAnotherThreadBeganBeforeAPauseDoesNotChangeIt) {
  hk_thp_pause_t pause = {};
  EXPECT_TRUE(hk_thp_policy_note_fault(&pause, 5000, HK_THP_DEAR_NS + 1));
  EXPECT_FALSE(hk_thp_policy_note_fault(&pause, 5001, HK_THP_FAULT_NS));
  EXPECT_TRUE(hk_thp_policy_note_fault(&pause, 5001, HK_THP_DEAR_NS + 1));
  EXPECT_EQ(pause.ms, HK_THP_PAUSE_MIN_MS);
  EXPECT_EQ(pause.until_ms, 5000 + HK_THP_PAUSE_MIN_MS);
}

TEST_F(ThpPolicy, WhereTheyAreDearOnlyTheUserAsks) {
  End(HK_THP_PROBES);
  ASSERT_EQ(OfNextBlock(), hk_thp_ask);
  ASSERT_TRUE(hk_thp_policy_may_grow(&terms_, HK_THP_GROWN_MAX_BYTES, 0, 0));
  terms_.is_dear = true;
  EXPECT_EQ(OfNextBlock(), hk_thp_leave);
  EXPECT_FALSE(hk_thp_policy_may_grow(&terms_, HK_THP_GROWN_MAX_BYTES, 0, 0));
  EXPECT_TRUE(HasLooks()) << "later";
  Set(hk_huge_pages_auto, hk_os_huge_everywhere);
  EXPECT_EQ(OfNextBlock(), hk_thp_forbid);
  Set(hk_huge_pages_always, hk_os_huge_on_request);
  EXPECT_EQ(OfNextBlock(), hk_thp_ask);
}

TEST_F(ThpPolicy, NeverForbidsOnlyWhereTheSystemWouldMakeThem) {
  Set(hk_huge_pages_never, hk_os_huge_on_request);
  EXPECT_EQ(OfSuperslab(), hk_thp_leave);
  EXPECT_EQ(OfBlock(), hk_thp_leave);
  Set(hk_huge_pages_never, hk_os_huge_everywhere);
  EXPECT_EQ(OfSuperslab(), hk_thp_forbid);
  EXPECT_EQ(OfBlock(HK_MIB + HK_SLAB_BYTES), hk_thp_forbid);
  EXPECT_FALSE(HasLooks());
}

TEST_F(ThpPolicy, AlwaysAsksAtOnceForAllThatCanHoldOne) {
  for (auto setting : {hk_os_huge_on_request, hk_os_huge_everywhere}) {
    Set(hk_huge_pages_always, setting);
    EXPECT_EQ(OfSuperslab(), hk_thp_ask);
    EXPECT_EQ(OfBlock(), hk_thp_ask);
    EXPECT_EQ(OfBlock(kBytes - HK_SLAB_BYTES), hk_thp_leave);
    EXPECT_FALSE(HasLooks()) << "nothing is left to look for";
  }
}

TEST_F(ThpPolicy, NewSuperslabsAreSparse) {
  EXPECT_EQ(OfSuperslab(), hk_thp_leave);
  Set(hk_huge_pages_auto, hk_os_huge_everywhere);
  EXPECT_EQ(OfSuperslab(), hk_thp_forbid);
  EXPECT_TRUE(HasLooks());
}

TEST_F(ThpPolicy, ASuperslabIsOldWhenItHasEarnedTheCost) {
  uint64_t due_ms = HK_THP_COLLAPSE_NS * 1000 / HK_THP_GAIN_NS;
  EXPECT_FALSE(hk_thp_policy_is_old(HK_THP_COLLAPSE_NS, due_ms - 1));
  EXPECT_TRUE(hk_thp_policy_is_old(HK_THP_COLLAPSE_NS, due_ms));
  EXPECT_FALSE(hk_thp_policy_is_old(6 * HK_THP_COLLAPSE_NS, 6 * due_ms - 1)) << "dear ones have to be earned, too";
  EXPECT_TRUE(hk_thp_policy_is_old(6 * HK_THP_COLLAPSE_NS, 6 * due_ms));
  EXPECT_FALSE(hk_thp_policy_is_old(UINT64_MAX, due_ms));
}

TEST_F(ThpPolicy, HowDenseASuperslabMustBeFollowsFromThePrice) {
  EXPECT_TRUE(IsDense(0));
  EXPECT_TRUE(IsDense(kMostUnused)) << "balanced";
  EXPECT_FALSE(IsDense(kMostUnused + 4 * HK_KIB));
  Price(HK_PRICE_BALANCED - 1);
  EXPECT_FALSE(IsDense(kBytes / HK_THP_WASTE_SHARE_FAST)) << "512 KiB for a second are 125,000 ns";
  Price(HK_PRICE_FAST);
  EXPECT_TRUE(IsDense(kBytes / HK_THP_WASTE_SHARE_FAST));
  EXPECT_FALSE(IsDense(kBytes / HK_THP_WASTE_SHARE_FAST + 4 * HK_KIB)) << "people look at the resident bytes";
  Price(HK_PRICE_MAX);
  EXPECT_TRUE(IsDense(4 * HK_KIB));
  EXPECT_FALSE(IsDense(8 * HK_KIB)) << "8 KiB for a second are 195,000 ns";
  EXPECT_FALSE(IsDense(kBytes));
}

TEST_F(ThpPolicy, HowMuchIsInUseBeforeOneMoreIsAskedForFollowsFromThePrice) {
  auto may_grow = [this](size_t bytes) { return hk_thp_policy_may_grow(&terms_, bytes, 3'600'000, 0); };
  EXPECT_FALSE(may_grow(30 * HK_MIB - 1)) << "40 s of 1 MiB are 10 ms, and each of them saves 0.642 ms";
  EXPECT_TRUE(may_grow(30 * HK_MIB));
  Price(HK_PRICE_FAST);
  EXPECT_FALSE(may_grow(HK_THP_GROWN_MIN_BYTES - 1));
  EXPECT_TRUE(may_grow(HK_THP_GROWN_MIN_BYTES));
  Price(HK_PRICE_MAX);
  EXPECT_FALSE(may_grow(HK_THP_GROWN_MAX_BYTES - 1));
  EXPECT_TRUE(may_grow(HK_THP_GROWN_MAX_BYTES));
}

TEST_F(ThpPolicy, AProgramIsExpectedToStayAsItIsForAsLongAsItHasRun) {
  auto may_grow = [this](size_t bytes, uint64_t age_ms) { return hk_thp_policy_may_grow(&terms_, bytes, age_ms, 0); };
  EXPECT_TRUE(may_grow(HK_THP_GROWN_MIN_BYTES, 10'000)) << "3.9 superslabs: 10 s of 1 MiB are 2.5 ms";
  EXPECT_FALSE(may_grow(14 * HK_MIB - 1, 20'000)) << "7.8 of them";
  EXPECT_TRUE(may_grow(14 * HK_MIB, 20'000));
  EXPECT_FALSE(may_grow(30 * HK_MIB - 1, 40'000));
  EXPECT_TRUE(may_grow(30 * HK_MIB, UINT64_MAX));
  EXPECT_FALSE(may_grow(HK_THP_GROWN_MIN_BYTES - 1, 0));
  EXPECT_TRUE(may_grow(HK_THP_GROWN_MIN_BYTES, 0));
  Price(2 * HK_PRICE_BALANCED);
  EXPECT_FALSE(may_grow(2 * HK_THP_GROWN_MIN_BYTES - 1, 0)) << "half of a huge page is much of a small program";
  EXPECT_TRUE(may_grow(2 * HK_THP_GROWN_MIN_BYTES, 0));
}

TEST_F(ThpPolicy, OneMoreHasToBeFullBeforeItCostsWhatItSaves) {
  auto may_grow = [this](uint64_t since_last_ms) {
    return hk_thp_policy_may_grow(&terms_, HK_GIB, since_last_ms, since_last_ms);
  };
  EXPECT_TRUE(may_grow(2568)) << "1 MiB for so long is 642,000 ns";
  EXPECT_FALSE(may_grow(2569));
  Price(HK_PRICE_LEAN);
  EXPECT_TRUE(may_grow(256));
  EXPECT_FALSE(may_grow(257));
}

TEST_F(ThpPolicy, BlocksOfUnknownSizesAreDenseUntilItIsKnown) {
  ExpectAskedButForSamples();
  End(1);
  EXPECT_EQ(OfNextBlock(), hk_thp_leave) << "a sample has told";
}

TEST_F(ThpPolicy, DenseBlocksAreAskedForButForSamples) {
  End(HK_THP_PROBES);
  ExpectAskedButForSamples();
}

TEST_F(ThpPolicy, SparseBlocksAreLeftOrForbidden) {
  End(1);
  EXPECT_EQ(OfNextBlock(), hk_thp_leave);
  Set(hk_huge_pages_auto, hk_os_huge_everywhere);
  EXPECT_EQ(OfNextBlock(), hk_thp_forbid);
}

TEST_F(ThpPolicy, WhatIsKnownOfADoublingGoesForItsNeighbours) {
  End(1, 16 * HK_MIB);
  EXPECT_EQ(OfBlock(16 * HK_MIB), hk_thp_leave);
  EXPECT_EQ(OfBlock(8 * HK_MIB), hk_thp_leave);
  EXPECT_EQ(OfBlock(4 * HK_MIB), hk_thp_leave);
  EXPECT_EQ(OfBlock(128 * HK_MIB - HK_SLAB_BYTES), hk_thp_leave);
  EXPECT_EQ(OfBlock(4 * HK_MIB - HK_SLAB_BYTES), hk_thp_ask) << "out of reach";
  EXPECT_EQ(OfBlock(128 * HK_MIB), hk_thp_ask);
}

TEST_F(ThpPolicy, ASizesOwnBlocksTellMoreThanItsNeighbours) {
  End(HK_THP_PROBES, 4 * HK_MIB);
  End(0, 8 * HK_MIB);
  EXPECT_EQ(OfBlock(8 * HK_MIB), hk_thp_leave);
  EXPECT_EQ(OfBlock(4 * HK_MIB), hk_thp_ask);
  EXPECT_EQ(OfBlock(16 * HK_MIB), hk_thp_leave) << "8 MiB are nearer than 4";
  EXPECT_EQ(OfBlock(2 * HK_MIB), hk_thp_ask);
}

TEST_F(ThpPolicy, BlocksOfASizeThatOnlyItsNeighboursTellOfAreSamplesNowAndThen) {
  End(HK_THP_PROBES, 4 * HK_MIB);
  int samples = 0;
  for (int i = 0; i < 10 * HK_THP_SAMPLE_SHARE; i++) samples += OfBlock(8 * HK_MIB) == hk_thp_sample;
  EXPECT_EQ(samples, 10);
}

TEST_F(ThpPolicy, ASizeIsUnknownWhereNothingIsKnownAndTheAdviceDependsOnIt) {
  auto is_unknown = [this](size_t bytes) { return !hk_thp_policy_is_known_size(&blocks_, &terms_, bytes); };
  EXPECT_TRUE(is_unknown(kBytes));
  EXPECT_FALSE(is_unknown(kBytes - HK_SLAB_BYTES)) << "too small for a huge page";
  End(0, 4 * HK_MIB);
  EXPECT_FALSE(is_unknown(kBytes));
  EXPECT_TRUE(is_unknown(64 * HK_MIB));
  Set(hk_huge_pages_always, hk_os_huge_on_request);
  EXPECT_FALSE(is_unknown(64 * HK_MIB));
  Set(hk_huge_pages_auto, hk_os_huge_never);
  EXPECT_FALSE(is_unknown(64 * HK_MIB));
}

TEST_F(ThpPolicy, TheLargestSizesShareWhatIsKnown) {
  End(HK_THP_PROBES, HK_TIB);
  EXPECT_EQ(OfNextBlock(PTRDIFF_MAX), hk_thp_ask);
}

TEST_F(ThpPolicy, OneSparseBlockEndsItAndSomeDenseOnesBeginItAgain) {
  End(HK_THP_PROBES);
  End(0);
  EXPECT_EQ(OfNextBlock(), hk_thp_leave);
  int dense = 0;
  while (OfNextBlock() != hk_thp_ask && dense < 100) {
    End(HK_THP_PROBES);
    dense++;
  }
  EXPECT_GT(dense, 5);
  EXPECT_LT(dense, 30);
}

// A permille of a huge page is 2 KiB. For a minute at the highest price that is 3 ms; the faults are 0.6 ms.
TEST_F(ThpPolicy, BlocksThatLiveLongMustBeDenserWhereMemoryIsDear) {
  constexpr uint32_t kMinute = 60000;
  End(HK_THP_PROBES, kBytes, kMinute);
  blocks_.size[0].used_permille = 999;
  EXPECT_EQ(OfNextBlock(), hk_thp_ask) << "balanced";
  Price(HK_PRICE_MAX);
  EXPECT_EQ(OfNextBlock(), hk_thp_leave);
  blocks_.size[0].life_ms = 1000;
  EXPECT_EQ(OfNextBlock(), hk_thp_ask) << "a second";
}

TEST_F(ThpPolicy, SeveralPagesAreTriedButNotTheLastPart) {
  EXPECT_EQ(hk_thp_policy_tries(true, 1), 1u);
  EXPECT_EQ(hk_thp_policy_tries(true, 2), 1u);
  EXPECT_EQ(hk_thp_policy_tries(true, 16), 14u);
  EXPECT_EQ(hk_thp_policy_tries(false, 5), 4u);
  for (size_t pages = 2; pages < 10000; pages++) {
    for (bool is_known : {true, false}) {
      size_t tries = hk_thp_policy_tries(is_known, pages);
      ASSERT_GE(tries, 1u);
      ASSERT_LE(tries, is_known ? HK_THP_TRIES_MAX : HK_THP_TRIES_UNKNOWN);
      ASSERT_LE(tries, pages - (pages + HK_THP_UNTRIED_SHARE - 1) / HK_THP_UNTRIED_SHARE) << pages;
    }
  }
}

TEST_F(ThpPolicy, NoNumberOverflows) {
  Price(UINT64_MAX);
  End(HK_THP_PROBES, kBytes, UINT32_MAX);
  EXPECT_EQ(OfNextBlock(), hk_thp_ask) << "nothing lies unused";
  blocks_.size[0].used_permille = 999;
  EXPECT_EQ(OfNextBlock(), hk_thp_leave);
}

}  // namespace
