// inspect/census: which memory is free and held back, which of it is resident, and which is resident only because a
// page is huge.
#include <vector>

#include "base/bits.h"
#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

extern "C" {
#include "inspect/census.h"
}

namespace {

using namespace hk_test;

constexpr unsigned kClass = 64; /* of 1 KiB: a page holds four */

hk_census_t Census() {
  hk_census_t census;
  hk_census_take(&census, nullptr);
  return census;
}

uint64_t Dirty(const hk_census_t &census) { return census.kept_bytes + census.dirty_bytes + census.large_dirty_bytes; }

uintptr_t SuperslabOf(const void *block) { return hk_slab_of(block)->superslab->start; }

// As the system does where a page is huge: all of it is resident, and bytes that were never written are zero.
void MakeResident(uintptr_t start) {
  for (size_t at = 0; at < HK_SUPERSLAB_BYTES; at += 4 * HK_KIB) {
    volatile char *page = reinterpret_cast<volatile char *>(start + at);
    *page = *page;
  }
}

HK_FRESH_TEST(Census, FreeMemoryIsCached) {
  hk_heap_t *heap = hk_heap_take();
  (void)Alloc(heap, kClass);
  hk_census_t census = Census();
  EXPECT_EQ(census.cached_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(census), 0u);
  EXPECT_EQ(census.unused_bytes, 0u);
  bool is_zero;
  void *run = hk_run_alloc(3 * HK_SLAB_BYTES, 1, &is_zero);
  memset(run, 1, 2 * HK_SLAB_BYTES);
  census = Census();
  EXPECT_EQ(census.cached_bytes, HK_SUPERSLAB_BYTES - 4 * HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(census), 0u);
  ASSERT_TRUE(hk_run_free(hk_slab_of(run)));
  census = Census();
  EXPECT_EQ(census.cached_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(census), 2 * HK_SLAB_BYTES) << "as much as was written";
  ASSERT_EQ(hk_purge_down_to(0), 3 * HK_SLAB_BYTES);
  EXPECT_EQ(Census().cached_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(Census()), 0u);
}

HK_FRESH_TEST(Census, ARunThatAHeapKeepsIsCached) {
  hk_heap_t *heap = hk_heap_take();
  (void)Alloc(heap, kClass);
  uint64_t kept_before = Census().kept_bytes;
  bool is_zero;
  void *run = hk_run_alloc(3 * HK_SLAB_BYTES, 1, &is_zero);
  memset(run, 1, 2 * HK_SLAB_BYTES);
  ASSERT_TRUE(hk_run_close(hk_slab_of(run)));
  hk_spare_put_run(heap, hk_slab_of(run));
  hk_census_t census = Census();
  EXPECT_EQ(census.cached_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES) << "its other slabs too";
  EXPECT_EQ(census.kept_bytes, kept_before + 2 * HK_SLAB_BYTES) << "as much as was written";
  EXPECT_EQ(census.run.live_blocks, 0u);
}

// The fake system has taken every other page of it by then.
HK_FRESH_TEST(Census, WhatWentLazilyIsCachedAndNotDirty) {
  hk_option.purge = hk_purge_free;
  hk_option.retain = 0;
  hk_heap_t *heap = hk_heap_take();
  (void)Alloc(heap, kClass);
  uint64_t before = Census().live_bytes;
  bool is_zero;
  void *run = hk_run_alloc(4 * HK_SLAB_BYTES, 1, &is_zero);
  memset(run, 1, 4 * HK_SLAB_BYTES);
  ASSERT_TRUE(hk_run_free(hk_slab_of(run)));
  hk_census_t census = Census();
  EXPECT_EQ(census.cached_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(census.lazy_bytes, 2 * HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(census), 0u);
  EXPECT_EQ(census.unused_bytes, 0u);
  EXPECT_EQ(census.live_bytes, before);
  ASSERT_EQ(hk_purge_down_to(0), 4 * HK_SLAB_BYTES);
  EXPECT_EQ(Census().lazy_bytes, 0u);
}

HK_FRESH_TEST(Census, FreeExtentsAreCachedToo) {
  bool is_zero;
  void *big = hk_large_alloc(3 * HK_MIB, 1, &is_zero);
  memset(big, 1, HK_MIB);
  EXPECT_EQ(Census().cached_bytes, 0u);
  ASSERT_TRUE(hk_large_free(hk_slab_of(big), big));
  hk_census_t census = Census();
  EXPECT_EQ(census.cached_bytes, hk_large_usage().cached_bytes);
  EXPECT_GE(census.cached_bytes, 3 * HK_MIB);
  EXPECT_EQ(Dirty(census), HK_MIB);
}

HK_FRESH_TEST(Census, SlabsThatAHeapKeepsAreCachedAndDirty) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> first = AllocMany(heap, kClass, CapacityOf(kClass)), second = AllocMany(heap, kClass, 1);
  for (hk_block_t *block : first) memset(static_cast<void *>(block), 1, 1024);
  uint64_t before = Census().cached_bytes;
  for (hk_block_t *block : first) (void)FreeOwn(heap, block);
  ASSERT_EQ(heap->spare_slabs, 1u);
  EXPECT_EQ(Census().cached_bytes, before + HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(Census()), HK_SLAB_BYTES);
  for (hk_block_t *block : second) (void)FreeOwn(heap, block);
}

HK_FRESH_TEST(Census, OfAHugePageWhatWasNeverUsedIsExcess) {
  hk_option.huge_pages = hk_huge_pages_always;
  fake_os_set_huge(hk_os_huge_on_request);
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *block = Alloc(heap, kClass);
  EXPECT_EQ(Census().huge_excess_bytes, 0u) << "the system may have no huge page to give";
  MakeResident(SuperslabOf(block));
  hk_census_t census = Census();
  ASSERT_EQ(census.superslabs_huge, 1u);
  EXPECT_EQ(census.huge_excess_bytes, HK_SUPERSLAB_BYTES - 4 * HK_KIB) << "all but the page that was carved";
  EXPECT_EQ(census.unused_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(census.uncarved_bytes, census.huge_excess_bytes);
  EXPECT_EQ(Dirty(census), 0u);
}

HK_FRESH_TEST(Census, WhatWasUsedBeforeIsNoExcess) {
  hk_option.huge_pages = hk_huge_pages_always;
  fake_os_set_huge(hk_os_huge_on_request);
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *block = Alloc(heap, kClass);
  bool is_zero;
  void *run = hk_run_alloc(3 * HK_SLAB_BYTES, 1, &is_zero);
  MakeResident(SuperslabOf(block));
  ASSERT_TRUE(hk_run_free(hk_slab_of(run)));
  hk_census_t census = Census();
  EXPECT_EQ(census.huge_excess_bytes, HK_SUPERSLAB_BYTES - 3 * HK_SLAB_BYTES - 4 * HK_KIB);
  EXPECT_EQ(Dirty(census), 3 * HK_SLAB_BYTES);
}

HK_FRESH_TEST(Census, NorIsTheRestOfASpanWhoseSlabsWereUsedBefore) {
  hk_option.huge_pages = hk_huge_pages_always;
  fake_os_set_huge(hk_os_huge_on_request);
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> first = AllocMany(heap, kClass, CapacityOf(kClass));
  hk_block_t *other = Alloc(heap, kClass);
  MakeResident(SuperslabOf(other));
  for (hk_block_t *block : first) (void)FreeOwn(heap, block);
  ASSERT_EQ(heap->spare_slabs, 1u);
  hk_block_t *again = Alloc(heap, kClass / 2);
  ASSERT_EQ(heap->spare_slabs, 0u);
  hk_census_t census = Census();
  size_t cut = hk_align_up(CarvedOf(SpanOf(other)) * hk_class_bytes(kClass), 4 * HK_KIB);
  size_t cut_again = hk_align_up(CarvedOf(SpanOf(again)) * hk_class_bytes(kClass / 2), 4 * HK_KIB);
  EXPECT_EQ(census.huge_excess_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES - cut);
  EXPECT_EQ(census.uncarved_bytes, HK_SUPERSLAB_BYTES - cut_again - cut);
  EXPECT_EQ(Dirty(census), 0u);
}

HK_FRESH_TEST(Census, OfALargeBlockWhatWasNotWrittenIsExcess) {
  constexpr size_t kBytes = 16 * HK_MIB;
  hk_option.huge_pages = hk_huge_pages_always;
  fake_os_set_huge(hk_os_huge_on_request);
  bool is_zero;
  char *block = static_cast<char *>(hk_large_alloc(kBytes, 1, &is_zero));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(Census().huge_excess_bytes, 0u) << "none of it is resident";
  memset(block, 0, kBytes); /* as huge pages are made */
  memset(block, 1, kBytes / 2);
  hk_census_t census = Census();
  EXPECT_NEAR(static_cast<double>(census.huge_excess_bytes), kBytes / 2, kBytes / HK_CENSUS_PAGES);
  EXPECT_EQ(census.uncarved_bytes, census.huge_excess_bytes);
  EXPECT_EQ(census.live_bytes + census.uncarved_bytes, kBytes);
}

HK_FRESH_TEST(Census, WithoutHugePagesThereIsNoExcess) {
  hk_heap_t *heap = hk_heap_take();
  MakeResident(SuperslabOf(Alloc(heap, kClass)));
  hk_census_t census = Census();
  EXPECT_EQ(census.superslabs_huge, 0u);
  EXPECT_EQ(census.huge_excess_bytes, 0u);
  EXPECT_EQ(census.unused_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(census), 0u);
}

}  // namespace
