// space/superslab: what follows when the system refuses, and the repair after fork.
#include <cstring>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/superslab_driver.h"

extern "C" {
#include "space/shortage.h"
}

using namespace hk_test;

namespace {

// ---- Refusals.

HK_FRESH_TEST(Superslab, ARefusedUnmapLosesNothing) {
  RetainEverything();
  hk_slab_t *slabs[3] = {Acquire(kAll), Acquire(kAll), Acquire(kAll)};
  for (hk_slab_t *slab : slabs) Touch(slab, kAll);
  for (hk_slab_t *slab : slabs) Release(slab);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_EQ(hk_purge_down_to(0), 6 * HK_MIB) << "purging gives the memory back too";
  ExpectUsage(0, 0, 0);
  ExpectFreeRanges(3, 0);
  ExpectNothingLost();
  for (int i = 0; i < 3; i++) {
    hk_slab_t *slab = Acquire(kAll);
    ASSERT_NE(slab, nullptr);
    EXPECT_TRUE(slab->is_zero);
    EXPECT_TRUE(Holds(slab, kAll, 0));
    EXPECT_EQ(hk_slab_state(slab), hk_slab_free);
    slabs[i] = slab;
  }
  ExpectUsage(3, 3 * kAll, 0);
  for (hk_slab_t *slab : slabs) Release(slab);
  fake_os_fail_all(fake_os_unmap, false);
  EXPECT_EQ(hk_purge_down_to(0), 6 * HK_MIB);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, WhatCouldNotBeUnmappedIsUnmappedLater) {
  Release(Acquire(kAll));
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_EQ(hk_purge_down_to(0), HK_SUPERSLAB_BYTES);
  EXPECT_EQ(hk_purge_down_to(0), 0u) << "it holds no memory any more, and ends although the system still refuses";
  ExpectUsage(0, 0, 0);
  ExpectFreeRanges(1, 0);
  fake_os_fail_all(fake_os_unmap, false);
  EXPECT_EQ(hk_purge_down_to(0), 0u);
  ExpectFreeRanges(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, ARefusedPurgeLosesNothing) {
  RetainEverything();
  ASSERT_NE(Acquire(1), nullptr);
  hk_slab_t *slab = Acquire(8);
  Touch(slab, 8);
  Release(slab);
  fake_os_fail_all(fake_os_purge, true);
  EXPECT_EQ(hk_purge_down_to(0), 0u);
  ExpectUsage(1, 1, 8);
  EXPECT_EQ(Acquire(8), slab);
  EXPECT_FALSE(slab->is_zero);
  Release(slab);
  fake_os_fail_all(fake_os_purge, false);
  EXPECT_EQ(hk_purge_down_to(0), 8 * HK_SLAB_BYTES);
  ExpectUsage(1, 1, 0);
  EXPECT_EQ(Acquire(8), slab);
  EXPECT_TRUE(slab->is_zero);
  EXPECT_TRUE(Holds(slab, 8, 0));
}

HK_FRESH_TEST(Superslab, OneRefusedPurgeOfManyMakesNothingZeroThatIsNot) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireSingles();
  for (hk_slab_t *slab : slabs) Touch(slab, 1);
  for (unsigned i = 0; i < kAll; i += 2) Release(slabs[i]);
  fake_os_fail_nth(fake_os_purge, 9);
  (void)hk_purge_down_to(0);
  for (unsigned i = 0; i < kAll; i += 2) {
    hk_slab_t *slab = Acquire(1);
    ASSERT_EQ(slab->superslab, slabs[0]->superslab);
    EXPECT_TRUE(!slab->is_zero || Holds(slab, 1, 0)) << PlaceOf(slab);
  }
}

HK_FRESH_TEST(Superslab, BothRefusedLosesNothing) {
  RetainEverything();
  hk_slab_t *slab = Acquire(kAll);
  Touch(slab, kAll);
  Release(slab);
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  EXPECT_EQ(hk_purge_down_to(0), 0u);
  ExpectUsage(0, 0, 0);
  ExpectFreeRanges(1, 1);
  EXPECT_EQ(Acquire(kAll), slab);
  EXPECT_FALSE(slab->is_zero);
  EXPECT_EQ(hk_slab_state(slab), hk_slab_free);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 3u) << "records, a leaf, one superslab";
}

HK_FRESH_TEST(Superslab, ReleasesGoOnWhileTheSystemRefuses) {
  hk_option.retain = 0;
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  for (int round = 0; round < 3; round++) {
    hk_slab_t *slabs[4];
    for (hk_slab_t *&slab : slabs) slab = Acquire(kAll);
    ExpectUsage(4, 4 * kAll, 0);
    for (hk_slab_t *slab : slabs) Release(slab);
    EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
    EXPECT_EQ(hk_dirty_total(), 4 * HK_SUPERSLAB_BYTES);
    ExpectNothingLost();
  }
}

// The first acquire asks for a chunk of records, the superslab and a leaf of the region map. Where one of them is
// refused, the next request is smaller.
void ExpectRefusalIsOvercome(uint64_t nth) {
  fake_os_fail_nth(fake_os_reserve, nth);
  hk_slab_t *slab = Acquire(1);
  ASSERT_NE(slab, nullptr);
  EXPECT_TRUE(slab->is_zero);
  EXPECT_EQ(hk_superslab_usage().superslab_count, 1u);
  ExpectNothingLost();
  Release(slab);
  (void)hk_purge_down_to(0);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, RefusedRecords) { ExpectRefusalIsOvercome(1); }
HK_FRESH_TEST(Superslab, RefusedMapping) { ExpectRefusalIsOvercome(2); }
HK_FRESH_TEST(Superslab, RefusedDescriptors) { ExpectRefusalIsOvercome(3); }

HK_FRESH_TEST(Superslab, ManyRefusalsTakeNoRecords) {
  ASSERT_NE(Acquire(kAll), nullptr);
  size_t records = hk_meta_mapped_bytes();
  fake_os_fail_all(fake_os_reserve, true);
  for (int i = 0; i < 10000; i++) ASSERT_EQ(Acquire(1), nullptr);
  fake_os_fail_all(fake_os_reserve, false);
  fake_os_advance(HK_SHORTAGE_MS * 1000000);
  ASSERT_NE(Acquire(1), nullptr);
  EXPECT_EQ(hk_meta_mapped_bytes(), records);
  ExpectUsage(2, kAll + 1, 0);
}

HK_FRESH_TEST(Superslab, RefusedWritesToDescriptors) {
  fake_os_fail_all(fake_os_allow_writes, true);
  EXPECT_EQ(Acquire(1), nullptr);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
  fake_os_fail_all(fake_os_allow_writes, false);
  EXPECT_NE(Acquire(1), nullptr);
  ExpectNothingLost();
}

// ---- Near a limit on addresses.

// The next mapping may lie in a neighbour of the only region that there is: its leaf of the region map is there
// already, and takes nothing of the rest.
void LimitToMore(size_t slabs) {
  size_t region = 0;
  ASSERT_NE(hk_region_map_find(&region), nullptr);
  for (size_t near : {region - 1, region + 1}) {
    ASSERT_TRUE(hk_region_map_enter(reinterpret_cast<void *>(near << HK_REGION_SHIFT), HK_SLAB_BYTES));
  }
  fake_os_limit_mapped(fake_os_mapped_bytes() + slabs * HK_SLAB_BYTES);
}

HK_FRESH_TEST(Superslab, ThereAreSlabsDownToTheLastThatTheSystemGrants) {
  hk_slab_t *whole = Acquire(kAll);
  LimitToMore(6);
  hk_slab_t *three = Acquire(3), *two = Acquire(2), *aligned = Acquire(1, kAll);
  ASSERT_TRUE(three != nullptr && two != nullptr && aligned != nullptr);
  EXPECT_EQ(Acquire(1), nullptr);
  EXPECT_EQ(hk_slab_start(aligned) % HK_SUPERSLAB_BYTES, 0u);
  EXPECT_EQ(hk_superslab_usage().mapped_bytes, (kAll + 6) * HK_SLAB_BYTES);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, (kAll + 6) * HK_SLAB_BYTES);
  ExpectNothingLost();
  for (hk_slab_t *slab : {three, two, aligned}) {
    EXPECT_TRUE(slab->is_zero);
    Touch(slab, slab->slab_count);
  }
  hk_superslab_index_repair();
  EXPECT_EQ(hk_superslab_usage().mapped_bytes, (kAll + 6) * HK_SLAB_BYTES);
  Release(two);
  EXPECT_EQ(Acquire(2), two) << "the purged slabs serve again";
  for (hk_slab_t *slab : {whole, three, two, aligned}) Release(slab);
  (void)hk_purge_down_to(0);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, FreeSlabsBetweenOthersGiveTheirAddressesBack) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireSingles();
  for (hk_slab_t *slab : slabs) Touch(slab, 1);
  for (unsigned i = 0; i < kAll; i += 2) Release(slabs[i]);
  LimitToMore(0);
  EXPECT_EQ(Acquire(2), nullptr);
  EXPECT_TRUE(hk_purge_unmap_free());
  EXPECT_FALSE(hk_purge_unmap_free()) << "once";
  EXPECT_EQ(hk_superslab_usage().mapped_bytes, kAll / 2 * HK_SLAB_BYTES);
  EXPECT_EQ(hk_superslab_usage().dirty_bytes, 0u);
  EXPECT_EQ(hk_slab_state(slabs[0]), hk_slab_none);
  ExpectNothingLost();
  hk_slab_t *whole = Acquire(kAll / 2);
  ASSERT_NE(whole, nullptr);
  EXPECT_TRUE(Holds(whole, kAll / 2, 0));
  for (unsigned i = 1; i < kAll; i += 2) EXPECT_TRUE(Holds(slabs[i], 1, UINT64_MAX)) << i;
  Release(whole);
  for (unsigned i = 1; i < kAll; i += 2) Release(slabs[i]);
  (void)hk_purge_down_to(0);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, WhatTheSystemDoesNotTakeIsAFreeExtent) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireSingles();
  for (hk_slab_t *slab : slabs) Touch(slab, 1);
  ReleaseSingles(slabs, 4, 8);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_TRUE(hk_purge_unmap_free());
  EXPECT_EQ(hk_superslab_usage().mapped_bytes, (kAll - 4) * HK_SLAB_BYTES);
  EXPECT_EQ(hk_extent_usage().free_bytes, 4 * HK_SLAB_BYTES);
  LimitToMore(0);
  EXPECT_EQ(Acquire(4), slabs[4]);
  EXPECT_TRUE(slabs[4]->is_zero);
  ExpectUsage(1, kAll, 0);
  fake_os_fail_all(fake_os_purge, true);
  Release(slabs[4], 4);
  EXPECT_FALSE(hk_purge_unmap_free());
  EXPECT_EQ(hk_extent_usage().free_bytes, 4 * HK_SLAB_BYTES);
  EXPECT_EQ(hk_load_relaxed(&hk_dirty_extents.dirty_bytes), 4 * HK_SLAB_BYTES);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, AShortageEnds) {
  ASSERT_NE(Acquire(kAll), nullptr);
  LimitToMore(1);
  ASSERT_NE(Acquire(1), nullptr);
  fake_os_limit_mapped(0);
  EXPECT_TRUE(hk_shortage_is_on());
  ASSERT_NE(Acquire(1), nullptr);
  EXPECT_EQ(hk_superslab_usage().mapped_bytes, (kAll + 2) * HK_SLAB_BYTES);
  fake_os_advance(HK_SHORTAGE_MS * 1000000);
  EXPECT_FALSE(hk_shortage_is_on());
  ASSERT_NE(Acquire(1), nullptr);
  EXPECT_EQ(hk_superslab_usage().mapped_bytes, (2 * kAll + 2) * HK_SLAB_BYTES);
}

// ---- Repair.

HK_FRESH_TEST(Superslab, RepairMakesTheSameStateFromTheRecords) {
  RetainEverything();
  hk_slab_t *whole = Acquire(kAll);
  hk_slab_t *gone = Acquire(kAll);
  hk_superslab_t *spare = gone->superslab;
  std::vector<hk_slab_t *> singles = AcquireSingles();
  hk_slab_t *part = Acquire(20);
  Release(gone);
  (void)hk_purge_down_to(0); /* one spare record */
  ReleaseSingles(singles, 3, 9);
  hk_superslab_usage_t before = hk_superslab_usage();

  /* The links as a vanished thread may leave them, and worse. */
  for (hk_slab_t *slab : {whole, singles[0], part}) {
    memset(&slab->superslab->link, 0xdb, sizeof(hk_list_t));
    memset(&slab->superslab->dirty_link, 0xdb, sizeof(hk_list_t));
  }
  hk_superslab_index_repair();

  hk_superslab_usage_t after = hk_superslab_usage();
  EXPECT_EQ(memcmp(&before, &after, sizeof before), 0);
  EXPECT_EQ(Acquire(6), singles[3]) << "the hole";
  EXPECT_FALSE(singles[3]->is_zero);
  EXPECT_EQ(Acquire(12), part + 20) << "the rest";
  EXPECT_TRUE((part + 20)->is_zero);
  hk_slab_t *next = Acquire(1);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->superslab, spare) << "in the record that was to spare";
  ExpectUsage(4, 3 * kAll + 1, 0);

  Release(next);
  Release(whole);
  Release(singles[3], 6);
  ReleaseSingles(singles, 0, 3);
  ReleaseSingles(singles, 9, kAll);
  Release(part, kAll);
  (void)hk_purge_down_to(0);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, RepairOfNothing) {
  hk_superslab_index_repair();
  ExpectUsage(0, 0, 0);
  ASSERT_NE(Acquire(1), nullptr);
  ExpectUsage(1, 1, 0);
}

}  // namespace
