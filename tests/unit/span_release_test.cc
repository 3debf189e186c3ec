// heap/span: the counts that say of a tiny class when a span is worth it again and when it is empty; release, and what
// becomes of the slabs. What becomes of a mid class's span is mid_spill_test.cc's.
#include <set>
#include <vector>

#include "fresh_test.h"
#include "unit/span_driver.h"
#include "unit/spare_driver.h"

using namespace hk_test;

namespace {

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
    hk_heap_t *heap = WithAllRoom(NewHeap());
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
    hk_heap_t *heap = WithAllRoom(NewHeap());
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

HK_FRESH_TEST(Span, SpareSlabsServeAnyClassOfAsMany) {
  hk_heap_t *heap = WithAllRoom(NewHeap());
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
  bool is_zero;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    for (bool was_run : {false, true}) {
      SCOPED_TRACE(testing::Message() << class_index << (was_run ? " of a run" : " of a span"));
      hk_heap_t *heap = NewHeap();
      unsigned slab_count = hk_class_span_slabs(class_index);
      unsigned old_class = OneClassOfEachLength()[slab_count - 1];
      hk_slab_t *kept;
      if (was_run) {
        kept = hk_slab_of(hk_run_alloc(slab_count * HK_SLAB_BYTES, 1, &is_zero));
        kept->is_zero = true; /* as it is when it is first used */
        ASSERT_TRUE(SpareRun(heap, kept));
      } else {
        Full full = NewFull(heap, old_class);
        full.span->is_zero = true;
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
      EXPECT_FALSE(span->is_zero);
      EXPECT_EQ(span->own.free, HK_LIST_END);
      EXPECT_FALSE(hk_list_is_linked(&span->link));
      for (unsigned i = 0; i < slab_count; i++) {
        EXPECT_EQ(hk_load_relaxed(&span[i].owner), heap);
        EXPECT_EQ(hk_slab_state(&span[i]), hk_slab_small);
        EXPECT_EQ(span[i].class_index, class_index);
        EXPECT_EQ(span[i].starts.inverse, hk_class_starts(class_index).inverse);
        EXPECT_EQ(span[i].starts.limit, hk_class_starts(class_index).limit);
        EXPECT_EQ(span[i].head, span);
        EXPECT_EQ(span[i].free_list, &heap->bin[class_index]);
      }
      ASSERT_TRUE(hk_span_carve(heap, span, 1));
      EXPECT_FALSE(hk_bin_is_fresh(&heap->bin[class_index]));
      EXPECT_FALSE(hk_heap_was_fresh(heap, class_index));
      CheckSpan(heap, span, 0);
      hk_block_t *block = Pop(heap, class_index);
      EXPECT_EQ(hk_verify(block).verdict, hk_verdict_live);
      CheckSpan(heap, span, 1);
      (void)FreeOwn(heap, block);
      hk_heap_flush(heap);
      ASSERT_EQ(InUseSlabs(), 0u);
    }
  }
}

}  // namespace
