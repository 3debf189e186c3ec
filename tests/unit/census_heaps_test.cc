// inspect/census: whose blocks they are.
#include <cstring>
#include <vector>

#include "fresh_test.h"
#include "unit/heap_driver.h"

extern "C" {
#include "inspect/census.h"
}

namespace {

using namespace hk_test;

constexpr unsigned kClass = 64; /* of 1 KiB */

// What each heap has, by its number; and that it adds up to what the classes have.
struct ByHeap {
  std::vector<hk_census_count_t> of;
  hk_census_count_t others;
};

ByHeap TakeByHeap(size_t room) {
  ByHeap found{std::vector<hk_census_count_t>(room), {}};
  hk_census_heaps_t heaps = {found.of.data(), room, {}};
  heaps.others.spans = 77;  // counts from before do not remain
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

HK_FRESH_TEST(CensusOfHeaps, HeapsAreNumberedInTheirOrder) {
  EXPECT_EQ(hk_heap_total(), 0u);
  std::vector<hk_heap_t *> heaps = TakeMany(5);
  EXPECT_EQ(hk_heap_total(), HeapCount());
  for (size_t i = 0; i < heaps.size(); i++) EXPECT_EQ(hk_load_relaxed(&heaps[i]->number), i + 1);
}

HK_FRESH_TEST(CensusOfHeaps, EachHeapHasItsOwnBlocks) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  size_t tiny_bytes = hk_class_bytes(kClass), mid_bytes = hk_class_bytes(kMid);
  for (size_t i = 0; i < heaps.size(); i++) {
    (void)AllocMany(heaps[i], kClass, 100 * i + 1);
    Blocks mid = AllocMany(heaps[i], kMid, 10 * i + 3);
    (void)FreeOwn(heaps[i], mid[1]);  // to the bin
  }
  bool is_zero;
  (void)hk_run_alloc(3 * HK_SLAB_BYTES, 1, &is_zero);
  (void)hk_large_alloc(3 * HK_MIB, 1, &is_zero);
  ByHeap found = TakeByHeap(heaps.size());
  for (size_t i = 0; i < heaps.size(); i++) {
    uint64_t tiny = 100 * i + 1, mid = 10 * i + 2;
    EXPECT_EQ(found.of[i].live_blocks, tiny + mid);
    EXPECT_EQ(found.of[i].live_bytes, tiny * tiny_bytes + mid * mid_bytes);
    EXPECT_EQ(found.of[i].slabs, heaps[i]->span_slabs);
  }
  EXPECT_EQ(found.others.spans, 0u) << "runs and large blocks are in no span";
}

HK_FRESH_TEST(CensusOfHeaps, HeapsThatThereIsNoRoomForAreTheOthers) {
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

HK_FRESH_TEST(CensusOfHeaps, WhatOthersFreedIsTheOwnersUntilItIsHome) {
  for (unsigned class_index : {kClass, kMid}) {
    std::vector<hk_heap_t *> heaps = TakeMany(2);
    uint64_t before = OfHeap(heaps[0]).live_blocks;
    Blocks first = AllocMany(heaps[0], class_index, CapacityOf(class_index));
    (void)Alloc(heaps[0], class_index);  // of another span, which the bin is at now
    ASSERT_FALSE(IsActive(heaps[0], SpanOf(first[0])));
    uint64_t all = before + first.size() + 1;
    EXPECT_EQ(OfHeap(heaps[0]).live_blocks, all);
    for (int i = 0; i < 3; i++) RemoteFree(heaps[1], first[static_cast<size_t>(i)]);
    EXPECT_EQ(OfHeap(heaps[0]).live_blocks, all) << "they wait with the heap that freed them";
    EXPECT_EQ(OfHeap(heaps[1]).live_blocks, 0u) << "whose they are not";
    hk_remote_flush(heaps[1]);
    EXPECT_EQ(OfHeap(heaps[0]).live_blocks, all) << "they wait for the owner";
    Drain(heaps[0]);
    EXPECT_EQ(OfHeap(heaps[0]).live_blocks, all - 3);
    EXPECT_EQ(OfHeap(heaps[1]).live_blocks, 0u);
  }
}

HK_FRESH_TEST(CensusOfHeaps, OfTheSpanThatABinIsAtTheyAreFreeAtOnce) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  Blocks blocks = AllocMany(heaps[0], kClass, 10);
  ASSERT_TRUE(IsActive(heaps[0], SpanOf(blocks[0])));
  RemoteFree(heaps[1], blocks[0]);
  EXPECT_EQ(OfHeap(heaps[0]).live_blocks, HK_SAFETY ? 9u : CarvedOf(SpanOf(blocks[0])));
}

// A heap without a thread loses its half-used spans to a heap that needs one.
HK_FRESH_TEST(CensusOfHeaps, ASpanThatMovesTakesItsBlocksAlong) {
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
