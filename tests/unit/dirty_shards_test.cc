// space/dirty on a machine of several shards: each puts changes off by itself, and all keep to one limit.
#include <algorithm>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/dirty_driver.h"
#include "unit/shards_test.h"

using hk_test::TestRandom;
using namespace hk_test;

namespace {

struct Ended {
  bool is_put_off;
  hk_purge_verdict_t verdict;
};

Ended End(unsigned shard, uint64_t now_ms) {
  hk_dirty_account_t *account = &hk_dirty_slabs[shard];
  hk_lock_acquire(hk_shard_lock(shard));
  Ended ended = {hk_dirty_put_off_locked(account, now_ms), {}};
  if (!ended.is_put_off) {
    hk_lock_acquire(hk_lock_space);
    ended.verdict = hk_dirty_look_locked(account, now_ms);
    hk_lock_release(hk_lock_space);
  }
  hk_lock_release(hk_shard_lock(shard));
  return ended;
}

Ended ChangeOf(unsigned shard, uint64_t now_ms, size_t in_use_bytes, size_t dirty_bytes) {
  hk_store_relaxed(&hk_dirty_slabs[shard].in_use_bytes, in_use_bytes);
  hk_store_relaxed(&hk_dirty_slabs[shard].dirty_bytes, dirty_bytes);
  return End(shard, now_ms);
}

// The first look of all lets nothing be put off: it has the system asked for a limit.
void SetUp(unsigned shards) {
  SetShards(shards);
  hk_dirty_look_at_limit(1);
  Look(1);
}

HK_FRESH_TEST(DirtyShards, TheSumsAreThoseOfAllShards) {
  SetUp(3);
  for (unsigned shard = 0; shard < 3; shard++) ChangeOf(shard, 1000, (shard + 1) * HK_MIB, HK_SLAB_BYTES);
  Change(1000, 10 * HK_MIB, 0);
  EXPECT_EQ(hk_dirty_in_use(), 16 * HK_MIB);
  EXPECT_EQ(hk_dirty_total(), 3 * HK_SLAB_BYTES);
  EXPECT_EQ(hk_dirty_sums_of_slabs().in_use_bytes, 6 * HK_MIB);
}

HK_FRESH_TEST(DirtyShards, EachShardLooksBeforeItPutsOff) {
  SetUp(2);
  EXPECT_FALSE(ChangeOf(0, 1000, 20 * HK_MIB, 0).is_put_off);
  EXPECT_TRUE(ChangeOf(0, 1000, 21 * HK_MIB, 0).is_put_off);
  EXPECT_FALSE(ChangeOf(1, 1000, HK_MIB, 0).is_put_off);
  EXPECT_TRUE(ChangeOf(1, 1000, 2 * HK_MIB, 0).is_put_off);
  EXPECT_FALSE(ChangeOf(0, 1001, 20 * HK_MIB, 0).is_put_off) << "a ms later";
}

// With retain=0, a twelfth of the memory in use may be dirty.
HK_FRESH_TEST(DirtyShards, AShardPutsOffWithinItsShare) {
  SetUp(2);
  hk_option.retain = 0;
  ChangeOf(1, 1000, 119 * HK_MIB, 0);
  ChangeOf(0, 1000, HK_MIB, 0);
  EXPECT_TRUE(ChangeOf(0, 1000, HK_MIB, 5 * HK_MIB).is_put_off);
  Ended ended = ChangeOf(0, 1000, HK_MIB, 5 * HK_MIB + HK_SLAB_BYTES);
  EXPECT_FALSE(ended.is_put_off) << "the other shard may have as much";
  EXPECT_FALSE(ended.verdict.is_too_much);
}

// The sums of all stay when some move, and so does what all may put off.
HK_FRESH_TEST(DirtyShards, WhatMovesTakesItsShareAlong) {
  SetUp(2);
  hk_option.retain = 0;
  ChangeOf(0, 1000, 120 * HK_MIB, 0);
  ChangeOf(1, 1000, 0, 0);
  ASSERT_TRUE(ChangeOf(0, 1000, 120 * HK_MIB, 4 * HK_MIB).is_put_off) << "of up to five";
  const hk_dirty_sums_t sums = {100 * HK_MIB, 3 * HK_MIB, 0};
  hk_lock_acquire(hk_shard_lock(0));
  hk_lock_acquire(hk_shard_lock(1));
  hk_dirty_move_locked(&hk_dirty_slabs[0], &hk_dirty_slabs[1], &sums);
  hk_lock_release(hk_shard_lock(1));
  hk_lock_release(hk_shard_lock(0));
  EXPECT_EQ(hk_dirty_total(), 4 * HK_MIB);
  EXPECT_EQ(hk_dirty_in_use(), 120 * HK_MIB);
  EXPECT_TRUE(ChangeOf(0, 1000, 20 * HK_MIB, 2 * HK_MIB).is_put_off);
  EXPECT_FALSE(ChangeOf(0, 1000, 20 * HK_MIB, 2 * HK_MIB + HK_SLAB_BYTES).is_put_off);
  EXPECT_TRUE(ChangeOf(1, 1000, 100 * HK_MIB, 8 * HK_MIB).is_put_off);
  EXPECT_FALSE(ChangeOf(1, 1000, 100 * HK_MIB, 8 * HK_MIB + HK_SLAB_BYTES).is_put_off);
}

// One thread may free what others took on all processors, however few threads there are now.
HK_FRESH_TEST(DirtyShards, TwoThreadsPutOffNoMoreThanMany) {
  constexpr unsigned kShards = 16;
  fake_os_set_cpu_count(kShards);
  hk_shard_note_threads(2);
  hk_dirty_look_at_limit(1);
  Look(1);
  hk_option.retain = 0;
  ChangeOf(0, 1000, 120 * HK_MIB, 0);
  for (unsigned shard = 1; shard < kShards; shard++) ChangeOf(shard, 1000, 0, 0);
  size_t put_off_bytes = 0;
  for (unsigned shard = 1; shard < kShards; shard++) {
    size_t bytes = 0;
    while (ChangeOf(shard, 1000, 0, bytes + HK_SLAB_BYTES).is_put_off) bytes += HK_SLAB_BYTES;
    put_off_bytes += bytes;
  }
  EXPECT_GE(put_off_bytes, 5 * HK_MIB);
  EXPECT_LE(put_off_bytes, 10 * HK_MIB) << "a twelfth of what is in use";
}

void ExpectPutsOffWithin(unsigned shards, size_t bytes) {
  SetUp(shards);
  ChangeOf(0, 1000, 96 * HK_MIB, 0);
  EXPECT_TRUE(ChangeOf(0, 1000, 96 * HK_MIB + bytes, 0).is_put_off);
  EXPECT_TRUE(ChangeOf(0, 1000, 96 * HK_MIB - bytes, 0).is_put_off);
  EXPECT_FALSE(ChangeOf(0, 1000, 96 * HK_MIB - bytes - HK_SLAB_BYTES, 0).is_put_off);
}

HK_FRESH_TEST(DirtyShards, WhatOneShardPutsOffMovesByHalfOfWhatIsInUse) { ExpectPutsOffWithin(1, 48 * HK_MIB); }
HK_FRESH_TEST(DirtyShards, SeveralHaveSharesOfThat) { ExpectPutsOffWithin(3, 16 * HK_MIB); }
HK_FRESH_TEST(DirtyShards, AShareIsASuperslabAtLeast) { ExpectPutsOffWithin(32, HK_SUPERSLAB_BYTES); }

HK_FRESH_TEST(DirtyShards, AShardSeesTheExtents) {
  SetUp(2);
  hk_option.retain = 0;
  ChangeOf(0, 1000, HK_MIB, 0);
  Change(1000, 119 * HK_MIB, 0);
  ChangeOf(0, 1001, HK_MIB, 0);
  Change(1001, 119 * HK_MIB, 9 * HK_MIB);
  EXPECT_FALSE(ChangeOf(0, 1001, HK_MIB, HK_SLAB_BYTES).is_put_off);
}

HK_FRESH_TEST(DirtyShards, TheExtentsSeeAllShards) {
  SetUp(2);
  hk_option.retain = 0;
  Change(1000, 118 * HK_MIB, 0);
  ChangeOf(0, 1000, HK_MIB, 0);
  ChangeOf(1, 1000, HK_MIB, 0);
  ChangeOf(0, 1000, HK_MIB, 4 * HK_MIB);
  ChangeOf(1, 1000, HK_MIB, 2 * HK_MIB);
  EXPECT_TRUE(Change(1000, 118 * HK_MIB, 5 * HK_MIB).is_too_much);
}

// Each shard has a share of what may be dirty, and one that looks again gets another. So within a ms all together may
// have more, but never twice as much.
HK_FRESH_TEST(DirtyShards, AllShardsTogetherKeepToTheLimit) {
  constexpr unsigned kShards = 4;
  constexpr size_t kLimit = kShards * 30 * HK_MIB / 12;
  SetUp(kShards);
  hk_option.retain = 0;
  TestRandom random(7);
  uint64_t now_ms = 1000;
  unsigned put_off = 0, too_much = 0;
  for (unsigned shard = 0; shard < kShards; shard++) ChangeOf(shard, now_ms, 30 * HK_MIB, 0);
  for (int i = 0; i < 20000; i++) {
    bool is_new_ms = random.OneIn(20);
    if (is_new_ms) now_ms++;
    unsigned shard = static_cast<unsigned>(random.Below(kShards));
    size_t dirty_bytes = hk_load_relaxed(&hk_dirty_slabs[shard].dirty_bytes);
    size_t change = random.LogBetween(1, 16) * HK_SLAB_BYTES;
    dirty_bytes = random.OneIn(2) ? dirty_bytes - std::min(dirty_bytes, change) : dirty_bytes + change;
    Ended ended = ChangeOf(shard, now_ms, 30 * HK_MIB, dirty_bytes);
    put_off += ended.is_put_off;
    ASSERT_FALSE(is_new_ms && ended.is_put_off);
    if (hk_dirty_total() <= kLimit) continue;
    ASSERT_NE(ended.is_put_off, ended.verdict.is_too_much);
    ASSERT_LT(hk_dirty_total(), 2 * kLimit);
    if (ended.is_put_off) continue;
    too_much++;
    for (unsigned other = 0; other < kShards; other++) ChangeOf(other, now_ms, 30 * HK_MIB, 0); /* it is purged */
  }
  EXPECT_GT(put_off, 1000u);
  EXPECT_GT(too_much, 100u);
}

HK_FRESH_TEST(DirtyShards, WhatSeveralPutOffIsNotedTogether) {
  SetUp(2);
  ChangeOf(0, 1000, 20 * HK_MIB, 0);
  ChangeOf(1, 1000, 20 * HK_MIB, 0);
  EXPECT_TRUE(ChangeOf(0, 1000, 19 * HK_MIB, HK_MIB).is_put_off);
  EXPECT_TRUE(ChangeOf(1, 1000, 19 * HK_MIB, HK_MIB).is_put_off);
  hk_learn_t learned = Learned();
  EXPECT_EQ(hk_level_dirty_bytes(&learned.level), 2 * HK_MIB);
}

HK_FRESH_TEST(DirtyShards, ALookOfOneNotesWhatAnotherHasPutOff) {
  SetUp(2);
  ChangeOf(0, 1000, 20 * HK_MIB, 0);
  ChangeOf(1, 1000, 20 * HK_MIB, 0);
  EXPECT_TRUE(ChangeOf(0, 1000, 18 * HK_MIB, 2 * HK_MIB).is_put_off);
  EXPECT_FALSE(ChangeOf(1, 5000, 19 * HK_MIB, HK_MIB).is_put_off);
  hk_learn_t learned = Learned();
  ASSERT_EQ(learned.level.count, 2u);
  EXPECT_EQ(learned.level.segment[0].since_ms, 1000u);
  EXPECT_EQ(learned.level.segment[1].since_ms, 5000u);
}

HK_FRESH_TEST(DirtyShards, AfterAPurgeEachShardLooksAgain) {
  SetUp(2);
  ChangeOf(0, 1000, 20 * HK_MIB, 0);
  ChangeOf(1, 1000, 20 * HK_MIB, 0);
  hk_lock_acquire(hk_lock_space);
  hk_dirty_note_purged_locked(1000, hk_purge_too_much, HK_MIB);
  hk_lock_release(hk_lock_space);
  for (unsigned shard : {0u, 1u}) {
    EXPECT_FALSE(ChangeOf(shard, 1000, 20 * HK_MIB, HK_SLAB_BYTES).is_put_off);
    EXPECT_TRUE(ChangeOf(shard, 1000, 20 * HK_MIB, 0).is_put_off);
  }
}

uint64_t Refaulted() { return hk_load_relaxed(&hk_stat_process.value[hk_stat_refaulted]); }

HK_FRESH_TEST(DirtyShards, MemoryThatWasPurgedIsNotedWhenItIsWanted) {
  SetUp(2);
  ChangeOf(1, 1000, 20 * HK_MIB, 0);
  hk_lock_acquire(hk_lock_space);
  hk_dirty_note_purged_locked(1000, hk_purge_too_much, HK_MIB);
  hk_lock_release(hk_lock_space);
  ChangeOf(1, 1000, 20 * HK_MIB, 0);
  hk_dirty_note_touched_locked(&hk_dirty_slabs[1], 2 * HK_MIB);
  EXPECT_FALSE(End(1, 1000).is_put_off);
  EXPECT_EQ(Refaulted(), HK_MIB) << "no more than was purged";
  hk_dirty_note_touched_locked(&hk_dirty_slabs[1], HK_MIB);
  EXPECT_TRUE(End(1, 1000).is_put_off) << "all of it is back";
  EXPECT_FALSE(End(1, 1001).is_put_off);
  EXPECT_EQ(Refaulted(), HK_MIB);
}

HK_FRESH_TEST(DirtyShards, AgesOfDifferentMsFollowEachOther) {
  SetUp(3);
  uint64_t last = 0;
  for (uint64_t ms = 1; ms < 100; ms++) {
    unsigned shard = static_cast<unsigned>(ms * 7 % 3);
    hk_dirty_account_t *account = ms % 10 == 0 ? &hk_dirty_extents : &hk_dirty_slabs[shard];
    uint64_t age = hk_dirty_next_age_locked(account);
    EXPECT_GT(age, last);
    last = age;
    if (account != &hk_dirty_extents) ChangeOf(shard, ms, HK_MIB, 0);
  }
}

}  // namespace
