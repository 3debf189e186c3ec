// space/superslab on a machine of several shards: where a thread gets slabs, and to whom they return.
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/shards_test.h"
#include "unit/superslab_driver.h"

extern "C" {
#include "space/class_slabs.h"
#include "space/short_span.h"
#include "space/superslab_index.h"
}

using hk_test::TestRandom;
using namespace hk_test;

namespace {

hk_slab_t *AcquireOn(unsigned shard, unsigned count) {
  MoveToShard(shard);
  return Acquire(count);
}

size_t DirtyOf(unsigned shard) { return hk_load_relaxed(&hk_dirty_slabs[shard].dirty_bytes); }
size_t InUseOf(unsigned shard) { return hk_load_relaxed(&hk_dirty_slabs[shard].in_use_bytes); }

HK_FRESH_TEST(SuperslabShards, ANewSuperslabIsItsMakers) {
  SetShards(3);
  for (unsigned shard = 0; shard < 3; shard++) EXPECT_EQ(AcquireOn(shard, kAll)->superslab->shard, shard);
  ExpectUsage(3, 3 * kAll, 0);
  for (unsigned shard = 0; shard < 3; shard++) EXPECT_EQ(InUseOf(shard), HK_SUPERSLAB_BYTES);
}

HK_FRESH_TEST(SuperslabShards, ItsOwnSlabsServeAThreadFirst) {
  SetShards(2);
  hk_slab_t *theirs = AcquireOn(0, kAll), *own = AcquireOn(1, kAll);
  Release(theirs, 4);
  Release(own, 4);
  EXPECT_EQ(AcquireOn(1, 2)->superslab, own->superslab);
  EXPECT_EQ(AcquireOn(0, 2)->superslab, theirs->superslab);
}

HK_FRESH_TEST(SuperslabShards, ThoseOfAnotherShardServeBeforeANewSuperslab) {
  SetShards(4);
  hk_slab_t *theirs = AcquireOn(2, 3);
  hk_slab_t *slab = AcquireOn(0, 5);
  EXPECT_EQ(slab->superslab, theirs->superslab);
  ExpectUsage(1, 8, 0);
  EXPECT_EQ(AcquireOn(3, kAll)->superslab->shard, 3u) << "too many for that one";
}

HK_FRESH_TEST(SuperslabShards, ASuperslabMovesToTheShardThatFindsSlabsThereAlone) {
  RetainEverything();
  SetShards(3);
  hk_slab_t *theirs = AcquireOn(2, 10);
  Release(theirs, 4);
  hk_slab_t *slab = AcquireOn(0, 5);
  EXPECT_EQ(slab->superslab, theirs->superslab);
  EXPECT_EQ(slab->superslab->shard, 0u);
  EXPECT_EQ(InUseOf(0), 11 * HK_SLAB_BYTES);
  EXPECT_EQ(DirtyOf(0), 4 * HK_SLAB_BYTES);
  EXPECT_EQ(InUseOf(2) + DirtyOf(2), 0u);

  Release(theirs + 4, 6); /* they were taken when it was in the other shard */
  EXPECT_EQ(InUseOf(0), 5 * HK_SLAB_BYTES);
  EXPECT_EQ(DirtyOf(0), 10 * HK_SLAB_BYTES);
  EXPECT_EQ(AcquireOn(2, 1)->superslab->shard, 2u) << "it moves back";
  EXPECT_EQ(InUseOf(0) + DirtyOf(0), 0u);
  ExpectUsage(1, 6, 9);
}

HK_FRESH_TEST(SuperslabShards, LazySlabsMoveToo) {
  RetainEverything();
  hk_option.purge = hk_purge_free;
  SetShards(2);
  Release(AcquireOn(0, 4), 3);
  hk_option.retain = 0;
  Release(AcquireOn(0, 1)); /* purges lazily */
  size_t lazy = hk_load_relaxed(&hk_dirty_slabs[0].lazy_bytes);
  ASSERT_GT(lazy, 0u);
  EXPECT_EQ(AcquireOn(1, 20)->superslab->shard, 1u);
  EXPECT_EQ(hk_load_relaxed(&hk_dirty_slabs[0].lazy_bytes), 0u);
  EXPECT_EQ(hk_load_relaxed(&hk_dirty_slabs[1].lazy_bytes), lazy);
}

// Slabs that come and go without the end of a change: here those that a hardened build keeps for a size class.
HK_FRESH_TEST(SuperslabShards, WhatMovesMayBeMoreThanTheLastChangeLeft) {
  RetainEverything();
  SetShards(2);
  hk_dirty_look_at_limit(1);
  hk_slab_t *slab = AcquireOn(0, 20);
  hk_class_slabs_put(slab, 5);
  Release(AcquireOn(0, 1));
  ASSERT_EQ(hk_class_slabs_take(5, 20), slab);
  EXPECT_EQ(AcquireOn(1, 1)->superslab, slab->superslab);
  hk_class_slabs_put(slab, 5);
  (void)AcquireOn(1, 1);
  (void)AcquireOn(1, 1); /* put off, and noted by the next look */
  (void)AcquireOn(0, kAll);
  hk_learn_t learned;
  hk_dirty_copy_learned(&learned);
  EXPECT_LE(learned.level.in_use_bytes, 2 * HK_SUPERSLAB_BYTES);
  EXPECT_LE(hk_level_dirty_bytes(&learned.level), HK_SUPERSLAB_BYTES);
}

hk_slab_t *taken_meanwhile;
void AcquireOnOne() {
  fake_os_set_hook(fake_os_purge, nullptr);
  taken_meanwhile = AcquireOn(1, 2);
}

HK_FRESH_TEST(SuperslabShards, SlabsOnTheirWayToTheSystemComeBackToTheNewShard) {
  RetainEverything();
  SetShards(2);
  hk_slab_t *slab = AcquireOn(0, 10);
  Release(slab, 4);
  fake_os_set_hook(fake_os_purge, AcquireOnOne);
  EXPECT_EQ(hk_purge_down_to(0), 4 * HK_SLAB_BYTES);
  EXPECT_EQ(taken_meanwhile->superslab, slab->superslab);
  EXPECT_EQ(slab->superslab->shard, 1u);
  EXPECT_EQ(InUseOf(0) + DirtyOf(0), 0u);
  EXPECT_EQ(InUseOf(1), 8 * HK_SLAB_BYTES);
  EXPECT_EQ(DirtyOf(1), 0u);
  ExpectUsage(1, 8, 0);
}

HK_FRESH_TEST(SuperslabShards, OtherShardsAreNoMissOfANode) {
  SetShards(2);
  (void)AcquireOn(0, 1);
  (void)AcquireOn(1, 1);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_numa_miss]), 0u);
}

HK_FRESH_TEST(SuperslabShards, AFreedSlabReturnsToItsSuperslabsShard) {
  RetainEverything();
  SetShards(2);
  hk_slab_t *slab = AcquireOn(0, 7);
  MoveToShard(1);
  Release(slab, 7);
  EXPECT_EQ(DirtyOf(0), 7 * HK_SLAB_BYTES);
  EXPECT_EQ(DirtyOf(1), 0u);
  EXPECT_EQ(InUseOf(0), 0u);
}

HK_FRESH_TEST(SuperslabShards, ManyGroupsReturnEachToItsOwn) {
  RetainEverything();
  SetShards(3);
  hk_list_t groups;
  hk_list_init(&groups);
  for (unsigned i = 0; i < 30; i++) {
    hk_slab_t *slab = AcquireOn(i % 3, kAll);
    ASSERT_EQ(slab->superslab->shard, i % 3);
    Release(slab, kAll - 1 - i % 3); /* the last ones are the group */
    hk_slab_t *first = slab + kAll - 1 - i % 3;
    first->slab_count = static_cast<uint8_t>(1 + i % 3);
    first->is_zero = false;
    hk_slab_retire(first, first->slab_count);
    hk_list_push_back(&groups, &first->link);
  }
  hk_superslab_release_all(&groups);
  EXPECT_TRUE(hk_list_is_empty(&groups));
  for (unsigned shard = 0; shard < 3; shard++) {
    EXPECT_EQ(InUseOf(shard), 0u);
    EXPECT_EQ(DirtyOf(shard), 10 * HK_SUPERSLAB_BYTES);
  }
}

HK_FRESH_TEST(SuperslabShards, APurgeTakesTheOldestOfAll) {
  RetainEverything();
  SetShards(4);
  std::vector<hk_slab_t *> slabs;
  for (unsigned shard : {2u, 0u, 3u, 1u}) slabs.push_back(AcquireOn(shard, kAll));
  for (hk_slab_t *slab : slabs) {
    fake_os_advance(1000000); /* within a ms, the order between shards is not kept */
    Release(slab);
  }
  for (size_t i = 0; i < slabs.size(); i++) {
    uintptr_t start = hk_slab_start(slabs[i]);
    EXPECT_EQ(hk_purge_down_to((3 - i) * HK_SUPERSLAB_BYTES), HK_SUPERSLAB_BYTES);
    EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start), 1)) << i;
  }
}

HK_FRESH_TEST(SuperslabShards, AnExtentIsOlderThanASlabThatWasFreedAfterIt) {
  RetainEverything();
  SetShards(2);
  bool is_zero;
  void *block = hk_large_alloc(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES, &is_zero);
  hk_slab_t *before = AcquireOn(0, kAll), *after = AcquireOn(1, kAll);
  uintptr_t start_before = hk_slab_start(before), start_after = hk_slab_start(after);
  Release(before);
  ASSERT_TRUE(hk_large_free(hk_slab_of(block), block));
  Release(after);
  (void)hk_purge_down_to(2 * HK_SUPERSLAB_BYTES);
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start_before), 1));
  (void)hk_purge_down_to(HK_SUPERSLAB_BYTES);
  EXPECT_FALSE(fake_os_is_mapped(block, 1));
  EXPECT_TRUE(fake_os_is_mapped(reinterpret_cast<void *>(start_after), 1));
}

HK_FRESH_TEST(SuperslabShards, FreeOnesOfAllBecomeALargeBlock) {
  RetainEverything();
  SetShards(3);
  std::vector<hk_slab_t *> slabs;
  for (unsigned shard = 0; shard < 3; shard++) slabs.push_back(AcquireOn(shard, kAll));
  for (hk_slab_t *slab : slabs) Release(slab);
  EXPECT_TRUE(hk_superslab_dissolve_free(3 * HK_SUPERSLAB_BYTES));
  ExpectUsage(0, 0, 0);
  EXPECT_EQ(hk_extent_usage().free_bytes, 3 * HK_SUPERSLAB_BYTES);
}

HK_FRESH_TEST(SuperslabShards, WhereTheSystemRefusesThoseOfAnyShardServe) {
  SetShards(4);
  for (unsigned shard = 0; shard < 4; shard++) (void)AcquireOn(shard, kAll - 1);
  fake_os_fail_all(fake_os_reserve, true);
  std::set<hk_superslab_t *> from;
  for (int i = 0; i < 4; i++) {
    hk_slab_t *slab = AcquireOn(1, 1);
    ASSERT_NE(slab, nullptr);
    from.insert(slab->superslab);
  }
  EXPECT_EQ(from.size(), 4u);
  EXPECT_EQ(AcquireOn(1, 1), nullptr);
}

// The first slab of a superslab ends and its addresses are mapped anew, by a thread of another shard.
HK_FRESH_TEST(SuperslabShards, AShortSpanJoinsTheSuperslabOfItsAddresses) {
  SetShards(2);
  hk_slab_t *first = AcquireOn(0, 1);
  hk_slab_t *rest = AcquireOn(0, kAll - 1);
  hk_superslab_t *superslab = first->superslab;
  MoveToShard(1);
  hk_superslab_t *record = hk_superslab_index_take_record();
  hk_superslab_index_lock_all();
  hk_superslab_index_detach_used_locked(superslab, UINT32_C(1) << (first - superslab->slabs));
  hk_extent_t room = {hk_slab_start(first), HK_SLAB_BYTES, true};
  EXPECT_FALSE(hk_superslab_index_enter_locked(record, room, 1)) << "no record is needed";
  hk_superslab_index_unlock_all();
  hk_superslab_index_spare_record(record);
  EXPECT_EQ(superslab->shard, 0u);
  EXPECT_EQ(Acquire(1)->superslab, superslab);
  EXPECT_EQ(rest->superslab, superslab);
  EXPECT_EQ(InUseOf(0) + InUseOf(1), HK_SUPERSLAB_BYTES);
}

HK_FRESH_TEST(SuperslabShards, ShortSpansOfAllShardsCountAndEnd) {
  SetShards(3);
  std::vector<hk_slab_t *> spans;
  for (unsigned i = 0; i < 12; i++) {
    MoveToShard(i % 3);
    spans.push_back(hk_short_span_acquire(2 * HK_SLAB_BYTES / 4));
    ASSERT_NE(spans.back(), nullptr);
  }
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 12 * HK_SLAB_BYTES);
  for (hk_slab_t *span : spans) {
    hk_slab_retire(span, 1);
    hk_short_span_release(span);
  }
  ExpectUsage(0, 0, 0);
}

HK_FRESH_TEST(SuperslabShards, AChildOfForkKnowsWhoseSuperslabsAre) {
  RetainEverything();
  SetShards(3);
  std::vector<hk_slab_t *> slabs;
  for (unsigned shard = 0; shard < 3; shard++) slabs.push_back(AcquireOn(shard, kAll));
  for (hk_slab_t *slab : slabs) Release(slab, 3);
  hk_superslab_index_repair(); /* changes nothing */
  for (unsigned shard = 0; shard < 3; shard++) {
    EXPECT_EQ(InUseOf(shard), (kAll - 3) * HK_SLAB_BYTES);
    EXPECT_EQ(DirtyOf(shard), 3 * HK_SLAB_BYTES);
    EXPECT_EQ(AcquireOn(shard, 3), slabs[shard]);
  }
}

HK_FRESH_TEST(SuperslabShards, RandomRangesOfThreadsThatMoveAreAllThere) {
  SetShards(4);
  hk_option.retain = 2 * HK_MIB;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; t++) {
    threads.emplace_back([&failures, t] {
      TestRandom random(t);
      std::vector<hk_slab_t *> held;
      for (int i = 0; i < 4000; i++) {
        if (i % 50 == 0) MoveToShard(static_cast<unsigned>(random.Below(4)));
        if (held.size() < 30 && random.OneIn(2)) {
          hk_slab_t *slab = Acquire(static_cast<unsigned>(random.LogBetween(1, kAll)));
          failures += slab == nullptr;
          if (slab == nullptr) continue;
          Touch(slab, slab->slab_count, reinterpret_cast<uintptr_t>(slab));
          held.push_back(slab);
        } else if (!held.empty()) {
          std::swap(held[random.Below(held.size())], held.back());
          failures += !Holds(held.back(), held.back()->slab_count, reinterpret_cast<uintptr_t>(held.back()));
          Release(held.back());
          held.pop_back();
        }
        if (i % 500 == 499) (void)hk_purge_down_to(0);
      }
      for (hk_slab_t *slab : held) Release(slab);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  (void)hk_purge_down_to(0);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

}  // namespace
