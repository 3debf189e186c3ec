// heap/span: making spans, cutting blocks, and active or not. After each step the span is checked against what the test
// itself knows.
#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/span_driver.h"

using namespace hk_test;

namespace {

// Mid ones too, in spans of one slab and of several.
constexpr unsigned kClassesByKind[] = {1, 3, 37, 64, 70, 88, 93, 104};

// ---- Acquire.

HK_FRESH_TEST(Span, EachSlabOfANewSpanSaysWhatItIs) {
  hk_heap_t *heap = NewHeap();
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    hk_slab_t *span = hk_span_acquire(heap, class_index);
    ASSERT_NE(span, nullptr);
    EXPECT_EQ(span->slab_count, hk_class_span_slabs(class_index));
    EXPECT_EQ(CarvedOf(span), 0u);
    EXPECT_TRUE(span->is_zero);
    EXPECT_EQ(span->own.free, HK_LIST_END);
    EXPECT_FALSE(hk_list_is_linked(&span->link));
    for (unsigned i = 0; i < span->slab_count; i++) {
      EXPECT_EQ(hk_load_relaxed(&span[i].owner), heap);
      EXPECT_EQ(hk_slab_state(&span[i]), hk_slab_small);
      EXPECT_EQ(span[i].class_index, class_index);
      EXPECT_EQ(span[i].starts.inverse, hk_class_starts(class_index).inverse);
      EXPECT_EQ(span[i].starts.limit, hk_class_starts(class_index).limit);
      EXPECT_EQ(span[i].head, span);
      EXPECT_EQ(span[i].free_list, hk_class_is_mid(class_index) ? &heap->bin[class_index] : &span->own);
    }
    EXPECT_EQ(span->live, 0);
  }
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), HK_CLASS_COUNT - 1);
}

HK_FRESH_TEST(Span, OneThatIsRefusedIsNotCounted) {
  hk_heap_t *heap = NewHeap();
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(hk_span_acquire(heap, 1), nullptr);
  EXPECT_EQ(hk_span_acquire(heap, 104), nullptr);
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), 0u);
  fake_os_fail_all(fake_os_reserve, false);
  EXPECT_NE(hk_span_acquire(heap, 104), nullptr);
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), 1u);
}

HK_FRESH_TEST(Span, ARefusalChangesNothing) {
  hk_heap_t *heap = NewHeap();
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(hk_span_acquire(heap, 1), nullptr);
  EXPECT_EQ(hk_span_acquire(heap, HK_CLASS_COUNT - 1), nullptr);
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), 0u);
  fake_os_fail_all(fake_os_reserve, false);
  EXPECT_NE(hk_span_acquire(heap, 1), nullptr);
  EXPECT_EQ(InUseSlabs(), 1u);
}

// ---- Carve.

HK_FRESH_TEST(Span, CarvesTheWholeSpanUpwardsAndNoBlockCrossesASlab) {
  hk_heap_t *heap = NewHeap();
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    hk_slab_t *span = NewActive(heap, class_index);
    ASSERT_EQ(hk_span_carve(heap, span, UINT16_MAX), CapacityOf(class_index)) << "as many as there are";
    CheckSpan(heap, span, 0);
    std::vector<hk_block_t *> blocks = PopAll(heap, class_index);
    ASSERT_EQ(blocks.size(), CapacityOf(class_index));
    std::rotate(blocks.begin(), std::min_element(blocks.begin(), blocks.end()), blocks.end());
    EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end())) << "those before the first one come last";
    size_t bytes = hk_class_bytes(class_index);
    uintptr_t end_of_last = hk_slab_start(span);
    for (hk_block_t *block : blocks) {
      uintptr_t start = reinterpret_cast<uintptr_t>(block);
      ASSERT_GE(start, end_of_last);
      end_of_last = start + bytes;
      ASSERT_EQ(start % HK_SLAB_BYTES % bytes, 0u);
      ASSERT_EQ(start / HK_SLAB_BYTES, (end_of_last - 1) / HK_SLAB_BYTES);
      ASSERT_EQ(hk_slab_of(block)->head, span);
    }
    EXPECT_LE(end_of_last, hk_slab_start(span) + span->slab_count * HK_SLAB_BYTES);
    EXPECT_EQ(hk_span_carve(heap, span, 1), 0u) << "there is no room";
    EXPECT_EQ(CarvedOf(span), CapacityOf(class_index));
    CheckSpan(heap, span, CapacityOf(class_index));
  }
}

// The 64 lines of 4 KiB are the sets of a first cache. If each class began at the start of its slab, one set had all.
HK_FRESH_TEST(Span, TheFirstBlocksOfTinyClassesBeginInManySetsOfACache) {
  hk_heap_t *heap = NewHeap();
  std::array<unsigned, 64> begin_here{};
  for (unsigned class_index = 1; class_index <= HK_TINY_CLASS_MAX; class_index++) {
    hk_slab_t *span = NewActive(heap, class_index);
    (void)hk_span_carve(heap, span, static_cast<unsigned>(4096 / hk_class_bytes(class_index)));
    begin_here.at(reinterpret_cast<uintptr_t>(heap->bin[class_index].free) / 64 % 64)++;
  }
  EXPECT_LE(*std::max_element(begin_here.begin(), begin_here.end()), 16u) << "of 64 first blocks";
}

HK_FRESH_TEST(Span, CarvesAsManyAsItIsTold) {
  hk_heap_t *heap = NewHeap();
  for (unsigned class_index : kClassesByKind) {
    hk_slab_t *span = NewActive(heap, class_index);
    std::set<hk_block_t *> all;
    EXPECT_EQ(hk_span_carve(heap, span, 0), 0u);
    for (unsigned count : {1u, 3u, 2u}) {
      ASSERT_EQ(hk_span_carve(heap, span, count), count);
      std::vector<hk_block_t *> blocks = PopAll(heap, class_index);
      EXPECT_EQ(blocks.size(), count);
      all.insert(blocks.begin(), blocks.end());
      CheckSpan(heap, span, static_cast<unsigned>(all.size()));
    }
    EXPECT_EQ(CarvedOf(span), 6u);
    EXPECT_EQ(all.size(), 6u) << "no block twice";
    EXPECT_EQ(hk_span_carve(heap, span, CapacityOf(class_index)), CapacityOf(class_index) - 6) << "the rest";
  }
}

HK_FRESH_TEST(Span, CarveWritesOnlyTheFirstWordsOfABlock) {
  hk_heap_t *heap = NewHeap();
  hk_slab_t *span = NewActive(heap, 8);
  ASSERT_TRUE(hk_span_carve(heap, span, 50));
  for (hk_block_t *block : PopAll(heap, 8)) {
    const char *bytes = reinterpret_cast<const char *>(block);
    for (size_t i = sizeof(hk_block_t); i < hk_class_bytes(8); i++) ASSERT_EQ(bytes[i], 0);
  }
}

HK_FRESH_TEST(Span, CarvedBlocksOfAMidClassAreCountedByTheirBin) {
  hk_heap_t *heap = NewHeap();
  for (unsigned class_index = HK_TINY_CLASS_MAX + 1; class_index < HK_CLASS_COUNT; class_index++) {
    hk_slab_t *span = NewActive(heap, class_index);
    unsigned room = RoomOf(heap, class_index);
    ASSERT_EQ(hk_span_carve(heap, span, 3), 3u);
    EXPECT_EQ(heap->bin[class_index].countdown, room - 3);
    EXPECT_EQ(span->live, 3) << "what the bin has is not in the span's own list";
    (void)PopAll(heap, class_index);
    EXPECT_EQ(heap->bin[class_index].countdown, room);
    ASSERT_EQ(hk_span_carve(heap, span, 2), 2u);
    EXPECT_EQ(span->live, 5);
    CheckMidBin(heap, class_index);
  }
}

// ---- Fresh.

HK_FRESH_TEST(Span, BlocksAreFreshUntilOneComesBack) {
  hk_heap_t *heap = NewHeap();
  hk_slab_t *span = NewActive(heap, 4);
  hk_free_list_t *bin = &heap->bin[4];
  ASSERT_TRUE(hk_span_carve(heap, span, 3));
  EXPECT_TRUE(hk_bin_is_fresh(bin));
  hk_block_t *block = Pop(heap, 4);
  EXPECT_TRUE(hk_bin_is_fresh(bin)) << "taking changes nothing";
  EXPECT_FALSE(FreeOwn(heap, block));
  EXPECT_FALSE(hk_bin_is_fresh(bin));
  (void)PopAll(heap, 4);
  EXPECT_FALSE(hk_bin_is_fresh(bin));
  ASSERT_TRUE(hk_span_carve(heap, span, 3));
  EXPECT_TRUE(hk_bin_is_fresh(bin)) << "all blocks of the list were just carved";
}

HK_FRESH_TEST(Span, BlocksOfUsedMemoryAreNotFresh) {
  hk_heap_t *heap = NewHeap();
  hk_slab_t *span = NewActive(heap, 4);
  ASSERT_TRUE(hk_span_carve(heap, span, 3));
  hk_heap_flush(heap); /* back to its superslab, not to the system */
  EXPECT_EQ(NewActive(heap, 4), span);
  EXPECT_FALSE(span->is_zero);
  ASSERT_TRUE(hk_span_carve(heap, span, 3));
  EXPECT_FALSE(hk_bin_is_fresh(&heap->bin[4]));
}

HK_FRESH_TEST(Span, BlocksOfSpareSlabsAreNotFresh) {
  hk_heap_t *heap = NewHeap();
  Full full = NewFullInactive(heap, 64);
  while (!full.blocks.empty()) (void)FreeOwn(heap, TakeLast(&full));
  ASSERT_EQ(heap->spare_slabs, 1u);
  EXPECT_EQ(NewActive(heap, 4), full.span);
  ASSERT_TRUE(hk_span_carve(heap, full.span, 3));
  EXPECT_FALSE(hk_bin_is_fresh(&heap->bin[4]));
}

HK_FRESH_TEST(Span, WhatOtherThreadsFreedIsNotFresh) {
  hk_heap_t *heap = NewHeap();
  hk_slab_t *span = NewActive(heap, 4);
  ASSERT_TRUE(hk_span_carve(heap, span, 8));
  hk_remote_free_now(span, Pop(heap, 4));
  EXPECT_TRUE(hk_bin_is_fresh(&heap->bin[4]));
  hk_remote_drain(heap);
  EXPECT_FALSE(hk_bin_is_fresh(&heap->bin[4]));
}

HK_FRESH_TEST(Span, AnActivatedSpansOldBlocksAreNotFreshAndItsNewOnesAre) {
  hk_heap_t *heap = NewHeap();
  hk_slab_t *span = NewActive(heap, 4);
  ASSERT_TRUE(hk_span_carve(heap, span, 4));
  std::vector<hk_block_t *> blocks = PopAll(heap, 4);
  hk_span_deactivate(heap, 4);
  (void)FreeOwn(heap, blocks[0]);
  hk_span_unlink(span);
  hk_span_activate(heap, span);
  EXPECT_FALSE(hk_bin_is_fresh(&heap->bin[4]));
  EXPECT_EQ(PopAll(heap, 4), std::vector<hk_block_t *>{blocks[0]});
  ASSERT_TRUE(hk_span_carve(heap, span, 2));
  EXPECT_TRUE(hk_bin_is_fresh(&heap->bin[4]));
}

// A mid bin's countdown means something else; the bin's state says which blocks were carved last.
HK_FRESH_TEST(Span, OfAMidClassTheStateTellsWhetherWhatWasCarvedIsFresh) {
  for (unsigned class_index : {70u, 88u, 93u, 104u}) {
    hk_heap_t *heap = NewHeap();
    hk_slab_t *span = NewActive(heap, class_index);
    ASSERT_EQ(hk_span_carve(heap, span, 2), 2u);
    EXPECT_TRUE(hk_heap_was_fresh(heap, class_index));
    EXPECT_FALSE(hk_bin_is_fresh(&heap->bin[class_index]));
    hk_heap_flush(heap); /* back to its superslab, or the heap's reserve */
    EXPECT_EQ(NewActive(heap, class_index), span);
    ASSERT_EQ(hk_span_carve(heap, span, 2), 2u);
    EXPECT_FALSE(hk_heap_was_fresh(heap, class_index)) << "used memory";
    hk_heap_flush(heap);
    (void)hk_purge_down_to(0); /* to the system: the next is zero again */
  }
}

// ---- Active and not.

HK_FRESH_TEST(Span, AnActiveSpansFreeListIsTheBin) {
  hk_heap_t *heap = NewHeap();
  for (unsigned class_index : kTinyClasses) {
    Full full = NewFull(heap, class_index);
    EXPECT_TRUE(IsActive(heap, full.span));
    for (unsigned i = 0; i < full.span->slab_count; i++) EXPECT_EQ(full.span[i].free_list, &heap->bin[class_index]);
    hk_block_t *block = TakeLast(&full);
    EXPECT_FALSE(FreeOwn(heap, block));
    EXPECT_EQ(Pop(heap, class_index), block) << "the last one freed is the next one out";
    hk_span_deactivate(heap, class_index);
    EXPECT_FALSE(IsActive(heap, full.span));
    for (unsigned i = 0; i < full.span->slab_count; i++) EXPECT_EQ(full.span[i].free_list, &full.span->own);
    CheckSpan(heap, full.span, CapacityOf(class_index));
  }
}

HK_FRESH_TEST(Span, AnActiveSpansCountdownStartsAgain) {
  hk_heap_t *heap = NewHeap();
  Full full = NewFull(heap, 4);
  heap->bin[4].countdown = 1; /* two thousand million frees later */
  EXPECT_TRUE(FreeOwn(heap, TakeLast(&full)));
  EXPECT_EQ(heap->bin[4].countdown, HK_COUNTDOWN_ACTIVE);
  EXPECT_TRUE(IsActive(heap, full.span));
  CheckSpan(heap, full.span, CapacityOf(4) - 1);
}

#if HK_DEBUG

HK_FRESH_TEST(SpanDeathTest, TheCheckNoticesWhatDoesNotFit) {
  hk_heap_t *heap = NewHeap();
  Full full = NewFullInactive(heap, 64);
  (void)FreeOwn(heap, TakeLast(&full));
  hk_slab_t *span = full.span;
  hk_span_check(heap, span);

  span->live++;
  EXPECT_DEATH(hk_span_check(heap, span), "as long as its counts say");
  span->live--;
  span->free_list = &heap->bin[64];
  EXPECT_DEATH(hk_span_check(heap, span), "an inactive span's frees go to itself");
  heap->state[64].active = span;
  hk_span_check(heap, span);
  span->free_list = &span->own;
  EXPECT_DEATH(hk_span_check(heap, span), "an active span's frees go to its bin");
  heap->state[64].active = nullptr;
  span->own.free->seal ^= 1;
  EXPECT_DEATH(hk_span_check(heap, span), "a free block is sealed");
  span->own.free->seal ^= 1;
  hk_block_t *first = span->own.free;
  span->own.free = reinterpret_cast<hk_block_t *>(reinterpret_cast<char *>(first) + 16);
  hk_block_link(span->own.free, HK_LIST_END);
  EXPECT_DEATH(hk_span_check(heap, span), "a free block is a block");
  span->own.free = first;
  hk_span_check(heap, span);
}

HK_FRESH_TEST(SpanDeathTest, TheCheckNoticesWhatDoesNotFitAMidSpan) {
  hk_heap_t *heap = NewHeap();
  Full full = NewFull(heap, 93);
  (void)FreeOwn(heap, TakeLast(&full));
  (void)FreeOwn(heap, TakeLast(&full));
  hk_mid_spill(heap, 93, 1);
  hk_slab_t *span = full.span;
  ASSERT_GT(span->slab_count, 1);
  ASSERT_EQ(ListLength(span->own.free), 1u);
  hk_span_check(heap, span);

  span->live++;
  EXPECT_DEATH(hk_span_check(heap, span), "as long as its counts say");
  span->live--;
  span[1].free_list = &span->own;
  EXPECT_DEATH(hk_span_check(heap, span), "has the span's free list");
  for (unsigned i = 0; i < span->slab_count; i++) span[i].free_list = &span->own;
  EXPECT_DEATH(hk_span_check(heap, span), "a mid span's frees go to its bin");
  for (unsigned i = 0; i < span->slab_count; i++) span[i].free_list = &heap->bin[93];
  span[1].head = span + 1;
  EXPECT_DEATH(hk_span_check(heap, span), "knows its head");
  span[1].head = span;
  hk_slab_set_state(&span[1], hk_slab_free);
  EXPECT_DEATH(hk_span_check(heap, span), "each slab of a span is in the state small");
  hk_slab_set_state(&span[1], hk_slab_small);
  hk_store_relaxed(&span[1].owner, nullptr);
  EXPECT_DEATH(hk_span_check(heap, span), "has the span's owner");
  hk_store_relaxed(&span[1].owner, heap);
  span->own.free->seal ^= 1;
  EXPECT_DEATH(hk_span_check(heap, span), "a free block is sealed");
  span->own.free->seal ^= 1;
  hk_span_check(heap, span);
}

#endif

}  // namespace
