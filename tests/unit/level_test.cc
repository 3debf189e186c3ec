// policy/level: gaps of levels against a table with a line a level; merging, clocks that step back, numbers at their
// limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/units.h"
#include "policy/level.h"
#include "scale.h"
#include "test_random.h"

using namespace hk_test;

namespace {

constexpr uint64_t kNeverMs = UINT64_MAX;

hk_decay_t ByOne(uint64_t timeout_ms) {
  hk_decay_t decay;
  hk_decay_by_one(&decay, timeout_ms);
  return decay;
}

// Bytes by the length of the gap that ended.
using Gaps = std::map<uint64_t, size_t>;

void Collect(void *context, size_t bytes, uint64_t gap_ms) { (*static_cast<Gaps *>(context))[gap_ms] += bytes; }

// All for 100 ms, a half for a second, a quarter for three.
const hk_decay_t kThreeSteps = {3, {{100, HK_DECAY_WHOLE}, {1000, HK_DECAY_WHOLE / 2}, {3000, HK_DECAY_WHOLE / 4}}};

// The rules of level.h, level by level.
class SlowLevel {
 public:
  explicit SlowLevel(size_t most) : since_(most, kNeverMs) {}

  Gaps Note(uint64_t now_ms, size_t in_use) {
    if (now_ms > now_ms_) now_ms_ = now_ms;
    Gaps gaps;
    for (; in_use_ > in_use; in_use_--) since_[in_use_ - 1] = now_ms_;
    for (; in_use_ < in_use; in_use_++) {
      if (since_[in_use_] != kNeverMs) gaps[now_ms_ - since_[in_use_]]++;
    }
    if (in_use_ > peak_) peak_ = in_use_;
    return gaps;
  }

  size_t Young(uint64_t timeout_ms) const {
    size_t count = 0;
    for (size_t i = in_use_; i < peak_; i++) count += now_ms_ - since_[i] <= timeout_ms;
    return count;
  }

  uint64_t Age(size_t level) const { return now_ms_ - since_[level]; }
  size_t Peak() const { return peak_; }
  size_t InUse() const { return in_use_; }

 private:
  std::vector<uint64_t> since_;
  uint64_t now_ms_ = 0;
  size_t in_use_ = 0;
  size_t peak_ = 0;
};

class Level : public testing::Test {
 protected:
  Gaps Note(uint64_t now_ms, size_t in_use) {
    Gaps gaps;
    hk_level_note(&level_, now_ms, in_use, Collect, &gaps);
    return gaps;
  }
  size_t Kept(const hk_decay_t &decay) const { return hk_level_kept_bytes(&level_, &decay); }
  bool IsDue(const hk_decay_t &decay, uint64_t *due_ms) const { return hk_level_next_due(&level_, &decay, due_ms); }

  hk_level_t level_ = {};
};

TEST_F(Level, AFallBeginsGapsThatTheNextRiseEnds) {
  EXPECT_EQ(Note(10, 100), Gaps{});
  EXPECT_EQ(hk_level_dirty_bytes(&level_), 0u);
  EXPECT_EQ(Note(20, 60), Gaps{});
  EXPECT_EQ(hk_level_dirty_bytes(&level_), 40u);
  EXPECT_EQ(Note(50, 30), Gaps{});
  EXPECT_EQ(Note(60, 80), (Gaps{{10, 30}, {40, 20}}));
  EXPECT_EQ(Note(61, 200), (Gaps{{41, 20}})) << "memory that was never in use was not dirty";
  EXPECT_EQ(hk_level_dirty_bytes(&level_), 0u);
}

TEST_F(Level, WhatIsOlderThanTheTimeoutIsNotKept) {
  Note(0, 100);
  Note(1000, 70);
  Note(1500, 50);
  hk_level_pass(&level_, 2000);
  EXPECT_EQ(Kept(ByOne(1000)), 50u) << "no older than the time-out";
  EXPECT_EQ(Kept(ByOne(999)), 20u);
  EXPECT_EQ(Kept(ByOne(499)), 0u);
  EXPECT_EQ(Kept(ByOne(kNeverMs)), 50u);
}

TEST_F(Level, OfEachAgeAPartIsKept) {
  Note(0, 100);
  Note(1000, 60);
  Note(1500, 40);
  Note(1900, 0);
  hk_level_pass(&level_, 2000);
  EXPECT_EQ(Kept(kThreeSteps), 40u + 20 / 2 + 40 / 2);
  hk_level_pass(&level_, 2001);
  EXPECT_EQ(Kept(kThreeSteps), 40 / 2 + 20 / 2 + 40 / 4u);
  hk_level_pass(&level_, 4001);
  EXPECT_EQ(Kept(kThreeSteps), 40 / 4 + 20 / 4u) << "memory older than the last step is not kept";
}

TEST_F(Level, NextDueIsWhenLessIsKept) {
  uint64_t due_ms;
  EXPECT_FALSE(IsDue(ByOne(5), &due_ms)) << "nothing is dirty";
  Note(0, 100);
  Note(1000, 70);
  Note(1500, 50);
  ASSERT_TRUE(IsDue(ByOne(600), &due_ms));
  EXPECT_EQ(due_ms, 1601u);
  hk_level_pass(&level_, due_ms - 1);
  EXPECT_EQ(Kept(ByOne(600)), 50u);
  hk_level_pass(&level_, due_ms);
  EXPECT_EQ(Kept(ByOne(600)), 20u);
  ASSERT_TRUE(IsDue(ByOne(600), &due_ms));
  EXPECT_EQ(due_ms, 2101u);
  hk_level_pass(&level_, due_ms);
  EXPECT_FALSE(IsDue(ByOne(600), &due_ms));
  EXPECT_FALSE(IsDue(ByOne(kNeverMs), &due_ms)) << "never comes at no time";
}

// Until nothing is kept: between one time and the next that was told nothing changes, and at it something does.
TEST_F(Level, EachStepIsDue) {
  TestRandom random(SeedFor("due"));
  for (size_t round = 0; round < Scaled(300, 5); round++) {
    level_ = {};
    uint64_t now_ms = 0, due_ms;
    for (size_t in_use = 64'000; in_use > 4000; in_use -= random.LogBetween(4, 4000)) {
      Note(now_ms += random.LogBetween(1, 2000), in_use);
    }
    while (IsDue(kThreeSteps, &due_ms)) {
      ASSERT_GT(due_ms, level_.now_ms);
      size_t kept = Kept(kThreeSteps);
      hk_level_pass(&level_, due_ms - 1);
      ASSERT_EQ(Kept(kThreeSteps), kept);
      hk_level_pass(&level_, due_ms);
      ASSERT_LT(Kept(kThreeSteps), kept);
    }
    EXPECT_EQ(Kept(kThreeSteps), 0u);
  }
}

TEST_F(Level, ATimeBeforeTheLatestCountsAsTheLatest) {
  Note(1000, 100);
  Note(2000, 50);
  EXPECT_EQ(Note(1990, 40), Gaps{});
  EXPECT_EQ(level_.now_ms, 2000u);
  EXPECT_EQ(Note(1995, 60), (Gaps{{0, 20}}));
  EXPECT_EQ(Note(2007, 100), (Gaps{{7, 40}}));
}

TEST_F(Level, SameAsATableOfLevels) {
  TestRandom random(SeedFor("table"));
  for (size_t round = 0; round < Scaled(300, 3); round++) {
    constexpr size_t kMost = 300;
    level_ = {};
    SlowLevel slow(kMost);
    uint64_t now_ms = random.Below(1000);
    // No more falls than there is room for: nothing merges.
    for (unsigned i = 0; i < 2 * HK_LEVEL_SEGMENTS; i++) {
      uint64_t told_ms = now_ms - (random.OneIn(8) && now_ms > 5 ? random.Below(5) : 0);
      size_t in_use = random.OneIn(2) ? random.Below(kMost) : slow.InUse() + random.Below(kMost - slow.InUse());
      if (level_.count == HK_LEVEL_SEGMENTS) in_use = kMost;
      ASSERT_EQ(Note(told_ms, in_use), slow.Note(told_ms, in_use));
      ASSERT_EQ(hk_level_dirty_bytes(&level_), slow.Peak() - slow.InUse());
      for (uint64_t timeout_ms : {uint64_t{0}, random.Next() % 40, random.Next() % 500, kNeverMs}) {
        ASSERT_EQ(Kept(ByOne(timeout_ms)), slow.Young(timeout_ms));
      }
      now_ms += random.OneIn(3) ? 0 : random.LogBetween(1, 200);
    }
  }
}

// The age of a level as the stack has it.
uint64_t AgeOf(const hk_level_t &level, size_t at) {
  unsigned i = 0;
  while (i + 1 < level.count && level.segment[i + 1].top_bytes > at) i++;
  return hk_level_segment_age_ms(&level, i);
}

TEST_F(Level, MergingMovesNoLevelFar) {
  TestRandom random(SeedFor("merging"));
  for (size_t round = 0; round < Scaled(20, 2); round++) {
    constexpr size_t kMost = 5000;
    level_ = {};
    SlowLevel slow(kMost);
    Note(0, kMost);
    slow.Note(0, kMost);
    uint64_t now_ms = 0, longest_step_ms = random.OneIn(2) ? 2 : 3'600'000;
    for (size_t in_use = kMost - 1; in_use > 0; in_use--) {
      now_ms += random.LogBetween(1, longest_step_ms);
      Note(now_ms, in_use);
      slow.Note(now_ms, in_use);
    }
    ASSERT_EQ(level_.count, HK_LEVEL_SEGMENTS);
    hk_level_pass(&level_, now_ms + 1);
    double worst = 0;
    for (size_t i = slow.InUse(); i < slow.Peak(); i++) {
      double age_ms = static_cast<double>(slow.Age(i)) + 1;
      worst = std::max(worst, std::abs(static_cast<double>(AgeOf(level_, i)) - age_ms) / age_ms);
    }
    EXPECT_LE(worst, 0.25);
  }
}

TEST_F(Level, MergingKeepsTheOrderAndTheSums) {
  TestRandom random(SeedFor("sums"));
  constexpr size_t kMost = 64 * HK_GIB;
  Note(0, kMost);
  uint64_t now_ms = 0;
  double byte_ms = 0;
  for (size_t i = 0, in_use = kMost; i < Scaled(20000, 200); i++) {
    now_ms += random.LogBetween(1, 5000);
    size_t fall = random.LogBetween(1, HK_MIB);
    in_use -= fall;
    Note(now_ms, in_use);
    byte_ms -= static_cast<double>(fall) * static_cast<double>(now_ms);
    for (unsigned k = 1; k < level_.count; k++) {
      ASSERT_GT(level_.segment[k - 1].top_bytes, level_.segment[k].top_bytes);
      ASSERT_LE(level_.segment[k - 1].since_ms, level_.segment[k].since_ms);
    }
  }
  byte_ms += static_cast<double>(hk_level_dirty_bytes(&level_)) * static_cast<double>(now_ms);
  Gaps gaps = Note(now_ms, kMost);
  double told = 0;
  for (auto [gap_ms, bytes] : gaps) told += static_cast<double>(bytes) * static_cast<double>(gap_ms);
  EXPECT_NEAR(told / byte_ms, 1.0, 0.01);
}

TEST_F(Level, NothingOverflows) {
  constexpr size_t kAll = size_t{1} << 47;
  constexpr uint64_t kYearMs = uint64_t{365} * 24 * 3600 * 1000;
  Note(0, kAll);
  for (unsigned i = 1; i <= 3 * HK_LEVEL_SEGMENTS; i++) Note(i * kYearMs, kAll - i * (kAll / 256));
  EXPECT_EQ(level_.count, HK_LEVEL_SEGMENTS);
  EXPECT_EQ(hk_level_dirty_bytes(&level_), 3 * HK_LEVEL_SEGMENTS * (kAll / 256));
  Gaps gaps = Note(uint64_t{1} << 62, kAll);
  size_t bytes = 0;
  for (auto [gap_ms, part] : gaps) {
    EXPECT_GE(gap_ms, (uint64_t{1} << 62) - 3 * HK_LEVEL_SEGMENTS * kYearMs);
    EXPECT_LE(gap_ms, uint64_t{1} << 62);
    bytes += part;
  }
  EXPECT_EQ(bytes, 3 * HK_LEVEL_SEGMENTS * (kAll / 256));
}

}  // namespace
