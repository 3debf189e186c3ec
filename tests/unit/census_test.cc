// heap/census: which memory waits, which of it is resident, what is resident only because a page is huge, and whose blocks are
// whose.
#include <cstring>
#include <vector>

#include "base/bits.h"
#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

extern "C" {
#include "heap/census.h"
}

namespace {

using namespace hk_test;

constexpr unsigned kClass = 64; /* of 1 KiB: a page holds four */

hk_census_t Census() {
  hk_census_t census;
  hk_census_take(&census, nullptr);
  return census;
}

uint64_t Dirty(const hk_census_t &census) { return census.kept_bytes + census.idle_bytes + census.big_idle_bytes; }

uintptr_t SuperslabOf(const void *block) { return hk_slab_of(block)->superslab->start; }

// What the system does where a page is huge: all of it is resident, and what nobody has written is zero.
void MakeResident(uintptr_t start) {
  for (size_t at = 0; at < HK_SUPERSLAB_BYTES; at += 4 * HK_KIB) {
    volatile char *page = reinterpret_cast<volatile char *>(start + at);
    *page = *page;
  }
}

HK_FRESH_TEST(Census, WhatNobodyHasIsCached) {
  hk_heap_t *heap = hk_heap_take();
  (void)Alloc(heap, kClass);
  hk_census_t census = Census();
  EXPECT_EQ(census.cached_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(census), 0u);
  EXPECT_EQ(census.unused_bytes, 0u);
  bool zero;
  void *run = hk_run_alloc(3 * HK_SLAB_BYTES, 1, &zero);
  memset(run, 1, 2 * HK_SLAB_BYTES);
  census = Census();
  EXPECT_EQ(census.cached_bytes, HK_SUPERSLAB_BYTES - 4 * HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(census), 0u);
  ASSERT_TRUE(hk_run_free(hk_slab_of(run)));
  census = Census();
  EXPECT_EQ(census.cached_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(census), 2 * HK_SLAB_BYTES) << "as much as was written";
  ASSERT_EQ(hk_surplus_trim(0), 3 * HK_SLAB_BYTES);
  EXPECT_EQ(Census().cached_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(Census()), 0u);
}

// The fake system has taken every other page of it by then.
HK_FRESH_TEST(Census, WhatWentLazilyIsCachedAndNotDirty) {
  hk_option.purge = hk_purge_free;
  hk_option.retain = 0;
  hk_heap_t *heap = hk_heap_take();
  (void)Alloc(heap, kClass);
  uint64_t before = Census().live_bytes;
  bool zero;
  void *run = hk_run_alloc(4 * HK_SLAB_BYTES, 1, &zero);
  memset(run, 1, 4 * HK_SLAB_BYTES);
  ASSERT_TRUE(hk_run_free(hk_slab_of(run)));
  hk_census_t census = Census();
  EXPECT_EQ(census.cached_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(census.lazy_bytes, 2 * HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(census), 0u);
  EXPECT_EQ(census.unused_bytes, 0u);
  EXPECT_EQ(census.live_bytes, before);
  ASSERT_EQ(hk_surplus_trim(0), 4 * HK_SLAB_BYTES);
  EXPECT_EQ(Census().lazy_bytes, 0u);
}

HK_FRESH_TEST(Census, FreeRangesAreCachedToo) {
  bool zero;
  void *big = hk_big_alloc(3 * HK_MIB, 1, &zero);
  memset(big, 1, HK_MIB);
  EXPECT_EQ(Census().cached_bytes, 0u);
  ASSERT_TRUE(hk_big_free(hk_slab_of(big), big));
  hk_census_t census = Census();
  EXPECT_EQ(census.cached_bytes, hk_big_usage().cached_bytes);
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
  EXPECT_EQ(census.huge_excess_bytes, HK_SUPERSLAB_BYTES - 4 * HK_KIB) << "all but the page that was cut";
  EXPECT_EQ(census.unused_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(census.uncarved_bytes, census.huge_excess_bytes);
  EXPECT_EQ(Dirty(census), 0u);
}

HK_FRESH_TEST(Census, WhatWasUsedBeforeIsNoExcess) {
  hk_option.huge_pages = hk_huge_pages_always;
  fake_os_set_huge(hk_os_huge_on_request);
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *block = Alloc(heap, kClass);
  bool zero;
  void *run = hk_run_alloc(3 * HK_SLAB_BYTES, 1, &zero);
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

HK_FRESH_TEST(Census, WithoutHugePagesThereIsNoExcess) {
  hk_heap_t *heap = hk_heap_take();
  MakeResident(SuperslabOf(Alloc(heap, kClass)));
  hk_census_t census = Census();
  EXPECT_EQ(census.superslabs_huge, 0u);
  EXPECT_EQ(census.huge_excess_bytes, 0u);
  EXPECT_EQ(census.unused_bytes, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  EXPECT_EQ(Dirty(census), 0u);
}

// ---- Whose blocks they are.

// What each heap has, by its number; and that it adds up to what the classes have.
struct ByHeap {
  std::vector<hk_census_count_t> of;
  hk_census_count_t others;
};

ByHeap TakeByHeap(size_t room) {
  ByHeap found{std::vector<hk_census_count_t>(room), {}};
  hk_census_heaps_t heaps = {found.of.data(), room, {}};
  heaps.others.spans = 77;  // what was there before is nothing
  for (hk_census_count_t &count : found.of) count.live_blocks = 77;
  hk_census_t census;
  hk_census_take(&census, &heaps);
  found.others = heaps.others;
  hk_census_count_t sum = {}, classes = {};
  auto add = [](hk_census_count_t &to, const hk_census_count_t &more) {
    to.spans += more.spans, to.slabs += more.slabs, to.live_blocks += more.live_blocks,
        to.live_bytes += more.live_bytes;
    to.free_blocks += more.free_blocks, to.free_bytes += more.free_bytes, to.resident_bytes += more.resident_bytes;
    to.spans_nearly_empty += more.spans_nearly_empty;
  };
  for (const hk_census_count_t &count : found.of) add(sum, count);
  add(sum, heaps.others);
  for (const hk_census_count_t &count : census.of_class) add(classes, count);
  EXPECT_EQ(memcmp(&sum, &classes, sizeof sum), 0) << sum.live_blocks << " of " << classes.live_blocks;
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(census.of_class[i].live_bytes, census.of_class[i].live_blocks * hk_class_bytes(i));
    EXPECT_EQ(census.of_class[i].free_bytes, census.of_class[i].free_blocks * hk_class_bytes(i));
  }
  return found;
}

hk_census_count_t OfHeap(hk_heap_t *heap) { return TakeByHeap(hk_heap_total()).of[hk_load_relaxed(&heap->number) - 1]; }

constexpr unsigned kMid = 80;

HK_FRESH_TEST(Census, HeapsAreNumberedInTheirOrder) {
  EXPECT_EQ(hk_heap_total(), 0u);
  std::vector<hk_heap_t *> heaps = TakeMany(5);
  EXPECT_EQ(hk_heap_total(), HeapCount());
  for (size_t i = 0; i < heaps.size(); i++) EXPECT_EQ(hk_load_relaxed(&heaps[i]->number), i + 1);
}

HK_FRESH_TEST(Census, EachHeapHasItsOwnBlocks) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  size_t tiny_bytes = hk_class_bytes(kClass), mid_bytes = hk_class_bytes(kMid);
  for (size_t i = 0; i < heaps.size(); i++) {
    (void)AllocMany(heaps[i], kClass, 100 * i + 1);
    Blocks mid = AllocMany(heaps[i], kMid, 10 * i + 3);
    (void)FreeOwn(heaps[i], mid[1]);  // to the bin
  }
  bool zero;
  (void)hk_run_alloc(3 * HK_SLAB_BYTES, 1, &zero);
  (void)hk_big_alloc(3 * HK_MIB, 1, &zero);
  ByHeap found = TakeByHeap(heaps.size());
  for (size_t i = 0; i < heaps.size(); i++) {
    uint64_t tiny = 100 * i + 1, mid = 10 * i + 2;
    EXPECT_EQ(found.of[i].live_blocks, tiny + mid);
    EXPECT_EQ(found.of[i].live_bytes, tiny * tiny_bytes + mid * mid_bytes);
    EXPECT_EQ(found.of[i].slabs, heaps[i]->span_slabs);
  }
  EXPECT_EQ(found.others.spans, 0u) << "runs and big blocks are in no span";
}

HK_FRESH_TEST(Census, HeapsThatThereIsNoRoomForAreTheOthers) {
  std::vector<hk_heap_t *> heaps = TakeMany(4);
  for (hk_heap_t *heap : heaps) {
    (void)AllocMany(heap, kClass, 10);
    (void)FreeOwn(heap, AllocMany(heap, kMid, 2)[0]);
  }
  ByHeap found = TakeByHeap(3);
  EXPECT_EQ(found.of[2].live_blocks, 11u);
  EXPECT_EQ(found.others.live_blocks, 11u);
  EXPECT_EQ(TakeByHeap(0).others.live_blocks, 44u);
}

HK_FRESH_TEST(Census, WhatOthersFreedIsTheOwnersUntilItIsHome) {
  for (unsigned class_index : {kClass, kMid}) {
    std::vector<hk_heap_t *> heaps = TakeMany(2);
    uint64_t before = OfHeap(heaps[0]).live_blocks;
    Blocks first = AllocMany(heaps[0], class_index, CapacityOf(class_index));
    (void)Alloc(heaps[0], class_index);  // of another span, which the bin is at now
    ASSERT_FALSE(IsActive(heaps[0], SpanOf(first[0])));
    uint64_t all = before + first.size() + 1;
    EXPECT_EQ(OfHeap(heaps[0]).live_blocks, all);
    for (int i = 0; i < 3; i++) RemoteFree(heaps[1], first[static_cast<size_t>(i)]);
    EXPECT_EQ(OfHeap(heaps[0]).live_blocks, all) << "they wait with who freed them";
    EXPECT_EQ(OfHeap(heaps[1]).live_blocks, 0u) << "whose they are not";
    hk_remote_flush(heaps[1]);
    EXPECT_EQ(OfHeap(heaps[0]).live_blocks, all) << "they wait for the owner";
    Drain(heaps[0]);
    EXPECT_EQ(OfHeap(heaps[0]).live_blocks, all - 3);
    EXPECT_EQ(OfHeap(heaps[1]).live_blocks, 0u);
  }
}

HK_FRESH_TEST(Census, OfTheSpanThatABinIsAtTheyAreFreeAtOnce) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  Blocks blocks = AllocMany(heaps[0], kClass, 10);
  ASSERT_TRUE(IsActive(heaps[0], SpanOf(blocks[0])));
  RemoteFree(heaps[1], blocks[0]);
  EXPECT_EQ(OfHeap(heaps[0]).live_blocks, HK_SAFETY ? 9u : CarvedOf(SpanOf(blocks[0])));
}

// A heap without a thread loses its half-used spans to who needs one.
HK_FRESH_TEST(Census, ASpanThatMovesTakesItsBlocksAlong) {
  for (unsigned class_index : {kClass, kMid}) {
    std::vector<hk_heap_t *> heaps = TakeMany(2);
    (void)AllocMany(heaps[0], class_index, 5);
    uint64_t there = OfHeap(heaps[1]).live_blocks, here = OfHeap(heaps[0]).live_blocks;
    hk_heap_give_back(heaps[0]);
    uint64_t moves = StatOf(heaps[1], hk_stat_slab_move);
    (void)Alloc(heaps[1], class_index);
    ASSERT_EQ(StatOf(heaps[1], hk_stat_slab_move), moves + 1);
    EXPECT_EQ(OfHeap(heaps[0]).live_blocks, here - 5);
    EXPECT_EQ(OfHeap(heaps[1]).live_blocks, there + 5 + 1);
  }
}

}  // namespace
