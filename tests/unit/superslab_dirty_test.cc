// space/superslab: dirty memory and its purging.
#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/superslab_driver.h"

using namespace hk_test;

namespace {

HK_FRESH_TEST(Superslab, DirtyMemoryStaysUpToTheOption) {
  hk_option.retain = 4 * HK_MIB;
  std::vector<hk_slab_t *> slabs;
  for (int i = 0; i < 300; i++) {
    slabs.push_back(Acquire(1 + i % 7));
    Touch(slabs.back(), slabs.back()->slab_count);
  }
  size_t most_idle = 0;
  for (hk_slab_t *slab : slabs) {
    Release(slab);
    hk_superslab_usage_t usage = hk_superslab_usage();
    ASSERT_LE(usage.dirty_bytes, std::max(4 * HK_MIB, usage.in_use_bytes / 8));
    most_idle = std::max(most_idle, usage.dirty_bytes);
  }
  EXPECT_GT(most_idle, 4 * HK_MIB) << "a twelfth of the bytes in use was allowed";
  EXPECT_GT(hk_superslab_usage().dirty_bytes, HK_MIB) << "not everything was given back";
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, WithinTheBoundNothingIsGivenBack) {
  hk_option.retain = 2 * HK_MIB;
  hk_slab_t *slab = Acquire(kAll);
  ASSERT_NE(Acquire(1), nullptr);
  Release(slab);
  EXPECT_EQ(fake_os_calls(fake_os_unmap) + fake_os_calls(fake_os_purge), 0u);
  ExpectUsage(2, 1, kAll);
}

HK_FRESH_TEST(Superslab, AnEighthOfWhatIsInUseStaysWhateverTheOption) {
  hk_option.retain = 0;
  std::vector<hk_slab_t *> slabs;
  for (int i = 0; i < 16; i++) slabs.push_back(Acquire(kAll));
  hk_slab_t *small = Acquire(kAll);
  Release(small); /* 2 MiB idle, 32 MiB in use */
  ExpectUsage(17, 16 * kAll, kAll);
  EXPECT_EQ(fake_os_calls(fake_os_unmap) + fake_os_calls(fake_os_purge), 0u);
  for (hk_slab_t *slab : slabs) {
    Release(slab);
    hk_superslab_usage_t usage = hk_superslab_usage();
    ASSERT_LE(usage.dirty_bytes, usage.in_use_bytes / 8);
  }
  ExpectUsage(0, 0, 0);
}

// Takes and releases 16 MiB on top of the bytes in use, `cycles` times. Returns how often memory was purged.
unsigned CyclesThatGaveBack(unsigned cycles, uint64_t pause_ns = 1000000) {
  unsigned gave_back = 0;
  for (unsigned cycle = 0; cycle < cycles; cycle++) {
    std::vector<hk_slab_t *> slabs;
    for (int i = 0; i < 8; i++) slabs.push_back(Acquire(kAll));
    uint64_t before = fake_os_calls(fake_os_unmap);
    for (hk_slab_t *slab : slabs) Release(slab);
    gave_back += fake_os_calls(fake_os_unmap) > before;
    fake_os_advance(pause_ns);
  }
  return gave_back;
}

HK_FRESH_TEST(Superslab, WhatIsWantedAgainIsKeptFromThenOn) {
  hk_option.retain = 1;
  EXPECT_EQ(CyclesThatGaveBack(10), 1u) << "the first time: then it is known that it will be wanted";
  ExpectUsage(8, 0, 8 * kAll);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_refaulted]), 16 * HK_MIB);
}

HK_FRESH_TEST(Superslab, WhatIsWantedAgainMuchLaterIsNotKept) {
  hk_option.retain = 1;
  EXPECT_EQ(CyclesThatGaveBack(10, 5000000000), 10u);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_refaulted]), 0u);
}

HK_FRESH_TEST(Superslab, WhatIsNotWantedAnyMoreGoes) {
  hk_option.retain = 1;
  EXPECT_EQ(CyclesThatGaveBack(3), 1u);
  ExpectUsage(8, 0, 8 * kAll);
  fake_os_advance(4500000000);
  Release(Acquire(1)); /* whatever happens next */
  EXPECT_LE(hk_superslab_usage().dirty_bytes, HK_SUPERSLAB_BYTES);
}

HK_FRESH_TEST(Superslab, NothingIsEarnedWhereNothingIsToBeRetained) {
  hk_option.retain = 0;
  EXPECT_EQ(CyclesThatGaveBack(10), 10u);
  ExpectUsage(0, 0, 0);
}

HK_FRESH_TEST(Superslab, ACollectForgetsWhatWasLearned) {
  hk_option.retain = 1;
  EXPECT_EQ(CyclesThatGaveBack(2), 1u);
  (void)hk_purge_down_to(0);
  EXPECT_EQ(CyclesThatGaveBack(1), 1u);
}

HK_FRESH_TEST(Superslab, LargeExtentsAreDirtyMemoryToo) {
  hk_option.retain = 4 * HK_MIB;
  hk_slab_t *slab = Acquire(kAll);
  bool is_zero;
  void *old_big = hk_large_alloc(2 * HK_MIB, 1, &is_zero);
  void *wall = hk_large_alloc(2 * HK_MIB, HK_GIB, &is_zero); /* far away, so that nothing merges */
  ASSERT_TRUE(hk_large_free(hk_slab_of(old_big), old_big));
  Release(slab);
  EXPECT_TRUE(fake_os_is_mapped(old_big, 2 * HK_MIB));
  EXPECT_EQ(hk_large_usage().dirty_bytes, 2 * HK_MIB);
  ExpectUsage(1, 0, kAll);
  ASSERT_TRUE(hk_large_free(hk_slab_of(wall), wall)); /* 6 MiB are idle, 4 may be, and 1 less is aimed at */
  EXPECT_FALSE(fake_os_is_mapped(old_big, 1)) << "the oldest goes first";
  ExpectUsage(0, 0, 0);
  EXPECT_TRUE(fake_os_is_mapped(wall, 2 * HK_MIB));
  EXPECT_EQ(hk_large_usage().dirty_bytes, 2 * HK_MIB);
}

HK_FRESH_TEST(Superslab, WhollyFreeOnesServeLargeBlocks) {
  RetainEverything();
  hk_slab_t *partly = Acquire(1);
  std::vector<hk_slab_t *> slabs;
  std::set<uintptr_t> starts;
  for (int i = 0; i < 8; i++) slabs.push_back(Acquire(kAll));
  for (hk_slab_t *slab : slabs) starts.insert(hk_slab_start(slab));
  for (hk_slab_t *slab : slabs) Touch(slab, kAll);
  for (hk_slab_t *slab : slabs) Release(slab);
  uint64_t reserves = fake_os_calls(fake_os_reserve);
  bool is_zero = true;
  std::vector<char *> bigs;
  for (int i = 0; i < 8; i++) {
    bigs.push_back(static_cast<char *>(hk_large_alloc(HK_SUPERSLAB_BYTES, 1, &is_zero)));
    EXPECT_FALSE(is_zero);
    EXPECT_EQ(starts.count(reinterpret_cast<uintptr_t>(bigs.back())), 1u) << i;
  }
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserves);
  ExpectUsage(1, 1, 0);
  EXPECT_EQ(hk_large_usage().mapped_bytes, 8 * HK_SUPERSLAB_BYTES);
  EXPECT_EQ(hk_slab_state(partly), hk_slab_free) << "acquired, and not described by this test";

  /* And back. */
  for (char *big : bigs) EXPECT_TRUE(hk_large_free(hk_slab_of(big), big));
  for (hk_slab_t *&slab : slabs) {
    slab = Acquire(kAll);
    EXPECT_EQ(starts.count(hk_slab_start(slab)), 1u);
    EXPECT_FALSE(slab->is_zero);
    for (unsigned i = 0; i < kAll; i++) {
      ASSERT_EQ(hk_slab_state(&slab[i]), hk_slab_free);
      ASSERT_EQ(slab[i].superslab, slab->superslab);
      ASSERT_EQ(slab[i].extent.since, 0u);
    }
  }
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserves);
  ExpectUsage(9, 8 * kAll + 1, 0);
  EXPECT_EQ(hk_large_usage().cached_bytes, 0u);
  for (hk_slab_t *slab : slabs) Release(slab);
  Release(partly);
  (void)hk_purge_down_to(0);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, ForABlockThatIsTooLongForAllOfThemTheyStay) {
  RetainEverything();
  Release(Acquire(kAll));
  bool is_zero;
  ASSERT_NE(hk_large_alloc(2 * HK_SUPERSLAB_BYTES, 1, &is_zero), nullptr);
  ExpectUsage(1, 0, kAll);
}

HK_FRESH_TEST(Superslab, OneMadeOfAPurgedExtentIsZero) {
  RetainEverything();
  bool is_zero;
  char *big = static_cast<char *>(hk_large_alloc(2 * HK_SUPERSLAB_BYTES, 1, &is_zero));
  memset(big, 1, 2 * HK_SUPERSLAB_BYTES);
  ASSERT_TRUE(hk_large_free(hk_slab_of(big), big));
  fake_os_fail_all(fake_os_unmap, true);
  (void)hk_purge_down_to(0);
  hk_slab_t *slab = Acquire(3);
  EXPECT_EQ(hk_slab_start(slab), reinterpret_cast<uintptr_t>(big));
  EXPECT_TRUE(slab->is_zero);
  EXPECT_TRUE(Holds(slab, 3, 0));
  ExpectUsage(1, 3, 0);
}

HK_FRESH_TEST(Superslab, WhatDoesNotFitGivesWay) {
  hk_option.retain = 1;
  EXPECT_EQ(CyclesThatGaveBack(2), 1u); /* 16 MiB are idle, and all that was ever in use */
  bool is_zero;
  void *wall = hk_large_alloc(20 * HK_MIB, 1, &is_zero); /* none of it serves this */
  ASSERT_NE(wall, nullptr);
  EXPECT_LE(hk_superslab_usage().dirty_bytes + hk_large_usage().dirty_bytes, 10 * HK_MIB);
}

HK_FRESH_TEST(Superslab, WhatIsReleasedIntoMakesItYounger) {
  RetainEverything();
  hk_slab_t *first = Acquire(20);
  hk_slab_t *rest = Acquire(12);
  hk_slab_t *second = Acquire(kAll);
  uintptr_t second_start = hk_slab_start(second);
  Release(rest);
  Release(second);
  Release(first);
  EXPECT_EQ(hk_purge_down_to(2 * HK_MIB), 2 * HK_MIB);
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(second_start), 1));
}

HK_FRESH_TEST(Superslab, WithNothingToRetainTheLastReleaseUnmaps) {
  hk_option.retain = 0;
  hk_slab_t *slab = Acquire(3);
  uintptr_t start = slab->superslab->start;
  Touch(slab, 3);
  Release(slab);
  ExpectUsage(0, 0, 0);
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start), 1));
  ExpectNothingLost();
}

hk_superslab_usage_t usage_meanwhile;

// While the purge thread purges, other threads read the bytes in use.
HK_FRESH_TEST(Superslab, WhatIsOnItsWayBackIsNeitherInUseNorIdle) {
  RetainEverything();
  fake_os_set_hook(fake_os_purge, [] { usage_meanwhile = hk_superslab_usage(); });
  hk_slab_t *slab = Acquire(3), *other = Acquire(2);
  Touch(slab, 3);
  Release(slab);
  (void)hk_purge_down_to(0);
  EXPECT_EQ(usage_meanwhile.in_use_bytes, 2 * HK_SLAB_BYTES);
  EXPECT_EQ(usage_meanwhile.dirty_bytes, 0u);
  ExpectUsage(1, 2, 0);

  Touch(other, 2);
  fake_os_fail_all(fake_os_unmap, true);
  Release(other);
  (void)hk_purge_down_to(0); /* a whole one, which is purged instead */
  EXPECT_EQ(usage_meanwhile.in_use_bytes, 0u);
  ExpectUsage(0, 0, 0);
  ExpectFreeRanges(1, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, PurgeKeepsWhatItIsTold) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs;
  for (int i = 0; i < 10; i++) slabs.push_back(Acquire(kAll));
  for (hk_slab_t *slab : slabs) Release(slab);
  ExpectUsage(10, 0, 10 * kAll);
  EXPECT_EQ(hk_purge_down_to(SIZE_MAX), 0u);
  EXPECT_EQ(hk_purge_down_to(20 * HK_MIB), 0u);
  EXPECT_EQ(hk_purge_down_to(20 * HK_MIB - 1), 2 * HK_MIB);
  EXPECT_EQ(hk_purge_down_to(7 * HK_MIB), 12 * HK_MIB);
  ExpectUsage(3, 0, 3 * kAll);
  EXPECT_EQ(hk_purge_down_to(0), 6 * HK_MIB);
  ExpectUsage(0, 0, 0);
  EXPECT_EQ(hk_purge_down_to(0), 0u);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_purged]), 20 * HK_MIB);
}

HK_FRESH_TEST(Superslab, TheLongestIdleGoesFirst) {
  RetainEverything();
  hk_slab_t *slabs[3] = {Acquire(kAll), Acquire(kAll), Acquire(kAll)};
  uintptr_t start[3];
  for (int i = 0; i < 3; i++) start[i] = hk_slab_start(slabs[i]);
  Release(slabs[1]);
  Release(slabs[2]);
  Release(slabs[0]);
  EXPECT_EQ(hk_purge_down_to(4 * HK_MIB), 2 * HK_MIB);
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start[1]), 1));
  EXPECT_EQ(hk_purge_down_to(2 * HK_MIB), 2 * HK_MIB);
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start[2]), 1));
  EXPECT_TRUE(fake_os_is_mapped(reinterpret_cast<void *>(start[0]), HK_SUPERSLAB_BYTES));
}

HK_FRESH_TEST(Superslab, WhollyFreeSuperslabsAreUnmappedAndNotOursAnyMore) {
  hk_slab_t *slab = Acquire(5);
  uintptr_t start = slab->superslab->start;
  EXPECT_EQ(hk_purge_down_to(0), 0u) << "it is in use";
  EXPECT_TRUE(fake_os_is_mapped(reinterpret_cast<void *>(start), HK_SUPERSLAB_BYTES));
  Release(slab);
  EXPECT_EQ(hk_purge_down_to(0), 5 * HK_SLAB_BYTES) << "what may have been resident";
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start), 1));
  for (unsigned i = 0; i < kAll; i++) {
    EXPECT_EQ(hk_slab_state(hk_slab_of(reinterpret_cast<void *>(start + i * HK_SLAB_BYTES))), hk_slab_none);
  }
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
  hk_slab_t *again = Acquire(kAll);
  ASSERT_NE(again, nullptr);
  EXPECT_TRUE(again->is_zero);
  EXPECT_EQ(hk_slab_state(again), hk_slab_free);
}

HK_FRESH_TEST(Superslab, OnlyWhatIsIdleIsPurged) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireSingles();
  for (hk_slab_t *slab : slabs) Touch(slab, 1, 7);
  ReleaseSingles(slabs, 0, 1);
  ReleaseSingles(slabs, 5, 9);
  ReleaseSingles(slabs, 31, 32);
  EXPECT_EQ(hk_purge_down_to(0), 6 * HK_SLAB_BYTES);
  EXPECT_EQ(fake_os_calls(fake_os_purge), 3u) << "one call a row";
  for (unsigned i = 0; i < kAll; i++) {
    bool is_idle = i == 0 || (i >= 5 && i < 9) || i == 31;
    EXPECT_TRUE(Holds(slabs[i], 1, is_idle ? 0 : 7)) << i;
  }
  ExpectUsage(1, 26, 0);
}

}  // namespace
