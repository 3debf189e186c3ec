// policy/slack: for how long fragmentation slack stays.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "policy/slack.h"

namespace {

constexpr uint64_t kWindow = 1000;

class Slack : public testing::Test {
 protected:
  void SetUp() override { Note(0); }

  void Note(size_t mib) { hk_slack_note(&misfit_, now_ms_, kWindow, mib * HK_MIB, 0); }
  void NoteAfter(uint64_t ms, size_t mib) {
    now_ms_ += ms;
    Note(mib);
  }
  void NoteBeside(size_t idle_mib, size_t level_mib) {
    hk_slack_note(&misfit_, now_ms_, kWindow, idle_mib * HK_MIB, level_mib * HK_MIB);
  }
  void GiveBack(size_t mib, size_t going_mib) { hk_slack_note_purged(&misfit_, mib * HK_MIB, going_mib * HK_MIB); }
  size_t YoungMib() const { return hk_slack_recent_bytes(&misfit_) / HK_MIB; }

  hk_slack_t misfit_ = {};
  uint64_t now_ms_ = 123456;
};

TEST_F(Slack, WhatIsNewMayStay) {
  Note(24);
  EXPECT_EQ(YoungMib(), 24u);
  NoteAfter(kWindow - 1, 30);
  EXPECT_EQ(YoungMib(), 30u);
}

TEST_F(Slack, WhatWasThereAllThroughAWindowIsOld) {
  NoteAfter(kWindow, 24);
  NoteAfter(kWindow / 2, 30);
  NoteAfter(kWindow / 2, 30);
  EXPECT_EQ(YoungMib(), 6u) << "the 24 that the window began with";
  NoteAfter(kWindow, 30);
  EXPECT_EQ(YoungMib(), 0u);
}

TEST_F(Slack, WhatWasNeededMeanwhileIsYoungAgain) {
  NoteAfter(kWindow, 24);
  NoteAfter(kWindow / 2, 4);
  NoteAfter(kWindow / 4, 24);
  NoteAfter(kWindow / 4, 24);
  EXPECT_EQ(YoungMib(), 20u);
}

TEST_F(Slack, WithoutALookForALongTimeAllIsOld) {
  Note(24);
  NoteAfter(2 * kWindow, 24);
  EXPECT_EQ(YoungMib(), 0u);
}

TEST_F(Slack, WhatGoesIsTheOldest) {
  NoteAfter(kWindow, 24);
  NoteAfter(kWindow, 30);
  ASSERT_EQ(YoungMib(), 6u);
  Note(10);
  EXPECT_EQ(YoungMib(), 6u);
  Note(3);
  EXPECT_EQ(YoungMib(), 3u);
  Note(30);
  EXPECT_EQ(YoungMib(), 30u) << "what comes after is new";
}

TEST_F(Slack, ItIsWhatTheLevelsDoNotAccountFor) {
  NoteBeside(30, 24);
  EXPECT_EQ(YoungMib(), 6u);
  NoteBeside(24, 30);
  EXPECT_EQ(YoungMib(), 0u);
}

// Or with every part that goes by its age as much would go that does not fit.
TEST_F(Slack, WhatGoesByItsAgeTakesNothingOfIt) {
  NoteBeside(78, 66);
  ASSERT_EQ(YoungMib(), 12u);
  GiveBack(10, 12);
  NoteBeside(68, 66);
  EXPECT_EQ(YoungMib(), 12u);
  GiveBack(2, 12);
  NoteBeside(66, 66);
  EXPECT_EQ(YoungMib(), 12u);
  GiveBack(5, 15);
  NoteBeside(61, 66);
  EXPECT_EQ(YoungMib(), 10u) << "what went beyond that does not fit";
}

// The levels' oldest, which went, are wanted last.
TEST_F(Slack, WhatWasWantedAgainIsAccountedForAgain) {
  NoteBeside(66, 66);
  GiveBack(12, 12);
  NoteBeside(54, 66);
  NoteBeside(0, 12);
  EXPECT_EQ(YoungMib(), 0u);
  NoteBeside(0, 4);
  NoteBeside(66, 66);
  EXPECT_EQ(YoungMib(), 4u) << "no more is still away";
  NoteBeside(0, 0);
  NoteBeside(66, 66);
  EXPECT_EQ(YoungMib(), 0u);
}

TEST_F(Slack, TimeThatStepsBackCountsAsNone) {
  Note(24);
  now_ms_ -= 5 * kWindow;
  Note(24);
  EXPECT_EQ(YoungMib(), 24u);
}

TEST_F(Slack, NumbersAtTheirEnds) {
  for (size_t bytes : {SIZE_MAX, size_t{0}, SIZE_MAX}) {
    for (uint64_t now_ms : {uint64_t{0}, UINT64_MAX, uint64_t{1}}) {
      hk_slack_note(&misfit_, now_ms, UINT64_MAX, bytes, bytes / 2);
      EXPECT_LE(hk_slack_recent_bytes(&misfit_), bytes);
      hk_slack_note_purged(&misfit_, bytes, SIZE_MAX);
      hk_slack_note(&misfit_, now_ms, 1, bytes, SIZE_MAX);
      EXPECT_LE(hk_slack_recent_bytes(&misfit_), bytes);
    }
  }
}

}  // namespace
