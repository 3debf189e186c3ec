// heap/steal: spans that move from an idle heap to one that would grow.
#include <map>
#include <set>

#include "fresh_test.h"
#include "unit/steal_driver.h"

using namespace hk_test;

namespace {

// Spans of one slab and of several.
constexpr unsigned kTinyClasses[] = {1, 4, 33, 64};

constexpr unsigned kMidClasses[] = {66, 80, 88, 93, 104};

std::set<hk_block_t *> SetOf(const hk_block_t *list) {
  std::set<hk_block_t *> blocks;
  for (; list != HK_LIST_END; list = list->next) blocks.insert(const_cast<hk_block_t *>(list));
  return blocks;
}

// A span that all of one thread's blocks are in: `live` of them are held, and it moved once.
void ExpectMoved(const Heaps &heaps, hk_slab_t *span, unsigned live) {
  unsigned class_index = span->class_index;
  EXPECT_EQ(OwnerOf(span), heaps.taker);
  EXPECT_TRUE(span->has_moved);
  EXPECT_EQ(heaps.taker->span_slabs, span->slab_count);
  EXPECT_EQ(StatOf(heaps.taker, hk_stat_slab_move), 1u);
  EXPECT_EQ(StatOf(heaps.giver, hk_stat_slab_move), 0u);
  CheckSpan(heaps.taker, span, live);
  EXPECT_NE(heaps.giver->state[class_index].active.load(), span);
  EXPECT_EQ(CountOfSpan(heaps.giver->bin[class_index].free, span), 0u);
  if (hk_class_is_mid(class_index)) {
    CheckMidBin(heaps.giver, class_index);
    CheckMidBin(heaps.taker, class_index);
  }
  EXPECT_EQ(hk_heap_life(heaps.giver), hk_heap_idle);
  EXPECT_FALSE(hk_load_relaxed(&heaps.giver->is_busy));
}

// Nothing is left when the heaps that have their spans free the last blocks.
void ExpectAllGoesBack(const Heaps &heaps, const Blocks &held) {
  for (hk_block_t *block : held) (void)FreeOwn(heaps.taker, block);
  hk_heap_flush(heaps.taker);
  ASSERT_TRUE(hk_heap_take_this(heaps.giver));
  hk_heap_flush(heaps.giver);
  EXPECT_EQ(heaps.taker->span_slabs, 0u);
  EXPECT_EQ(heaps.giver->span_slabs, 0u);
  EXPECT_EQ(InUseSlabs(), 0u);
}

// ---- Spans that move.

HK_FRESH_TEST(Steal, ATinyClassesActiveSpanMovesWithItsList) {
  for (unsigned class_index = 1; class_index <= HK_TINY_CLASS_MAX; class_index++) {
    SCOPED_TRACE(class_index);
    Heaps heaps;
    hk_block_t *held = Alloc(heaps.giver, class_index);
    std::set<hk_block_t *> list = SetOf(heaps.giver->bin[class_index].free);
    ASSERT_FALSE(list.empty());
    hk_heap_give_back(heaps.giver);
    ASSERT_TRUE(hk_heap_offers(heaps.giver, class_index));
    ASSERT_TRUE(Steal(heaps.taker, class_index));
    ExpectMoved(heaps, SpanOf(held), 1);
    EXPECT_TRUE(IsActive(heaps.taker, SpanOf(held)));
    EXPECT_EQ(SetOf(heaps.taker->bin[class_index].free), list);
    EXPECT_EQ(heaps.giver->bin[class_index].free, HK_LIST_END);
    EXPECT_FALSE(hk_heap_offers(heaps.giver, class_index)) << "it has no more";
    EXPECT_FALSE(Steal(heaps.taker, class_index));
    ExpectAllGoesBack(heaps, {held});
  }
}

HK_FRESH_TEST(Steal, AnActiveSpanMovesWithOnlyRoomLeftToCarve) {
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    Heaps heaps;
    Blocks held = {Alloc(heaps.giver, class_index)};
    for (hk_block_t *block : PopAll(heaps.giver, class_index)) held.push_back(block);
    hk_slab_t *span = SpanOf(held[0]);
    unsigned carved = CarvedOf(span);
    ASSERT_LT(carved, CapacityOf(class_index));
    hk_heap_give_back(heaps.giver);
    ASSERT_TRUE(Steal(heaps.taker, class_index));
    ExpectMoved(heaps, span, carved);
    EXPECT_TRUE(IsActive(heaps.taker, span));
    held.push_back(Alloc(heaps.taker, class_index));
    EXPECT_EQ(SpanOf(held.back()), span) << "it is carved on";
    EXPECT_GT(CarvedOf(span), carved);
    EXPECT_TRUE(hk_heap_was_fresh(heaps.taker, class_index)) << "its memory was never used";
    EXPECT_EQ(StatOf(heaps.taker, hk_stat_slab_acquire), 0u);
    CheckSpan(heaps.taker, span, carved + 1);
    ASSERT_TRUE(hk_heap_take_this(heaps.giver)); /* the memory stays: none comes twice */
  }
}

HK_FRESH_TEST(Steal, AListIsAsFreshAsItWas) {
  for (unsigned class_index : kTinyClasses) {
    for (bool was_freed_into : {false, true}) {
      SCOPED_TRACE(testing::Message() << class_index << " " << was_freed_into);
      Heaps heaps;
      hk_block_t *held = Alloc(heaps.giver, class_index), *freed = Alloc(heaps.giver, class_index);
      if (was_freed_into) (void)FreeOwn(heaps.giver, freed);
      ASSERT_EQ(hk_bin_is_fresh(&heaps.giver->bin[class_index]), !was_freed_into);
      hk_heap_give_back(heaps.giver);
      ASSERT_TRUE(Steal(heaps.taker, class_index));
      EXPECT_EQ(hk_bin_is_fresh(&heaps.taker->bin[class_index]), !was_freed_into);
      if (!was_freed_into) (void)FreeOwn(heaps.taker, freed);
      EXPECT_FALSE(hk_bin_is_fresh(&heaps.taker->bin[class_index]));
      CheckSpan(heaps.taker, SpanOf(held), 1);
      ASSERT_TRUE(hk_heap_take_this(heaps.giver));
    }
  }
}

HK_FRESH_TEST(Steal, TheTakersOwnExhaustedSpanStepsBack) {
  for (unsigned class_index : kTinyClasses) {
    SCOPED_TRACE(class_index);
    Heaps heaps;
    Blocks full = AllocMany(heaps.taker, class_index, CapacityOf(class_index));
    hk_block_t *held = Alloc(heaps.giver, class_index);
    hk_heap_give_back(heaps.giver);
    ASSERT_TRUE(Steal(heaps.taker, class_index));
    EXPECT_TRUE(IsActive(heaps.taker, SpanOf(held)));
    CheckSpan(heaps.taker, SpanOf(held), 1);
    CheckSpan(heaps.taker, SpanOf(full[0]), CapacityOf(class_index));
    EXPECT_FALSE(IsPartial(heaps.taker, SpanOf(full[0])));
    EXPECT_FALSE(SpanOf(full[0])->has_moved);
    full.push_back(held);
    ExpectAllGoesBack(heaps, full);
  }
}

HK_FRESH_TEST(Steal, ATinyClassesPartialSpanMovesFirst) {
  for (unsigned class_index : kTinyClasses) {
    SCOPED_TRACE(class_index);
    Heaps heaps;
    hk_heap_t *next = hk_heap_take();
    Blocks held = AllocMany(heaps.giver, class_index, CapacityOf(class_index));
    hk_block_t *theirs = Alloc(heaps.giver, class_index);
    std::set<hk_block_t *> freed;
    while (freed.size() < WorthOf(class_index) + 1) {
      freed.insert(held.back());
      (void)FreeOwn(heaps.giver, held.back());
      held.pop_back();
    }
    hk_slab_t *span = SpanOf(held[0]), *active = SpanOf(theirs);
    unsigned live = static_cast<unsigned>(held.size());
    ASSERT_TRUE(IsPartial(heaps.giver, span));
    hk_heap_give_back(heaps.giver);
    ASSERT_TRUE(Steal(heaps.taker, class_index));
    ExpectMoved(heaps, span, live);
    EXPECT_TRUE(IsPartial(heaps.taker, span));
    EXPECT_TRUE(IsActive(heaps.giver, active)) << "the other one stays";
    CheckSpan(heaps.giver, active, 1);
    EXPECT_EQ(heaps.giver->span_slabs, active->slab_count);
    EXPECT_TRUE(hk_list_is_empty(&heaps.giver->state[class_index].partial));
    EXPECT_TRUE(hk_heap_offers(heaps.giver, class_index)) << "it is there for the next one";
    EXPECT_TRUE(Steal(next, class_index));
    EXPECT_EQ(OwnerOf(active), next);
    CheckSpan(next, active, 1);

    ASSERT_TRUE(hk_refill(heaps.taker, class_index, nullptr));
    EXPECT_EQ(SetOf(heaps.taker->bin[class_index].free), freed);
    CheckSpan(heaps.taker, span, live);
    ASSERT_TRUE(hk_heap_take_this(heaps.giver));
  }
}

HK_FRESH_TEST(Steal, AMidClassesPartialSpanMovesFirst) {
  for (unsigned class_index : kMidClasses) {
    SCOPED_TRACE(class_index);
    Heaps heaps;
    Blocks held = AllocMany(heaps.giver, class_index, CapacityOf(class_index));
    hk_block_t *theirs = Alloc(heaps.giver, class_index);
    for (hk_block_t *block : PopAll(heaps.giver, class_index)) (void)block;
    hk_slab_t *span = SpanOf(held[0]), *active = SpanOf(theirs);
    hk_block_t *freed = held.back();
    held.pop_back();
    (void)FreeOwn(heaps.giver, freed);
    hk_mid_spill_all(heaps.giver); /* as at its thread's end */
    hk_heap_give_back(heaps.giver);
    ASSERT_TRUE(Steal(heaps.taker, class_index));
    ExpectMoved(heaps, span, static_cast<unsigned>(held.size()));
    EXPECT_TRUE(IsPartial(heaps.taker, span));
    EXPECT_TRUE(IsActive(heaps.giver, active));
    CheckSpan(heaps.giver, active, CarvedOf(active));
    ASSERT_TRUE(hk_refill(heaps.taker, class_index, nullptr));
    EXPECT_EQ(heaps.taker->bin[class_index].free, freed);
    CheckSpan(heaps.taker, span, static_cast<unsigned>(held.size()));
    CheckMidBin(heaps.taker, class_index);
  }
}

// A heap that was borrowed, or a vanished thread's, has lists in its mid bins.
HK_FRESH_TEST(Steal, WhatAMidBinHasGoesToItsSpansBefore) {
  for (unsigned class_index : kMidClasses) {
    SCOPED_TRACE(class_index);
    Heaps heaps;
    Blocks first = AllocMany(heaps.giver, class_index, CapacityOf(class_index));
    Blocks second = AllocMany(heaps.giver, class_index, CapacityOf(class_index));
    Blocks held = {first[0], second[0]};
    (void)FreeOwn(heaps.giver, first[1]);
    (void)FreeOwn(heaps.giver, second[1]);
    unsigned live = CapacityOf(class_index) - 1;
    ASSERT_EQ(ListLength(heaps.giver->bin[class_index].free), 2u);
    hk_heap_give_back(heaps.giver);
    if (!hk_heap_offers(heaps.giver, class_index)) { /* no room, and all that is free is in the bin */
      EXPECT_FALSE(Steal(heaps.taker, class_index));
      continue;
    }
    ASSERT_TRUE(Steal(heaps.taker, class_index));
    EXPECT_EQ(heaps.giver->bin[class_index].free, HK_LIST_END);
    CheckMidBin(heaps.giver, class_index);
    CheckMidBin(heaps.taker, class_index);
    hk_slab_t *moved = OwnerOf(SpanOf(first[0])) == heaps.taker ? SpanOf(first[0]) : SpanOf(second[0]);
    hk_slab_t *stays = moved == SpanOf(first[0]) ? SpanOf(second[0]) : SpanOf(first[0]);
    CheckSpan(heaps.taker, moved, live);
    CheckSpan(heaps.giver, stays, live);
    EXPECT_EQ(OwnerOf(stays), heaps.giver);
  }
}

// The span that a mid class carves from can have free blocks too.
HK_FRESH_TEST(Steal, AMidClassesActiveSpanIsCarvedOnWhenItMovesWithItsBlocks) {
  for (unsigned class_index : kMidClasses) {
    SCOPED_TRACE(class_index);
    Heaps heaps;
    Blocks held = AllocMany(heaps.giver, class_index, 3);
    for (hk_block_t *block : PopAll(heaps.giver, class_index)) held.push_back(block);
    hk_slab_t *span = SpanOf(held[0]);
    unsigned carved = CarvedOf(span);
    ASSERT_EQ(carved, held.size());
    if (carved == CapacityOf(class_index)) continue;
    (void)FreeOwn(heaps.giver, held.back());
    held.pop_back();
    hk_mid_spill_all(heaps.giver);
    ASSERT_TRUE(IsActive(heaps.giver, span) && IsPartial(heaps.giver, span));
    hk_heap_give_back(heaps.giver);
    ASSERT_TRUE(Steal(heaps.taker, class_index));
    ExpectMoved(heaps, span, carved - 1);
    EXPECT_TRUE(IsPartial(heaps.taker, span));
    EXPECT_TRUE(IsActive(heaps.taker, span)) << "or the rest of it would never be carved";
    while (CarvedOf(span) < CapacityOf(class_index)) {
      held.push_back(Alloc(heaps.taker, class_index));
      ASSERT_EQ(SpanOf(held.back()), span);
    }
    EXPECT_EQ(StatOf(heaps.taker, hk_stat_slab_acquire), 0u);
    ExpectAllGoesBack(heaps, held);
  }
}

// ---- Spans that do not.

HK_FRESH_TEST(Steal, NothingIsThereToMove) {
  Heaps heaps;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    EXPECT_FALSE(Steal(heaps.taker, class_index)) << "no heap is idle";
  }
  hk_heap_give_back(heaps.giver);
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    EXPECT_FALSE(hk_heap_offers(heaps.giver, class_index));
    EXPECT_FALSE(Steal(heaps.taker, class_index));
  }
  EXPECT_EQ(StatOf(heaps.taker, hk_stat_slab_move), 0u);
}

HK_FRESH_TEST(Steal, ASpanThatCameIsTrimmedThoughTheTakersOthersWere) {
  for (unsigned class_index : {4u, hk_class_of(5000)}) {
    Heaps heaps;
    (void)Alloc(heaps.giver, class_index);
    (void)hk_heap_shorten(heaps.taker);
    hk_heap_give_back(heaps.giver);
    ASSERT_TRUE(Steal(heaps.taker, class_index));
    EXPECT_TRUE(hk_heap_shorten(heaps.taker)) << class_index;
    ASSERT_TRUE(hk_heap_take_this(heaps.giver));
  }
}

HK_FRESH_TEST(Steal, AHeapThatAThreadHasIsNotStolenFrom) {
  Heaps heaps;
  hk_block_t *held = Alloc(heaps.giver, 4);
  EXPECT_FALSE(Steal(heaps.taker, 4));
  hk_heap_give_back(heaps.giver);
  ASSERT_EQ(hk_heap_take(), heaps.giver);
  ASSERT_TRUE(hk_heap_offers(heaps.giver, 4)) << "so it was when it was idle";
  EXPECT_FALSE(Steal(heaps.taker, 4));
  EXPECT_EQ(OwnerOf(SpanOf(held)), heaps.giver);
}

HK_FRESH_TEST(Steal, AnExhaustedActiveSpanIsNotOffered) {
  Heaps heaps;
  std::map<unsigned, Blocks> held;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    held[class_index] = AllocMany(heaps.giver, class_index, CapacityOf(class_index));
    ASSERT_NE(heaps.giver->state[class_index].active.load(), nullptr);
  }
  hk_heap_give_back(heaps.giver);
  for (auto &[class_index, blocks] : held) {
    SCOPED_TRACE(class_index);
    EXPECT_FALSE(hk_heap_offers(heaps.giver, class_index));
    EXPECT_FALSE(Steal(heaps.taker, class_index));
    CheckSpan(heaps.giver, SpanOf(blocks[0]), CapacityOf(class_index));
  }
  ASSERT_TRUE(hk_heap_take_this(heaps.giver));
  for (auto &[class_index, blocks] : held) (void)FreeOwn(heaps.giver, blocks[0]);
  hk_heap_give_back(heaps.giver);
  for (auto &[class_index, blocks] : held) EXPECT_TRUE(hk_heap_offers(heaps.giver, class_index)) << class_index;
}

HK_FRESH_TEST(Steal, AClassIsOfferedForItselfAlone) {
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    Heaps heaps;
    (void)Alloc(heaps.giver, class_index);
    hk_heap_give_back(heaps.giver);
    for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
      ASSERT_EQ(hk_heap_offers(heaps.giver, i), i == class_index) << i;
      if (i != class_index) ASSERT_FALSE(Steal(heaps.taker, i)) << i;
    }
    ASSERT_EQ(hk_heap_take(), heaps.giver);
  }
}

// Between the look at an offer and the taking another thread had the heap.
HK_FRESH_TEST(Steal, AnOfferThatDoesNotHoldAnyMoreMovesNothing) {
  for (unsigned class_index : {4u, 64u, 80u, 104u}) {
    SCOPED_TRACE(class_index);
    Heaps heaps;
    Blocks held = AllocMany(heaps.giver, class_index, CapacityOf(class_index));
    hk_heap_give_back(heaps.giver);
    for (auto &word : heaps.giver->offer) hk_store_relaxed(&word, ~uint64_t{0});
    EXPECT_FALSE(Steal(heaps.taker, class_index));
    CheckSpan(heaps.giver, SpanOf(held[0]), CapacityOf(class_index));
    EXPECT_EQ(hk_heap_life(heaps.giver), hk_heap_idle);
    EXPECT_FALSE(hk_heap_offers(heaps.giver, class_index)) << "it is made anew";
    ASSERT_EQ(hk_heap_take(), heaps.giver);
  }
}

HK_FRESH_TEST(Steal, WhatIsAllAtHomeIsReleasedAndDoesNotMove) {
  hk_option.spare_slabs = 0;
  for (unsigned class_index : kMidClasses) {
    SCOPED_TRACE(class_index);
    Heaps heaps;
    (void)FreeOwn(heaps.giver, Alloc(heaps.giver, class_index));
    ASSERT_NE(heaps.giver->bin[class_index].free, HK_LIST_END);
    ASSERT_EQ(InUseSlabs(), hk_class_span_slabs(class_index));
    hk_heap_give_back(heaps.giver);
    EXPECT_FALSE(Steal(heaps.taker, class_index));
    EXPECT_EQ(InUseSlabs(), 0u);
    EXPECT_EQ(heaps.giver->span_slabs, 0u);
    CheckMidBin(heaps.giver, class_index);
  }
}

// ---- Before growing.

HK_FRESH_TEST(Steal, AHeapThatWouldGrowTakesWhatAnIdleOneHas) {
  Heaps heaps;
  Blocks held;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    held.push_back(Alloc(heaps.giver, class_index));
  }
  size_t in_use = InUseSlabs();
  hk_heap_give_back(heaps.giver);
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    hk_block_t *block = Alloc(heaps.taker, class_index);
    bool is_room = CapacityOf(class_index) > 1;
    EXPECT_EQ(SpanOf(block) == SpanOf(held[class_index - 1]), is_room);
    CheckSpan(heaps.taker, SpanOf(block), 2);
  }
  EXPECT_EQ(InUseSlabs(), in_use) << "no memory is taken";
  EXPECT_EQ(StatOf(heaps.taker, hk_stat_slab_acquire), 0u);
  EXPECT_EQ(StatOf(heaps.taker, hk_stat_slab_move), HK_CLASS_COUNT - 1u);
  EXPECT_EQ(heaps.taker->span_slabs, in_use - heaps.giver->spare_slabs - ReservedSlabs(heaps.giver));
  EXPECT_EQ(heaps.giver->span_slabs, 0u);
}

HK_FRESH_TEST(Steal, WhatAHeapHasItselfComesFirst) {
  for (unsigned class_index : {4u, 64u, 80u}) {
    Heaps heaps;
    hk_block_t *theirs = Alloc(heaps.giver, class_index), *ours = Alloc(heaps.taker, class_index);
    hk_heap_give_back(heaps.giver);
    for (unsigned i = 1; i < CapacityOf(class_index); i++) {
      ASSERT_EQ(SpanOf(Alloc(heaps.taker, class_index)), SpanOf(ours)) << i;
    }
    EXPECT_EQ(SpanOf(Alloc(heaps.taker, class_index)), SpanOf(theirs)) << "before new memory";
    ASSERT_TRUE(hk_heap_take_this(heaps.giver));
  }
}

}  // namespace
