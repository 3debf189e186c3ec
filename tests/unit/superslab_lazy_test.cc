// space/superslab: lazily purged memory, which the system takes when it is short of memory. The fake one
// has taken every other page of it, and left the others as they were.
#include <cstring>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/superslab_driver.h"

using namespace hk_test;

namespace {

uint64_t Count(hk_stat_id_t id) { return hk_load_relaxed(&hk_stat_process.value[id]); }
size_t Lazy() { return hk_superslab_usage().lazy_bytes / HK_SLAB_BYTES; }

// Superslabs whose first slab stays in use, which keeps them from being unmapped.
constexpr unsigned kMost = kAll - 1;

struct Pinned {
  hk_slab_t *pin;
  hk_slab_t *rest;
};

Pinned Pin(unsigned char fill = 0xff) {
  Pinned pinned = {Acquire(1), Acquire(kMost)};
  EXPECT_EQ(pinned.pin->superslab, pinned.rest->superslab);
  memset(reinterpret_cast<void *>(hk_slab_start(pinned.rest)), fill, kMost * HK_SLAB_BYTES);
  return pinned;
}

// Frees them, where little may be idle: the last of them stays so.
std::vector<Pinned> MakeLazy(unsigned count) {
  hk_option.purge = hk_purge_free;
  RetainEverything();
  std::vector<Pinned> all;
  for (unsigned i = 0; i < count; i++) all.push_back(Pin());
  for (const Pinned &one : all) Release(one.rest);
  EXPECT_EQ(Lazy(), 0u);
  hk_option.retain = 0;
  hk_slab_t *last = Acquire(kAll);
  Release(last);
  return all;
}

HK_FRESH_TEST(SuperslabLazy, ByDefaultNothingIsLazy) {
  EXPECT_EQ(hk_option.purge, hk_purge_dontneed);
  hk_option.retain = 0;
  Pinned pinned = Pin();
  Release(pinned.rest);
  EXPECT_EQ(fake_os_calls(fake_os_purge), 1u);
  EXPECT_EQ(fake_os_calls(fake_os_purge_lazily), 0u);
  EXPECT_EQ(Lazy(), 0u);
  EXPECT_EQ(Acquire(kMost), pinned.rest);
  EXPECT_TRUE(pinned.rest->is_zero);
}

HK_FRESH_TEST(SuperslabLazy, WhatLiesBetweenMemoryInUseGoesLazily) {
  hk_option.purge = hk_purge_free;
  hk_option.retain = 0;
  Pinned pinned = Pin();
  Release(pinned.rest);
  EXPECT_EQ(fake_os_calls(fake_os_purge), 0u);
  EXPECT_EQ(fake_os_calls(fake_os_purge_lazily), 1u) << "one call a row";
  ExpectUsage(1, 1, 0);
  EXPECT_EQ(Lazy(), kMost);
  EXPECT_EQ(Count(hk_stat_purged_lazily), kMost * HK_SLAB_BYTES);
  EXPECT_EQ(Count(hk_stat_purged), 0u) << "not yet";
}

HK_FRESH_TEST(SuperslabLazy, WhatIsWhollyFreeIsUnmappedAllTheSame) {
  hk_option.purge = hk_purge_free;
  hk_option.retain = 0;
  Pinned pinned = Pin();
  Release(pinned.rest);
  Release(pinned.pin);
  ExpectUsage(0, 0, 0);
  EXPECT_EQ(Lazy(), 0u);
  EXPECT_EQ(Count(hk_stat_purged), kAll * HK_SLAB_BYTES) << "with what went lazily before";
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabLazy, NothingIsBelievedToBeZero) {
  hk_option.purge = hk_purge_free;
  hk_option.retain = 0;
  Pinned pinned = Pin();
  Release(pinned.rest);
  hk_slab_t *again = Acquire(3);
  EXPECT_EQ(again->superslab, pinned.pin->superslab);
  EXPECT_FALSE(again->is_zero);
  EXPECT_EQ(Lazy(), kMost - 3);
  hk_slab_t *some = hk_superslab_acquire_some(2, kAll);
  EXPECT_EQ(some->slab_count, 2) << "none that is known to be zero comes on top";
  EXPECT_FALSE(some->is_zero);
  bool is_zero = true;
  ASSERT_TRUE(hk_superslab_extend(again + 3, 1, &is_zero));
  EXPECT_FALSE(is_zero);
  EXPECT_EQ(Lazy(), kMost - 6);
}

HK_FRESH_TEST(SuperslabLazy, WhatIsIdleServesBeforeWhatIsLazy) {
  std::vector<Pinned> all = MakeLazy(1);
  hk_option.retain = HK_TIB;
  hk_slab_t *first = Acquire(10), *second = Acquire(2);
  ASSERT_EQ(second, first + 10);
  Release(second);
  ASSERT_EQ(Lazy(), kMost - 12);
  EXPECT_EQ(Acquire(1, 1, hk_from_top), second + 1) << "the others are nearer to the top";
  EXPECT_EQ(Lazy(), kMost - 12);
  EXPECT_EQ(Acquire(4, 1, hk_from_bottom), second + 2) << "too long for the dirty slabs alone";
  EXPECT_EQ(Lazy(), kMost - 16);
}

HK_FRESH_TEST(SuperslabLazy, ItCountsAsPurgedForTheLearner) {
  hk_option.purge = hk_purge_free;
  hk_option.retain = 1;
  Pinned pinned = Pin();
  Release(pinned.rest);
  ASSERT_EQ(Lazy(), kMost);
  EXPECT_EQ(Acquire(kMost), pinned.rest);
  EXPECT_EQ(Count(hk_stat_refaulted), kMost * HK_SLAB_BYTES);
  Release(pinned.rest);
  EXPECT_EQ(Lazy(), 0u) << "it was wanted again: now it stays";
}

HK_FRESH_TEST(SuperslabLazy, ACollectGivesItBackAtOnce) {
  std::vector<Pinned> all = MakeLazy(3);
  size_t lazy = Lazy();
  ASSERT_EQ(lazy, 3 * kMost);
  uint64_t before = Count(hk_stat_purged);
  EXPECT_EQ(hk_purge_down_to(0), lazy * HK_SLAB_BYTES);
  EXPECT_EQ(Count(hk_stat_purged), before + lazy * HK_SLAB_BYTES);
  EXPECT_EQ(Lazy(), 0u);
  EXPECT_EQ(fake_os_calls(fake_os_purge), 3u);
  for (const Pinned &one : all) EXPECT_TRUE(Holds(one.rest, kMost, 0));
  hk_slab_t *again = Acquire(kMost);
  EXPECT_TRUE(again->is_zero);
  Release(again, kMost);
  EXPECT_EQ(hk_purge_down_to(0), kMost * HK_SLAB_BYTES);
  EXPECT_EQ(hk_purge_down_to(0), 0u);
}

HK_FRESH_TEST(SuperslabLazy, APurgeTakesWhatIsLazyFirstAndCountsIt) {
  Pinned young = Pin();
  std::vector<Pinned> all = MakeLazy(2);
  hk_option.retain = HK_TIB;
  size_t lazy = Lazy();
  ASSERT_EQ(lazy, 2 * kMost);
  Release(young.rest);
  size_t held = (lazy + kMost) * HK_SLAB_BYTES;
  EXPECT_EQ(hk_purge_down_to(held), 0u);
  EXPECT_EQ(hk_purge_down_to(held - 1), kMost * HK_SLAB_BYTES);
  EXPECT_EQ(Lazy(), kMost);
  EXPECT_EQ(hk_superslab_usage().dirty_bytes, kMost * HK_SLAB_BYTES) << "it is younger";
}

HK_FRESH_TEST(SuperslabLazy, NearALimitItGoesAtOnce) {
  std::vector<Pinned> all = MakeLazy(20);
  ASSERT_EQ(Lazy(), 20 * kMost);
  hk_option.retain = HK_TIB;
  hk_option.memory_limit = 32 * HK_MIB; /* of which little is in use, and 38 MiB may be resident */
  hk_slab_t *any = Acquire(1);
  EXPECT_LE(Lazy() * HK_SLAB_BYTES, 28 * HK_MIB);
  EXPECT_GT(Lazy(), 0u);
  EXPECT_GT(fake_os_calls(fake_os_purge), 0u);
  hk_option.memory_limit = HK_MIB;
  Release(any);
  EXPECT_EQ(Lazy(), 0u);
  EXPECT_EQ(hk_superslab_usage().dirty_bytes, 0u);
  EXPECT_EQ(fake_os_calls(fake_os_purge_lazily), 20u) << "only while no limit was near";
}

HK_FRESH_TEST(SuperslabLazy, FarFromALimitItStaysLazy) {
  hk_option.memory_limit = HK_GIB;
  std::vector<Pinned> all = MakeLazy(8);
  EXPECT_EQ(Lazy(), 8 * kMost);
  EXPECT_EQ(fake_os_calls(fake_os_purge), 0u);
}

HK_FRESH_TEST(SuperslabLazy, WhereTheSystemKnowsNoSuchThingItGoesAtOnce) {
  fake_os_know_lazy_purge(false);
  hk_option.purge = hk_purge_free;
  hk_option.retain = 0;
  Pinned pinned = Pin();
  Release(pinned.rest);
  EXPECT_EQ(Lazy(), 0u);
  EXPECT_EQ(Count(hk_stat_purged), kMost * HK_SLAB_BYTES);
  EXPECT_EQ(Acquire(kMost), pinned.rest);
  EXPECT_TRUE(pinned.rest->is_zero);
  EXPECT_TRUE(Holds(pinned.rest, kMost, 0));
}

HK_FRESH_TEST(SuperslabLazy, WhatIsRefusedStaysIdle) {
  hk_option.purge = hk_purge_free;
  hk_option.retain = 0;
  fake_os_fail_all(fake_os_purge_lazily, true);
  Pinned pinned = Pin();
  Release(pinned.rest);
  ExpectUsage(1, 1, kMost);
  EXPECT_EQ(Lazy(), 0u);
  EXPECT_EQ(Count(hk_stat_purged) + Count(hk_stat_purged_lazily), 0u);
  EXPECT_EQ(Acquire(kMost), pinned.rest);
  EXPECT_FALSE(pinned.rest->is_zero);
}

HK_FRESH_TEST(SuperslabLazy, OneRefusalOfManyLeavesAllIdle) {
  hk_option.purge = hk_purge_free;
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireSingles();
  for (unsigned i = 0; i < kAll; i += 2) Release(slabs[i]);
  fake_os_fail_nth(fake_os_purge_lazily, 9);
  hk_option.retain = 0;
  hk_slab_t *one = Acquire(1);
  EXPECT_EQ(fake_os_failures(fake_os_purge_lazily), 1u);
  EXPECT_EQ(Lazy(), 0u);
  ExpectUsage(1, kAll / 2 + 1, kAll / 2 - 1);
  Release(one);
  EXPECT_EQ(Lazy(), kAll / 2) << "the next release tries again";
}

HK_FRESH_TEST(SuperslabLazy, RepairFindsItAgain) {
  std::vector<Pinned> all = MakeLazy(3);
  for (const Pinned &one : all) memset(&one.pin->superslab->dirty_link, 0xdb, sizeof(hk_list_t));
  /* A thread that was claiming a slab when it vanished. */
  all[0].rest->superslab->free_mask &= ~(UINT32_C(1) << PlaceOf(all[0].rest));
  hk_superslab_index_repair();
  EXPECT_EQ(Lazy(), 3 * kMost - 1);
  EXPECT_EQ(hk_purge_down_to(0), (3 * kMost - 1) * HK_SLAB_BYTES);
  EXPECT_EQ(Lazy(), 0u);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabLazy, AnUntouchedReserveThatComesBackLeavesItLazy) {
  hk_option.purge = hk_purge_free;
  hk_option.retain = 0;
  hk_slab_t *pin = Acquire(1), *used = Acquire(20);
  Touch(used, 20);
  Release(used);
  ASSERT_EQ(Lazy(), 20u);
  hk_slab_t *reserve = pin + 21; /* untouched memory */
  bool is_zero = false;
  ASSERT_TRUE(hk_superslab_extend(reserve, 11, &is_zero));
  ASSERT_TRUE(is_zero);
  reserve->slab_count = 11;
  reserve->is_zero = true;
  ReleaseAll({reserve});
  EXPECT_EQ(Lazy(), 20u);
  ExpectUsage(1, 1, 0);
  EXPECT_EQ(hk_superslab_index_oldest_locked(), nullptr) << "nothing of it is idle";
  EXPECT_EQ(hk_superslab_index_lazy_locked(), pin->superslab);
  EXPECT_EQ(hk_purge_down_to(0), 20 * HK_SLAB_BYTES);
  ExpectNothingLost();
}

}  // namespace
