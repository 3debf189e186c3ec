// heap/span: cutting blocks, giving spans up, and of tiny classes the counts that say when a span is worth it again and
// when it is empty. After each step the span is checked against what the test itself knows. What becomes of a mid
// class's span is mid_test.cc's.
#include <algorithm>
#include <set>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

namespace {

using hk_test::CapacityOf;
using hk_test::CarvedOf;
using hk_test::CheckSpan;
using hk_test::FreeOwn;
using hk_test::InUseSlabs;
using hk_test::IsActive;
using hk_test::IsPartial;
using hk_test::ListLength;
using hk_test::LiveOf;
using hk_test::Pop;
using hk_test::PopAll;
using hk_test::ReservedSlabs;
using hk_test::StatOf;
using hk_test::WorthOf;

// Of many blocks and of few.
constexpr unsigned kTinyClasses[] = {1, 3, 37, 64};
// Mid ones too, in spans of one slab and of several.
constexpr unsigned kClassesByKind[] = {1, 3, 37, 64, 70, 88, 93, 104};

hk_heap_t *NewHeap() {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) hk_list_init(&heap->state[i].partial);
  return heap;
}

hk_slab_t *NewActive(hk_heap_t *heap, unsigned class_index) {
  hk_slab_t *span = hk_span_acquire(heap, class_index);
  if (hk_class_is_mid(class_index)) {
    heap->state[class_index].active = span; /* that is all there is to it */
  } else {
    hk_span_activate(heap, span);
  }
  return span;
}

// An active span with every block cut and handed out.
struct Full {
  hk_slab_t *span;
  std::vector<hk_block_t *> blocks;
};

Full NewFull(hk_heap_t *heap, unsigned class_index) {
  Full full = {NewActive(heap, class_index), {}};
  hk_span_carve(heap, full.span, CapacityOf(class_index));
  full.blocks = PopAll(heap, class_index);
  return full;
}

// The same, not active any more.
Full NewFullInactive(hk_heap_t *heap, unsigned class_index) {
  Full full = NewFull(heap, class_index);
  hk_span_deactivate(heap, class_index);
  return full;
}

hk_block_t *TakeLast(Full *full) {
  hk_block_t *block = full->blocks.back();
  full->blocks.pop_back();
  return block;
}

void ExpectReleased(const hk_slab_t *span, unsigned slab_count) {
  for (unsigned i = 0; i < slab_count; i++) {
    EXPECT_EQ(hk_slab_state(&span[i]), hk_slab_free) << i;
    EXPECT_EQ(hk_load_relaxed(&span[i].owner), nullptr) << i;
  }
}

// ---- Acquire.

HK_FRESH_TEST(Span, EachSlabOfANewSpanSaysWhatItIs) {
  hk_heap_t *heap = NewHeap();
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    hk_slab_t *span = hk_span_acquire(heap, class_index);
    ASSERT_NE(span, nullptr);
    EXPECT_EQ(span->slab_count, hk_class_span_slabs(class_index));
    EXPECT_EQ(CarvedOf(span), 0u);
    EXPECT_TRUE(span->zero);
    EXPECT_EQ(span->own.free, HK_LIST_END);
    EXPECT_FALSE(hk_list_is_linked(&span->link));
    for (unsigned i = 0; i < span->slab_count; i++) {
      EXPECT_EQ(hk_load_relaxed(&span[i].owner), heap);
      EXPECT_EQ(hk_slab_state(&span[i]), hk_slab_small);
      EXPECT_EQ(span[i].class_index, class_index);
      EXPECT_EQ(span[i].inverse, hk_class_inverse(class_index));
      EXPECT_EQ(span[i].head, span);
      EXPECT_EQ(span[i].sink, hk_class_is_mid(class_index) ? &heap->bin[class_index] : &span->own);
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

HK_FRESH_TEST(Span, CarveCutsTheWholeSpanUpwardsAndNoBlockCrossesASlab) {
  hk_heap_t *heap = NewHeap();
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    hk_slab_t *span = NewActive(heap, class_index);
    ASSERT_EQ(hk_span_carve(heap, span, UINT16_MAX), CapacityOf(class_index)) << "as many as there are";
    CheckSpan(heap, span, 0);
    std::vector<hk_block_t *> blocks = PopAll(heap, class_index);
    ASSERT_EQ(blocks.size(), CapacityOf(class_index));
    EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
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

HK_FRESH_TEST(Span, CarveCutsAsManyAsItIsTold) {
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
    EXPECT_EQ(hk_span_carve(heap, span, CapacityOf(class_index)), CapacityOf(class_index) - 6) << "what is left";
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
    unsigned room = hk_test::RoomOf(heap, class_index);
    ASSERT_EQ(hk_span_carve(heap, span, 3), 3u);
    EXPECT_EQ(heap->bin[class_index].countdown, room - 3);
    EXPECT_EQ(span->live, 3) << "what the bin has is not in the span's own list";
    (void)PopAll(heap, class_index);
    EXPECT_EQ(heap->bin[class_index].countdown, room);
    ASSERT_EQ(hk_span_carve(heap, span, 2), 2u);
    EXPECT_EQ(span->live, 5);
    hk_test::CheckMidBin(heap, class_index);
  }
}

// ---- Fresh.

HK_FRESH_TEST(Span, BlocksAreFreshUntilOneComesBack) {
  hk_heap_t *heap = NewHeap();
  hk_slab_t *span = NewActive(heap, 4);
  hk_sink_t *bin = &heap->bin[4];
  ASSERT_TRUE(hk_span_carve(heap, span, 3));
  EXPECT_TRUE(hk_bin_is_fresh(bin));
  hk_block_t *block = Pop(heap, 4);
  EXPECT_TRUE(hk_bin_is_fresh(bin)) << "taking changes nothing";
  EXPECT_FALSE(FreeOwn(heap, block));
  EXPECT_FALSE(hk_bin_is_fresh(bin));
  (void)PopAll(heap, 4);
  EXPECT_FALSE(hk_bin_is_fresh(bin));
  ASSERT_TRUE(hk_span_carve(heap, span, 3));
  EXPECT_TRUE(hk_bin_is_fresh(bin)) << "all that is in the list was just cut";
}

HK_FRESH_TEST(Span, BlocksOfUsedMemoryAreNotFresh) {
  hk_heap_t *heap = NewHeap();
  hk_slab_t *span = NewActive(heap, 4);
  ASSERT_TRUE(hk_span_carve(heap, span, 3));
  hk_heap_trim(heap); /* back to its superslab, not to the system */
  EXPECT_EQ(NewActive(heap, 4), span);
  EXPECT_FALSE(span->zero);
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

// A mid bin's countdown means something else; the mark says what was cut last.
HK_FRESH_TEST(Span, OfAMidClassTheMarkTellsWhetherWhatWasCutIsFresh) {
  for (unsigned class_index : {70u, 88u, 93u, 104u}) {
    hk_heap_t *heap = NewHeap();
    hk_slab_t *span = NewActive(heap, class_index);
    ASSERT_EQ(hk_span_carve(heap, span, 2), 2u);
    EXPECT_TRUE(hk_bin_was_fresh(&heap->bin[class_index], class_index));
    EXPECT_FALSE(hk_bin_is_fresh(&heap->bin[class_index]));
    hk_heap_trim(heap); /* back to its superslab, or the heap's reserve */
    EXPECT_EQ(NewActive(heap, class_index), span);
    ASSERT_EQ(hk_span_carve(heap, span, 2), 2u);
    EXPECT_FALSE(hk_bin_was_fresh(&heap->bin[class_index], class_index)) << "used memory";
    hk_heap_trim(heap);
    (void)hk_surplus_trim(0); /* to the system: the next is zero again */
  }
}

// ---- Active and not.

HK_FRESH_TEST(Span, AnActiveSpansSinkIsTheBin) {
  hk_heap_t *heap = NewHeap();
  for (unsigned class_index : kTinyClasses) {
    Full full = NewFull(heap, class_index);
    EXPECT_TRUE(IsActive(heap, full.span));
    for (unsigned i = 0; i < full.span->slab_count; i++) EXPECT_EQ(full.span[i].sink, &heap->bin[class_index]);
    hk_block_t *block = TakeLast(&full);
    EXPECT_FALSE(FreeOwn(heap, block));
    EXPECT_EQ(Pop(heap, class_index), block) << "the last one freed is the next one out";
    hk_span_deactivate(heap, class_index);
    EXPECT_FALSE(IsActive(heap, full.span));
    for (unsigned i = 0; i < full.span->slab_count; i++) EXPECT_EQ(full.span[i].sink, &full.span->own);
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

// ---- Countdowns.

HK_FRESH_TEST(Span, AFullSpanBecomesPartialAndThenEmptyExactly) {
  for (unsigned spare : {0u, 4u}) {
    hk_option.spare_slabs = spare;
    hk_heap_t *heap = NewHeap();
    for (unsigned class_index = 1; class_index <= HK_TINY_CLASS_MAX; class_index++) {
      SCOPED_TRACE(class_index);
      Full full = NewFullInactive(heap, class_index);
      unsigned slab_count = full.span->slab_count;
      unsigned worth = WorthOf(class_index);
      EXPECT_FALSE(IsPartial(heap, full.span));
      for (unsigned freed = 1; !full.blocks.empty(); freed++) {
        bool due = FreeOwn(heap, TakeLast(&full));
        ASSERT_EQ(due, freed == worth || full.blocks.empty()) << freed;
        if (full.blocks.empty()) break;
        ASSERT_EQ(IsPartial(heap, full.span), freed >= worth) << freed;
        if (freed <= worth + 1 || freed % 64 == 0)
          CheckSpan(heap, full.span, static_cast<unsigned>(full.blocks.size()));
      }
      ExpectReleased(full.span, slab_count);
      EXPECT_FALSE(hk_list_is_linked(&full.span->link) && heap->spare_slabs == 0);
      EXPECT_TRUE(hk_list_is_empty(&heap->state[class_index].partial));
    }
    EXPECT_EQ(InUseSlabs(), heap->spare_slabs);
    hk_spare_flush(heap);
    EXPECT_EQ(InUseSlabs(), 0u);
    EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), StatOf(heap, hk_stat_slab_release));
  }
}

HK_FRESH_TEST(Span, ASpanWithRoomIsPartialAtOnceAndBehindTheOthers) {
  hk_option.spare_slabs = 0;
  hk_heap_t *heap = NewHeap();
  for (unsigned class_index : kTinyClasses) {
    Full other = NewFullInactive(heap, class_index);
    for (unsigned i = 0; i < WorthOf(class_index); i++) (void)FreeOwn(heap, TakeLast(&other));
    Full some = {NewActive(heap, class_index), {}};
    ASSERT_TRUE(hk_span_carve(heap, some.span, 5));
    some.blocks = PopAll(heap, class_index);
    hk_span_deactivate(heap, class_index);
    EXPECT_TRUE(IsPartial(heap, some.span));
    EXPECT_EQ(heap->state[class_index].partial.previous, &some.span->link);
    EXPECT_EQ(heap->state[class_index].partial.next, &other.span->link);
    while (!some.blocks.empty()) {
      CheckSpan(heap, some.span, static_cast<unsigned>(some.blocks.size()));
      hk_block_t *block = TakeLast(&some);
      ASSERT_EQ(FreeOwn(heap, block), some.blocks.empty());
    }
    ExpectReleased(some.span, hk_class_span_slabs(class_index));
    CheckSpan(heap, other.span, static_cast<unsigned>(other.blocks.size()));
  }
}

HK_FRESH_TEST(Span, ASpanThatBecomesWorthItComesFirst) {
  hk_heap_t *heap = NewHeap();
  Full first = NewFullInactive(heap, 20);
  Full second = NewFullInactive(heap, 20);
  for (unsigned i = 0; i < WorthOf(20); i++) (void)FreeOwn(heap, TakeLast(&first));
  for (unsigned i = 0; i < WorthOf(20); i++) (void)FreeOwn(heap, TakeLast(&second));
  EXPECT_EQ(heap->state[20].partial.next, &second.span->link);
  EXPECT_EQ(second.span->link.next, &first.span->link);
}

HK_FRESH_TEST(Span, APartialSpanCountsOnWhenItWasActiveAgain) {
  hk_heap_t *heap = NewHeap();
  for (unsigned class_index : kTinyClasses) {
    SCOPED_TRACE(class_index);
    Full full = NewFullInactive(heap, class_index);
    unsigned freed = WorthOf(class_index) + 2;
    std::set<hk_block_t *> back;
    for (unsigned i = 0; i < freed; i++) {
      back.insert(full.blocks.back());
      (void)FreeOwn(heap, TakeLast(&full));
    }
    hk_span_unlink(full.span);
    EXPECT_FALSE(IsPartial(heap, full.span));
    EXPECT_EQ(full.span->live, CapacityOf(class_index) - freed);
    hk_span_activate(heap, full.span);
    CheckSpan(heap, full.span, CapacityOf(class_index) - freed);
    std::vector<hk_block_t *> again = PopAll(heap, class_index);
    EXPECT_EQ(std::set<hk_block_t *>(again.begin(), again.end()), back);
    full.blocks.insert(full.blocks.end(), again.begin(), again.end());
    hk_span_deactivate(heap, class_index);
    CheckSpan(heap, full.span, CapacityOf(class_index));
    EXPECT_FALSE(IsPartial(heap, full.span)) << "it is full";
    while (!full.blocks.empty()) (void)FreeOwn(heap, TakeLast(&full));
    ExpectReleased(full.span, hk_class_span_slabs(class_index));
  }
}

// ---- Release, and the spare slabs that come of it.

hk_slab_t *FirstSpare(hk_heap_t *heap, unsigned slab_count) {
  hk_list_t *list = &heap->spare[slab_count - 1];
  return hk_list_is_empty(list) ? nullptr : HK_CONTAINER_OF(list->next, hk_slab_t, link);
}

HK_FRESH_TEST(Span, AReleasedSpanIsKeptOrGoesBack) {
  for (unsigned room : {0u, 1u, 2u, 3u, 4u, 6u, 8u}) {
    hk_option.spare_slabs = room;
    hk_heap_t *heap = NewHeap();
    for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
      SCOPED_TRACE(testing::Message() << class_index << ", room for " << room);
      unsigned slab_count = hk_class_span_slabs(class_index);
      uint64_t released = StatOf(heap, hk_stat_slab_release), acquired = StatOf(heap, hk_stat_slab_acquire);
      hk_slab_t *first = hk_span_acquire(heap, class_index), *second = hk_span_acquire(heap, class_index);
      ASSERT_EQ(InUseSlabs(), 2 * slab_count);
      EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire) - acquired, 2u);
      bool is_kept = slab_count <= room, are_both_kept = 2 * slab_count <= room;
      hk_span_release(heap, first);
      ExpectReleased(first, slab_count);
      EXPECT_EQ(heap->spare_slabs, is_kept ? slab_count : 0u);
      EXPECT_EQ(FirstSpare(heap, slab_count), is_kept ? first : nullptr);
      EXPECT_EQ(InUseSlabs(), slab_count + heap->spare_slabs);
      EXPECT_EQ(StatOf(heap, hk_stat_slab_release) - released, 1u) << "given up, kept or not";
      hk_span_release(heap, second);
      ExpectReleased(second, slab_count);
      EXPECT_EQ(heap->spare_slabs, are_both_kept ? 2 * slab_count : is_kept ? slab_count : 0u);
      EXPECT_EQ(FirstSpare(heap, slab_count), is_kept ? second : nullptr) << "when it is full the first one goes";
      EXPECT_EQ(InUseSlabs(), heap->spare_slabs);
      EXPECT_EQ(StatOf(heap, hk_stat_slab_release) - released, 2u);
      hk_spare_flush(heap);
      EXPECT_EQ(StatOf(heap, hk_stat_slab_release) - released, 2u) << "spans are counted, not where slabs go";
      EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire) - acquired, 2u);
      EXPECT_EQ(heap->spare_slabs, 0u);
      EXPECT_EQ(InUseSlabs(), 0u);
    }
  }
}

void EmptySpans(hk_heap_t *heap, unsigned class_index, unsigned count) {
  std::vector<Full> spans;
  for (unsigned i = 0; i < count; i++) spans.push_back(NewFullInactive(heap, class_index));
  for (Full &full : spans) {
    while (!full.blocks.empty()) (void)FreeOwn(heap, TakeLast(&full));
  }
}

HK_FRESH_TEST(Span, SpareSlabsAreBounded) {
  struct {
    uint64_t spare_slabs, retain;
    size_t room;
  } cases[] = {{0, 8 * HK_MIB, 0},
               {1, 8 * HK_MIB, 1},
               {4, 8 * HK_MIB, 4},
               {64, 8 * HK_MIB, 64},
               {64, 0, 0},
               {64, HK_SLAB_BYTES - 1, 0},
               {64, 7 * HK_SLAB_BYTES - 1, 6},
               {7, 7 * HK_SLAB_BYTES, 7},
               {1024, 8 * HK_MIB, 128}};
  for (const auto &c : cases) {
    SCOPED_TRACE(testing::Message() << c.spare_slabs << ", " << c.retain);
    hk_option.spare_slabs = c.spare_slabs;
    hk_option.retain = c.retain;
    hk_heap_t *heap = NewHeap();
    size_t before = InUseSlabs();
    constexpr unsigned kSpans = 150;
    EmptySpans(heap, 64, kSpans);
    size_t kept = c.room == 0 ? 0 : (kSpans - 1) % c.room + 1; /* each time it is full all goes, and one comes */
    EXPECT_EQ(heap->spare_slabs, kept);
    EXPECT_EQ(InUseSlabs() - before, kept + ReservedSlabs(heap));
    EXPECT_EQ(StatOf(heap, hk_stat_slab_release), kSpans);
    size_t listed = 0;
    for (hk_list_t *node = heap->spare[0].next; node != &heap->spare[0]; node = node->next) {
      EXPECT_EQ(hk_slab_state(HK_CONTAINER_OF(node, hk_slab_t, link)), hk_slab_free);
      listed++;
    }
    EXPECT_EQ(listed, kept);
  }
}

// One class of each span length.
std::vector<unsigned> OneClassOfEachLength() {
  std::vector<unsigned> classes;
  for (unsigned length = 1; length <= HK_SPAN_MAX_SLABS; length++) {
    for (unsigned i = HK_CLASS_COUNT - 1; i > 0; i--) {
      if (hk_class_span_slabs(i) != length) continue;
      classes.push_back(i);
      break;
    }
  }
  EXPECT_EQ(classes.size(), HK_SPAN_MAX_SLABS);
  return classes;
}

HK_FRESH_TEST(Span, SpareSlabsServeAnyClassOfAsMany) {
  hk_heap_t *heap = NewHeap();
  std::vector<unsigned> lengths = OneClassOfEachLength();
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    unsigned slab_count = hk_class_span_slabs(class_index);
    for (unsigned next_class : lengths) {
      SCOPED_TRACE(testing::Message() << class_index << ", then " << next_class);
      hk_slab_t *older = hk_span_acquire(heap, class_index), *last = hk_span_acquire(heap, class_index);
      hk_span_release(heap, older);
      hk_span_release(heap, last);
      ASSERT_EQ(heap->spare_slabs, 2 * slab_count);
      uint64_t acquired = StatOf(heap, hk_stat_slab_acquire);
      hk_slab_t *next = hk_span_acquire(heap, next_class);
      EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), acquired + 1) << "wherever it came from";
      if (hk_class_span_slabs(next_class) == slab_count) {
        EXPECT_EQ(next, last) << "the one that was used last";
        EXPECT_EQ(heap->spare_slabs, slab_count);
        EXPECT_EQ(InUseSlabs(), 2 * slab_count);
      } else {
        EXPECT_TRUE(next != last && next != older);
        EXPECT_EQ(heap->spare_slabs, 2 * slab_count) << "neither cut nor joined";
        EXPECT_EQ(InUseSlabs(), 2 * slab_count + hk_class_span_slabs(next_class));
      }
      hk_span_release(heap, next);
      hk_spare_flush(heap);
      ASSERT_EQ(InUseSlabs(), 0u);
    }
  }
}

// Whatever used the slabs before: each says what it is now, and nothing in them counts as zero.
HK_FRESH_TEST(Span, OneOfSpareSlabsIsAsNewButNotFresh) {
  bool zero;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    for (bool was_run : {false, true}) {
      SCOPED_TRACE(testing::Message() << class_index << (was_run ? " of a run" : " of a span"));
      hk_heap_t *heap = NewHeap();
      unsigned slab_count = hk_class_span_slabs(class_index);
      unsigned old_class = OneClassOfEachLength()[slab_count - 1];
      hk_slab_t *kept;
      if (was_run) {
        kept = hk_slab_of(hk_run_alloc(slab_count * HK_SLAB_BYTES, 1, &zero));
        kept->zero = true; /* as it is when it is first used */
        ASSERT_TRUE(hk_test::SpareRun(heap, kept));
      } else {
        Full full = NewFull(heap, old_class);
        full.span->zero = true;
        for (hk_block_t *block : full.blocks) (void)FreeOwn(heap, block);
        if (hk_class_is_mid(old_class)) {
          hk_mid_spill_all(heap);
        } else {
          hk_span_release(heap, full.span);
          heap->bin[old_class].free = HK_LIST_END;
          heap->state[old_class].active = nullptr;
        }
        kept = full.span;
      }
      ASSERT_EQ(FirstSpare(heap, slab_count), kept);
      hk_slab_t *span = NewActive(heap, class_index);
      ASSERT_EQ(span, kept);
      EXPECT_EQ(span->slab_count, slab_count);
      EXPECT_EQ(CarvedOf(span), 0u);
      EXPECT_EQ(span->live, 0);
      EXPECT_FALSE(span->zero);
      EXPECT_EQ(span->own.free, HK_LIST_END);
      EXPECT_FALSE(hk_list_is_linked(&span->link));
      for (unsigned i = 0; i < slab_count; i++) {
        EXPECT_EQ(hk_load_relaxed(&span[i].owner), heap);
        EXPECT_EQ(hk_slab_state(&span[i]), hk_slab_small);
        EXPECT_EQ(span[i].class_index, class_index);
        EXPECT_EQ(span[i].inverse, hk_class_inverse(class_index));
        EXPECT_EQ(span[i].head, span);
        EXPECT_EQ(span[i].sink, &heap->bin[class_index]);
      }
      ASSERT_TRUE(hk_span_carve(heap, span, 1));
      EXPECT_FALSE(hk_bin_is_fresh(&heap->bin[class_index]));
      EXPECT_FALSE(hk_bin_was_fresh(&heap->bin[class_index], class_index));
      CheckSpan(heap, span, 0);
      hk_block_t *block = Pop(heap, class_index);
      EXPECT_EQ(hk_verify(block).verdict, hk_verdict_live);
      CheckSpan(heap, span, 1);
      (void)FreeOwn(heap, block);
      hk_heap_trim(heap);
      ASSERT_EQ(InUseSlabs(), 0u);
    }
  }
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
  span->sink = &heap->bin[64];
  EXPECT_DEATH(hk_span_check(heap, span), "an inactive span's frees go to itself");
  heap->state[64].active = span;
  hk_span_check(heap, span);
  span->sink = &span->own;
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
  span[1].sink = &span->own;
  EXPECT_DEATH(hk_span_check(heap, span), "has the span's sink");
  for (unsigned i = 0; i < span->slab_count; i++) span[i].sink = &span->own;
  EXPECT_DEATH(hk_span_check(heap, span), "a mid span's frees go to its bin");
  for (unsigned i = 0; i < span->slab_count; i++) span[i].sink = &heap->bin[93];
  span[1].head = span + 1;
  EXPECT_DEATH(hk_span_check(heap, span), "knows its head");
  span[1].head = span;
  hk_slab_set_state(&span[1], hk_slab_free);
  EXPECT_DEATH(hk_span_check(heap, span), "each slab of a span says so");
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
