// heap/heap_flush: the memory that a heap gives back when it is to keep nothing, and the memory that it must keep.
#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

using namespace hk_test;

namespace {

bool is_zero;

void ExpectNothingLeft(hk_heap_t *heap) {
  EXPECT_EQ(InUseSlabs(), 0u);
  EXPECT_EQ(hk_heap_spare_slabs(heap), 0u);
  EXPECT_EQ(heap->reserve, nullptr);
  for (const hk_list_t &list : heap->spare) EXPECT_TRUE(hk_list_is_empty(&list));
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), StatOf(heap, hk_stat_slab_release));
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(heap->state[i].active.load(), nullptr) << i;
    EXPECT_EQ(heap->bin[i].free, HK_LIST_END) << i;
    if (hk_class_is_mid(i)) EXPECT_EQ(heap->bin[i].countdown, RoomOf(heap, i)) << i;
  }
}

HK_FRESH_TEST(HeapFlush, AHeapThatHasNothing) {
  hk_heap_t *heap = hk_heap_take();
  hk_heap_flush(heap);
  ExpectNothingLeft(heap);
  for (unsigned i = HK_TINY_CLASS_MAX + 1; i < HK_CLASS_COUNT; i++) EXPECT_FALSE(heap->state[i].spilled) << i;
}

HK_FRESH_TEST(HeapFlush, SpansThatWereCarvedAndNeverUsedAreGivenBack) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    ASSERT_TRUE(hk_refill(heap, class_index, nullptr));
  }
  hk_heap_flush(heap);
  ExpectNothingLeft(heap);
}

HK_FRESH_TEST(HeapFlush, WhatWasUsedAndIsFreeAgainIsGivenBack) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> blocks;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    for (unsigned i = 0; i < 2 * CapacityOf(class_index) + 3; i++) blocks.push_back(Alloc(heap, class_index));
  }
  for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
  ASSERT_GT(InUseSlabs(), 0u);
  ASSERT_GT(heap->spare_slabs, 0u);
  hk_heap_flush(heap);
  ExpectNothingLeft(heap);
}

// One block of each class is in use: its span stays, whole, and nothing else.
HK_FRESH_TEST(HeapFlush, ASpanStaysWhileABlockIsInUse) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> held;
  size_t slabs = 0;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    std::vector<hk_block_t *> blocks;
    for (unsigned i = 0; i < CapacityOf(class_index) + 2; i++) blocks.push_back(Alloc(heap, class_index));
    held.push_back(blocks[class_index % 2 == 0 ? 1 : CapacityOf(class_index)]); /* of the full span, or the active */
    for (hk_block_t *block : blocks) {
      if (block != held.back()) (void)FreeOwn(heap, block);
    }
    slabs += hk_class_span_slabs(class_index);
  }
  hk_heap_flush(heap);
  for (hk_block_t *block : held) CheckSpan(heap, SpanOf(block), 1);
  size_t empty_active = 0; /* of tiny classes the active span whose blocks are all free was given back, too */
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    hk_slab_t *active = heap->state[i].active.load();
    if (active != nullptr && active != SpanOf(held[i - 1])) empty_active++;
  }
  EXPECT_EQ(empty_active, 0u);
  EXPECT_EQ(InUseSlabs(), slabs);
  for (hk_block_t *block : held) (void)FreeOwn(heap, block);
  hk_heap_flush(heap);
  ExpectNothingLeft(heap);
}

HK_FRESH_TEST(HeapFlush, WhatIsCarvedAndNotHandedOutCountsAsFree) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *tiny = Alloc(heap, 20), *mid = Alloc(heap, 66);
  ASSERT_GT(CarvedOf(SpanOf(tiny)), 1u);
  ASSERT_GT(CarvedOf(SpanOf(mid)), 1u);
  hk_heap_flush(heap);
  EXPECT_EQ(InUseSlabs(), 2u);
  EXPECT_TRUE(IsActive(heap, SpanOf(tiny)));
  CheckSpan(heap, SpanOf(tiny), 1);
  CheckSpan(heap, SpanOf(mid), 1);
  EXPECT_EQ(heap->bin[66].free, HK_LIST_END) << "a mid bin keeps nothing";
  CheckMidBin(heap, 66);
}

HK_FRESH_TEST(HeapFlush, APartialSpanIsLeftAsItIs) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> blocks = {Alloc(heap, 10)};
  for (hk_block_t *block : PopAll(heap, 10)) blocks.push_back(block);
  hk_slab_t *span = SpanOf(blocks[0]);
  hk_span_deactivate(heap, 10);
  hk_heap_flush(heap);
  CheckSpan(heap, span, static_cast<unsigned>(blocks.size()));
  for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
  hk_heap_flush(heap);
  ExpectNothingLeft(heap);
}

HK_FRESH_TEST(HeapFlush, SpareSlabsAreGivenBack) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  for (unsigned class_index : {1u, 104u}) hk_span_release(heap, hk_span_acquire(heap, class_index));
  ASSERT_EQ(heap->spare_slabs, 5u);
  for (size_t slabs : {1, 1, 5}) {
    void *run = hk_run_alloc(slabs * HK_SLAB_BYTES, 1, &is_zero);
    ASSERT_TRUE(SpareRun(heap, hk_slab_of(run)));
  }
  EXPECT_EQ(heap->spare_slabs, 12u);
  EXPECT_EQ(InUseSlabs(), 12u);
  hk_heap_flush(heap);
  ExpectNothingLeft(heap);
}

HK_FRESH_TEST(HeapFlush, AHeapWorksOnAfterIt) {
  hk_heap_t *heap = hk_heap_take();
  for (int round = 0; round < 3; round++) {
    for (unsigned class_index : {5u, 64u, 66u, 80u, 104u}) {
      std::vector<hk_block_t *> blocks;
      for (unsigned i = 0; i < 7; i++) blocks.push_back(Alloc(heap, class_index));
      for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
      CheckSpan(heap, SpanOf(blocks[0]), 0);
    }
    hk_heap_flush(heap);
    ExpectNothingLeft(heap);
  }
}

// Blocks in other threads' batches are in use until the owner collects them.
HK_FRESH_TEST(HeapFlush, BlocksUnderWayAreInUse) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  for (unsigned class_index : {20u, 66u, 104u}) {
    SCOPED_TRACE(class_index);
    hk_block_t *block = Alloc(heap, class_index);
    hk_slab_t *span = SpanOf(block);
    hk_remote_free(other, span, block);
    hk_heap_flush(heap);
    EXPECT_EQ(InUseSlabs(), hk_class_span_slabs(class_index)) << "in the batch";
    hk_remote_flush(other);
    hk_heap_flush(heap);
    EXPECT_EQ(InUseSlabs(), hk_class_span_slabs(class_index)) << "sent";
    CheckSpan(heap, span, 1);
    hk_remote_drain(heap);
    hk_heap_flush(heap);
    ExpectNothingLeft(heap);
  }
}

// ---- A heap that has no thread.

// Freed blocks of each class, and of some classes one in use; spare slabs of spans and of runs.
std::vector<hk_block_t *> UseALot(hk_heap_t *heap) {
  std::vector<hk_block_t *> held;
  std::vector<std::vector<hk_block_t *>> blocks(HK_CLASS_COUNT);
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    for (unsigned i = 0; i < 5; i++) blocks[class_index].push_back(Alloc(heap, class_index));
  }
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    for (unsigned i = 0; i < 5; i++) {
      if (i == 2 && class_index % 3 == 0) {
        held.push_back(blocks[class_index][i]);
      } else {
        (void)FreeOwn(heap, blocks[class_index][i]);
      }
    }
  }
  for (unsigned class_index : {1u, 93u, 104u}) hk_span_release(heap, hk_span_acquire(heap, class_index));
  for (size_t slabs : {1, 4, 7}) {
    EXPECT_TRUE(SpareRun(heap, hk_slab_of(hk_run_alloc(slabs * HK_SLAB_BYTES, 1, &is_zero))));
  }
  EXPECT_GE(heap->spare_slabs, 12u);
  return held;
}

std::vector<hk_heap_t *> MakeIdle(unsigned count) {
  std::vector<hk_heap_t *> heaps;
  for (unsigned i = 0; i < count; i++) heaps.push_back(hk_heap_take());
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  return heaps;
}

size_t SlabsOf(const std::vector<hk_block_t *> &held) {
  size_t slabs = 0;
  for (const hk_block_t *block : held) slabs += SpanOf(block)->slab_count;
  return slabs;
}

// ---- Unload.

HK_FRESH_TEST(Unload, KeepsActiveTinySpansAndNothingElse) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  std::vector<hk_block_t *> held = UseALot(heap);
  std::vector<hk_slab_t *> active;
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) active.push_back(heap->state[i].active.load());
  hk_heap_unload(heap);

  EXPECT_EQ(hk_heap_spare_slabs(heap), 0u);
  size_t slabs = SlabsOf(held);
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    ASSERT_NE(active[i - 1], nullptr);
    EXPECT_EQ(heap->state[i].active.load(), active[i - 1]) << "as it was";
    CheckSpan(heap, active[i - 1], i % 3 == 0 ? 1 : 0);
    if (i % 3 != 0) slabs += active[i - 1]->slab_count;
  }
  for (unsigned i = HK_TINY_CLASS_MAX + 1; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(heap->bin[i].free, HK_LIST_END) << i;
    CheckMidBin(heap, i);
  }
  for (hk_block_t *block : held) CheckSpan(heap, SpanOf(block), 1);
  EXPECT_EQ(InUseSlabs(), slabs);

  for (hk_block_t *block : held) (void)FreeOwn(heap, block);
  hk_heap_flush(heap);
  ExpectNothingLeft(heap);
}

HK_FRESH_TEST(Unload, TheNextThreadBeginsWithSmallCarvings) {
  hk_heap_t *heap = nullptr;
  std::thread([&heap] {
    hk_thread_lease_t lease = hk_thread_enter();
    heap = lease.heap;
    for (unsigned class_index : {1u, 20u, 64u, 66u}) (void)AllocMany(heap, class_index, CapacityOf(class_index));
    for (unsigned class_index : {1u, 20u, 64u}) EXPECT_GT(heap->state[class_index].carve_count, 0u) << class_index;
    hk_thread_leave(lease);
    hk_thread_on_exit();
  }).join();
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) EXPECT_EQ(heap->state[i].carve_count, 0u) << i;
}

HK_FRESH_TEST(DeactivateAll, KeepsNothingFree) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  std::vector<hk_block_t *> held = UseALot(heap);
  hk_heap_deactivate_all(heap);
  EXPECT_EQ(hk_heap_spare_slabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), SlabsOf(held));
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    if (i % 3 != 0) EXPECT_EQ(heap->state[i].active.load(), nullptr) << i;
  }
  for (hk_block_t *block : held) CheckSpan(heap, SpanOf(block), 1);
  for (hk_block_t *block : held) (void)FreeOwn(heap, block);
  hk_heap_deactivate_all(heap);
  ExpectNothingLeft(heap);
}

// A span that is not empty counts its blocks from then on, and is released with the last one: no walk is needed for
// that.
HK_FRESH_TEST(DeactivateAll, ASpanThatIsNotEmptyIsPutToRest) {
  hk_heap_t *heap = hk_heap_take();
  (void)MakeIdle(HK_POOL_WARM);
  for (unsigned class_index = 1; class_index <= HK_TINY_CLASS_MAX; class_index++) {
    for (unsigned free_count : {0u, 1u, 2u}) {
      SCOPED_TRACE(testing::Message() << class_index << ", " << free_count);
      std::vector<hk_block_t *> held = AllocMany(heap, class_index, 2);
      for (hk_block_t *block : PopAll(heap, class_index)) held.push_back(block);
      hk_slab_t *span = SpanOf(held[0]);
      bool is_full = CarvedOf(span) == CapacityOf(class_index);
      for (unsigned i = 0; i < free_count; i++) {
        (void)FreeOwn(heap, held.back());
        held.pop_back();
      }
      hk_heap_deactivate_all(heap);
      EXPECT_EQ(heap->state[class_index].active.load(), nullptr);
      EXPECT_EQ(heap->bin[class_index].free, HK_LIST_END);
      EXPECT_EQ(IsPartial(heap, span), !is_full || free_count > 0) << "the next thread finds it";
      while (!held.empty()) {
        CheckSpan(heap, span, static_cast<unsigned>(held.size()));
        (void)FreeOwn(heap, held.back());
        held.pop_back();
      }
      EXPECT_EQ(hk_slab_state(span), hk_slab_free);
      hk_spare_flush(heap);
      ASSERT_EQ(InUseSlabs(), 0u);
    }
  }
}

HK_FRESH_TEST(DeactivateAll, ASpanAtRestServesTheNextThread) {
  hk_heap_t *heap = hk_heap_take();
  (void)MakeIdle(HK_POOL_WARM);
  for (unsigned class_index : {1u, 20u, 64u}) {
    SCOPED_TRACE(class_index);
    hk_block_t *held = Alloc(heap, class_index);
    std::vector<hk_block_t *> expected = PopAll(heap, class_index);
    for (size_t i = expected.size(); i-- > 0;) (void)FreeOwn(heap, expected[i]);
    hk_heap_deactivate_all(heap);
    hk_heap_give_back(heap);
    EXPECT_TRUE(hk_heap_offers(heap, class_index));
    ASSERT_EQ(hk_heap_take(), heap);
    std::vector<hk_block_t *> again = AllocMany(heap, class_index, expected.size() + 1);
    for (hk_block_t *block : again) EXPECT_EQ(SpanOf(block), SpanOf(held)) << "those, and new ones";
    again.pop_back();
    EXPECT_EQ(again, expected);
    CheckSpan(heap, SpanOf(held), static_cast<unsigned>(expected.size()) + 2);
  }
}

HK_FRESH_TEST(Unload, TheReserveGoes) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_slab_t *> spans;
  while (ReservedSlabs(heap) < 3) spans.push_back(hk_span_acquire(heap, 64));
  hk_heap_unload(heap);
  EXPECT_EQ(heap->reserve, nullptr);
  EXPECT_EQ(InUseSlabs(), spans.size());
  for (hk_slab_t *span : spans) hk_span_release(heap, span);
  hk_heap_flush(heap);
  ExpectNothingLeft(heap);
}

HK_FRESH_TEST(DeactivateAll, AThreadsEndGivesTheReserveBack) {
  hk_slab_t *span = nullptr;
  size_t reserved = 0;
  std::thread([&] {
    hk_thread_lease_t lease = hk_thread_enter();
    while (ReservedSlabs(lease.heap) < 3) span = SpanOf(AllocMany(lease.heap, 104, 8).back());
    reserved = ReservedSlabs(lease.heap);
    hk_thread_leave(lease);
    hk_thread_on_exit();
  }).join();
  hk_heap_t *heap = hk_heap_take();
  EXPECT_EQ(hk_load_relaxed(&span->owner), heap);
  EXPECT_EQ(heap->reserve, nullptr);
  EXPECT_EQ(InUseSlabs(), heap->span_slabs);
  EXPECT_GE(reserved, 3u);
}

#if HK_SAFETY

HK_FRESH_TEST(DeactivateAll, ARingEnds) {
  hk_heap_t *heap = hk_heap_take();
  ASSERT_TRUE(hk_refill(heap, 5, nullptr) && hk_refill(heap, 20, nullptr));
  hk_block_t *first = heap->bin[5].free;
  hk_block_link(first->next, first);
  hk_slab_t *span = heap->state[5].active.load();
  hk_heap_deactivate_all(heap);
  EXPECT_TRUE(IsActive(heap, span));
  EXPECT_EQ(heap->state[20].active.load(), nullptr);
}

HK_FRESH_TEST(HeapFlush, ASpanWithADamagedListIsLeftAlone) {
  hk_heap_t *heap = hk_heap_take();
  ASSERT_TRUE(hk_refill(heap, 5, nullptr));
  hk_slab_t *span = heap->state[5].active.load();
  heap->bin[5].free->next->seal ^= 1;
  hk_heap_flush(heap);
  EXPECT_TRUE(IsActive(heap, span));
  EXPECT_EQ(InUseSlabs(), 1u);
  EXPECT_EQ(heap->damaged, nullptr) << "the request that takes the block finds it";
}

HK_FRESH_TEST(HeapFlush, ARingInATinyBinEnds) {
  hk_heap_t *heap = hk_heap_take();
  ASSERT_TRUE(hk_refill(heap, 5, nullptr));
  hk_block_t *first = heap->bin[5].free;
  hk_block_link(first->next, first);
  hk_slab_t *span = heap->state[5].active.load();
  hk_heap_flush(heap);
  EXPECT_TRUE(IsActive(heap, span));
}

HK_FRESH_TEST(HeapFlush, OfADamagedBlockInAMidBinTheHeapTells) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> blocks;
  for (unsigned i = 0; i < 9; i++) blocks.push_back(Alloc(heap, 66));
  (void)PopAll(heap, 66);
  for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
  blocks[4]->next = nullptr;
  hk_heap_flush(heap);
  EXPECT_EQ(heap->damaged, blocks[4]);
  EXPECT_EQ(heap->bin[66].free, HK_LIST_END);
  EXPECT_EQ(heap->bin[66].countdown, RoomOf(heap, 66));
  EXPECT_EQ(ListLength(SpanOf(blocks[0])->own.free), 4u) << "those that were freed after it";
  EXPECT_EQ(InUseSlabs(), 1u) << "the others are lost";
}

#endif

}  // namespace
