// heap/steal: spans that move from an idle heap to one that would grow, and blocks that are on their way meanwhile.
#include <map>
#include <set>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/heap_driver.h"

namespace {

using hakmem_test::TestRandom;
using hk_test::Alloc;
using hk_test::AllocMany;
using hk_test::CapacityOf;
using hk_test::CarvedOf;
using hk_test::CheckMidBin;
using hk_test::CheckSpan;
using hk_test::FreeOwn;
using hk_test::HeapCount;
using hk_test::IncomingLength;
using hk_test::InUseSlabs;
using hk_test::IsActive;
using hk_test::IsPartial;
using hk_test::ListLength;
using hk_test::PopAll;
using hk_test::ReservedSlabs;
using hk_test::SpanOf;
using hk_test::StatOf;
using hk_test::WorthOf;

using Blocks = std::vector<hk_block_t *>;

// Spans of one slab and of several.
constexpr unsigned kTinyClasses[] = {1, 4, 33, 64};
constexpr unsigned kMidClasses[] = {66, 80, 88, 93, 104};

struct Heaps {
  hk_heap_t *giver = hk_heap_take();
  hk_heap_t *taker = hk_heap_take();
};

// As before growing: what the heap has itself is used up.
bool Steal(hk_heap_t *heap, unsigned class_index) {
  hk_list_t *partial = &heap->state[class_index].partial;
  if (!hk_list_is_linked(partial)) hk_list_init(partial);
  return hk_steal_span(heap, class_index);
}

void RemoteFreeAll(hk_heap_t *heap, const Blocks &blocks) {
  for (hk_block_t *block : blocks) hk_remote_free(heap, hk_slab_of(block), block);
}

void Drain(hk_heap_t *heap) {
  hk_remote_drain(heap);
  EXPECT_EQ(heap->damaged, nullptr);
}

hk_heap_t *OwnerOf(hk_slab_t *span) { return hk_load_relaxed(&span->owner); }

std::set<hk_block_t *> SetOf(const hk_block_t *list) {
  std::set<hk_block_t *> blocks;
  for (; list != HK_LIST_END; list = list->next) blocks.insert(const_cast<hk_block_t *>(list));
  return blocks;
}

// A span that all of one thread's blocks are in: `live` of them are held, and it moved once.
void ExpectMoved(const Heaps &heaps, hk_slab_t *span, unsigned live) {
  unsigned class_index = span->class_index;
  EXPECT_EQ(OwnerOf(span), heaps.taker);
  EXPECT_TRUE(span->moved);
  EXPECT_EQ(heaps.taker->span_slabs, span->slab_count);
  EXPECT_EQ(StatOf(heaps.taker, hk_stat_slab_move), 1u);
  EXPECT_EQ(StatOf(heaps.giver, hk_stat_slab_move), 0u);
  CheckSpan(heaps.taker, span, live);
  EXPECT_NE(heaps.giver->state[class_index].active.load(), span);
  EXPECT_EQ(hk_test::CountOfSpan(heaps.giver->bin[class_index].free, span), 0u);
  if (hk_class_is_mid(class_index)) {
    CheckMidBin(heaps.giver, class_index);
    CheckMidBin(heaps.taker, class_index);
  }
  EXPECT_EQ(hk_heap_life(heaps.giver), hk_heap_idle);
  EXPECT_FALSE(hk_load_relaxed(&heaps.giver->busy));
}

// Nothing is left when the last blocks are freed by whoever has their spans.
void ExpectAllGoesBack(const Heaps &heaps, const Blocks &held) {
  for (hk_block_t *block : held) (void)FreeOwn(heaps.taker, block);
  hk_heap_trim(heaps.taker);
  ASSERT_TRUE(hk_heap_take_this(heaps.giver));
  hk_heap_trim(heaps.giver);
  EXPECT_EQ(heaps.taker->span_slabs, 0u);
  EXPECT_EQ(heaps.giver->span_slabs, 0u);
  EXPECT_EQ(InUseSlabs(), 0u);
}

// ---- What moves.

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

HK_FRESH_TEST(Steal, AnActiveSpanMovesWithOnlyRoomLeftToCut) {
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
    EXPECT_EQ(SpanOf(held.back()), span) << "it is cut on";
    EXPECT_GT(CarvedOf(span), carved);
    EXPECT_TRUE(hk_bin_was_fresh(&heaps.taker->bin[class_index], class_index)) << "its memory was never used";
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
    EXPECT_FALSE(SpanOf(full[0])->moved);
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

    ASSERT_TRUE(hk_refill(heaps.taker, class_index));
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
    ASSERT_TRUE(hk_refill(heaps.taker, class_index));
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

// The span that a mid class cuts from can have free blocks too.
HK_FRESH_TEST(Steal, AMidClassesActiveSpanIsCutOnWhenItMovesWithItsBlocks) {
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
    EXPECT_TRUE(IsActive(heaps.taker, span)) << "or what was not cut yet would never be";
    while (CarvedOf(span) < CapacityOf(class_index)) {
      held.push_back(Alloc(heaps.taker, class_index));
      ASSERT_EQ(SpanOf(held.back()), span);
    }
    EXPECT_EQ(StatOf(heaps.taker, hk_stat_slab_acquire), 0u);
    ExpectAllGoesBack(heaps, held);
  }
}

// ---- What does not.

HK_FRESH_TEST(Steal, NothingIsThereToMove) {
  Heaps heaps;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    EXPECT_FALSE(Steal(heaps.taker, class_index)) << "nobody is idle";
  }
  hk_heap_give_back(heaps.giver);
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    EXPECT_FALSE(hk_heap_offers(heaps.giver, class_index));
    EXPECT_FALSE(Steal(heaps.taker, class_index));
  }
  EXPECT_EQ(StatOf(heaps.taker, hk_stat_slab_move), 0u);
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

// ---- Blocks under way.

// A span whose blocks are handed out, and the heap it belongs to is about to lose its thread.
struct UnderWay : Heaps {
  explicit UnderWay(unsigned class_index) : blocks(AllocMany(giver, class_index, 4)), span(SpanOf(blocks[0])) {
    for (hk_block_t *block : PopAll(giver, class_index)) blocks.push_back(block);
  }
  unsigned Live() const { return static_cast<unsigned>(blocks.size()); }
  void Move() {
    hk_heap_give_back(giver);
    ASSERT_TRUE(Steal(taker, span->class_index));
    ASSERT_EQ(OwnerOf(span), taker);
  }

  hk_heap_t *third = hk_heap_take();
  Blocks blocks;
  hk_slab_t *span;
};

constexpr unsigned kWithRoom[] = {4, 64, 66, 80};

void ExpectHomeWithTheTaker(const UnderWay &way, unsigned count) {
  EXPECT_EQ(IncomingLength(way.giver), 0u);
  EXPECT_EQ(IncomingLength(way.taker), count);
  CheckSpan(way.taker, way.span, way.Live());
  Drain(way.taker);
  CheckSpan(way.taker, way.span, way.Live() - count);
  EXPECT_EQ(StatOf(way.taker, hk_stat_remote_drain), count);
  EXPECT_EQ(StatOf(way.giver, hk_stat_remote_drain), 0u) << "they did not come home there";
  EXPECT_EQ(StatOf(way.giver, hk_stat_remote_free), 0u) << "nor were they freed there";
}

HK_FRESH_TEST(StealUnderWay, WhatWaitsForTheOldOwnerIsSentOn) {
  for (unsigned class_index : kWithRoom) {
    SCOPED_TRACE(class_index);
    UnderWay way(class_index);
    RemoteFreeAll(way.third, {way.blocks[0], way.blocks[1]});
    hk_remote_flush(way.third);
    way.Move();
    EXPECT_EQ(IncomingLength(way.giver), 2u);
    CheckSpan(way.taker, way.span, way.Live());
    hk_remote_drain_idle();
    ExpectHomeWithTheTaker(way, 2);
  }
}

HK_FRESH_TEST(StealUnderWay, ABatchForTheOldOwnerIsSentOn) {
  for (unsigned class_index : kWithRoom) {
    SCOPED_TRACE(class_index);
    UnderWay way(class_index);
    RemoteFreeAll(way.third, {way.blocks[0], way.blocks[1]});
    way.Move();
    hk_remote_flush(way.third); /* who sends to an idle heap looks after it */
    ExpectHomeWithTheTaker(way, 2);
  }
}

HK_FRESH_TEST(StealUnderWay, WhatIsFreedAfterTheMoveGoesStraightHome) {
  for (unsigned class_index : kWithRoom) {
    SCOPED_TRACE(class_index);
    UnderWay way(class_index);
    way.Move();
    RemoteFreeAll(way.third, {way.blocks[0]});
    hk_remote_flush(way.third);
    hk_remote_free_now(way.span, way.blocks[1]);
    ExpectHomeWithTheTaker(way, 2);
    hk_test::Free(way.taker, way.blocks[2]);
    CheckSpan(way.taker, way.span, way.Live() - 3);
  }
}

// The old owner's next thread takes up what came for the one before, and frees a block that was its own once.
HK_FRESH_TEST(StealUnderWay, AThreadThatAdoptedTheOldOwnerSendsOn) {
  for (unsigned class_index : kWithRoom) {
    SCOPED_TRACE(class_index);
    UnderWay way(class_index);
    RemoteFreeAll(way.third, {way.blocks[2]});
    hk_remote_free_now(way.span, way.blocks[0]);
    way.Move();
    ASSERT_TRUE(hk_heap_take_this(way.giver));
    hk_remote_flush(way.third);
    EXPECT_EQ(IncomingLength(way.giver), 2u);
    Drain(way.giver);
    EXPECT_EQ(StatOf(way.giver, hk_stat_remote_drain), 0u);
    hk_test::Free(way.giver, way.blocks[1]);
    EXPECT_EQ(way.giver->bin[class_index].free, HK_LIST_END) << "nothing of it is its own any more";
    EXPECT_EQ(IncomingLength(way.taker), 0u) << "a batch waits, as every one does";
    CheckSpan(way.taker, way.span, way.Live());
    hk_remote_flush(way.giver);
    Drain(way.taker);
    CheckSpan(way.taker, way.span, way.Live() - 3);
  }
}

HK_FRESH_TEST(StealUnderWay, ABlockFollowsASpanThatMovedTwice) {
  for (unsigned class_index : kWithRoom) {
    SCOPED_TRACE(class_index);
    UnderWay way(class_index);
    hk_heap_t *last = hk_heap_take();
    hk_remote_free_now(way.span, way.blocks[0]);
    way.Move();
    hk_remote_free_now(way.span, way.blocks[1]); /* for the second */
    hk_heap_give_back(way.taker);
    ASSERT_TRUE(Steal(last, class_index));
    EXPECT_EQ(OwnerOf(way.span), last);
    EXPECT_EQ(IncomingLength(way.giver), 1u);
    EXPECT_EQ(IncomingLength(way.taker), 1u);
    hk_remote_drain_idle();
    hk_remote_drain_idle();
    EXPECT_EQ(IncomingLength(last), 2u);
    Drain(last);
    CheckSpan(last, way.span, way.Live() - 2);
    ASSERT_TRUE(hk_heap_take_this(way.giver) && hk_heap_take_this(way.taker));
  }
}

// What the thief itself has freed of that span and not sent yet goes out before it looks for one.
HK_FRESH_TEST(StealUnderWay, TheThiefsOwnBatchComesHomeFirst) {
  for (unsigned class_index : kWithRoom) {
    SCOPED_TRACE(class_index);
    UnderWay way(class_index);
    RemoteFreeAll(way.taker, {way.blocks[0], way.blocks[1]});
    hk_heap_give_back(way.giver);
    hk_block_t *got = Alloc(way.taker, class_index);
    EXPECT_EQ(OwnerOf(way.span), way.taker);
    EXPECT_EQ(SpanOf(got), way.span);
    CheckSpan(way.taker, way.span, way.Live() - 1);
    ASSERT_TRUE(hk_heap_take_this(way.giver));
  }
}

// Trimming sends on what it comes upon: nothing waits in a heap that nobody has.
HK_FRESH_TEST(StealUnderWay, AReclaimTakesBackWhatWaitsForTheOldOwner) {
  for (unsigned class_index : kWithRoom) {
    SCOPED_TRACE(class_index);
    UnderWay way(class_index);
    for (hk_block_t *block : way.blocks) hk_remote_free_now(way.span, block);
    way.Move();
    hk_thread_heap = way.taker;
    (void)hk_reclaim(0);
    EXPECT_EQ(InUseSlabs(), 0u);
    for (const hk_outgoing_t &batch : way.giver->outbox) EXPECT_EQ(batch.owner, nullptr);
    ASSERT_TRUE(hk_heap_take_this(way.giver));
  }
}

// ---- Misuse.

#if HK_SAFETY

bool IsFoundFree(hk_block_t *block) { return hk_verify(block).verdict == hk_verdict_free_block; }

HK_FRESH_TEST(StealMisuse, ADoubleFreeIsNoticedWhereverTheBlockIs) {
  for (unsigned class_index : {4u, 64u, 66u, 80u}) {
    SCOPED_TRACE(class_index);
    UnderWay way(class_index);
    hk_heap_t *fourth = hk_heap_take();
    RemoteFreeAll(way.third, {way.blocks[0]}); /* in a batch for the old owner */
    hk_remote_free_now(way.span, way.blocks[1]);
    way.Move();
    EXPECT_TRUE(IsFoundFree(way.blocks[0])) << "in a third thread's batch";
    EXPECT_TRUE(IsFoundFree(way.blocks[1])) << "on its way to the old owner";
    for (size_t i = 2; i < way.blocks.size(); i++) ASSERT_FALSE(IsFoundFree(way.blocks[i])) << "in use";

    ASSERT_TRUE(hk_heap_take_this(way.giver));
    hk_remote_flush(way.third);
    EXPECT_TRUE(IsFoundFree(way.blocks[0]));
    Drain(way.giver);
    EXPECT_TRUE(IsFoundFree(way.blocks[0]) && IsFoundFree(way.blocks[1])) << "in the old owner's batch";
    hk_remote_flush(way.giver);
    EXPECT_TRUE(IsFoundFree(way.blocks[0]) && IsFoundFree(way.blocks[1])) << "on its way to the new one";
    Drain(way.taker);
    EXPECT_TRUE(IsFoundFree(way.blocks[0]) && IsFoundFree(way.blocks[1])) << "in the new owner's bin";
    RemoteFreeAll(fourth, {way.blocks[2]});
    EXPECT_TRUE(IsFoundFree(way.blocks[2])) << "in a batch for the new owner";
    (void)FreeOwn(way.taker, way.blocks[3]);
    EXPECT_TRUE(IsFoundFree(way.blocks[3]));
    if (hk_class_is_mid(class_index)) hk_mid_spill_all(way.taker);
    EXPECT_TRUE(IsFoundFree(way.blocks[3])) << "in the span's own list";
    for (size_t i = 4; i < way.blocks.size(); i++) ASSERT_FALSE(IsFoundFree(way.blocks[i])) << "in use";
  }
}

// A copy of stale contents is no free block, wherever the span has been.
HK_FRESH_TEST(StealMisuse, ABlockInUseThatLooksFreeIsLive) {
  for (unsigned class_index : {64u, 80u}) {
    UnderWay way(class_index);
    RemoteFreeAll(way.third, {way.blocks[0]});
    hk_remote_free_now(way.span, way.blocks[1]);
    way.Move();
    for (int of : {0, 1}) {
      *way.blocks[2] = *way.blocks[of];
      ASSERT_TRUE(hk_block_looks_free(way.blocks[2]));
      EXPECT_FALSE(IsFoundFree(way.blocks[2])) << of;
    }
    ASSERT_TRUE(hk_heap_take_this(way.giver));
  }
}

HK_FRESH_TEST(StealMisuse, ABlockInUseThatTheOldOwnerDrainsIsNotSentOn) {
  for (unsigned class_index : kWithRoom) {
    UnderWay way(class_index);
    hk_remote_free_now(way.span, way.blocks[0]);
    way.Move();
    way.blocks[0]->seal ^= 1; /* the program writes into it */
    ASSERT_TRUE(hk_heap_take_this(way.giver));
    hk_remote_drain(way.giver);
    EXPECT_EQ(way.giver->damaged, way.blocks[0]);
    hk_remote_flush(way.giver);
    EXPECT_EQ(IncomingLength(way.taker), 0u);
  }
}

#endif

// ---- Fork.

HK_FRESH_TEST(StealFork, AThreadThatVanishesWhileASpanMovesLosesBothHeaps) {
  hk_heap_t *mine = hk_heap_take();
  Heaps heaps;
  (void)Alloc(heaps.giver, 4);
  hk_heap_give_back(heaps.giver);
  hk_heap_enter(heaps.taker); /* its refill */
  ASSERT_EQ(hk_heap_take_if(hk_heap_offers, 4), heaps.giver);
  hk_heap_enter(heaps.giver);
  hk_heap_repair();
  hk_heap_adopt_orphans(mine);
  EXPECT_EQ(hk_heap_count(hk_heap_lost), 2u);
  EXPECT_EQ(hk_heap_life(heaps.giver), hk_heap_lost);
  EXPECT_EQ(hk_heap_life(heaps.taker), hk_heap_lost);
  EXPECT_FALSE(Steal(mine, 4)) << "nothing is taken from a lost heap";
  EXPECT_FALSE(hk_heap_take_this(heaps.giver));
  EXPECT_EQ(HeapCount(), 3u);
}

// Taken, and not looked at yet: the heap it would have stolen from is as good as ever.
HK_FRESH_TEST(StealFork, AThreadThatVanishesBeforeTheSpanMovesLosesItsOwnHeap) {
  hk_heap_t *mine = hk_heap_take();
  Heaps heaps;
  hk_block_t *held = Alloc(heaps.giver, 4);
  hk_heap_give_back(heaps.giver);
  hk_heap_enter(heaps.taker);
  ASSERT_EQ(hk_heap_take_if(hk_heap_offers, 4), heaps.giver);
  hk_heap_repair();
  hk_heap_adopt_orphans(mine);
  EXPECT_EQ(hk_heap_count(hk_heap_lost), 1u);
  ASSERT_TRUE(Steal(mine, 4));
  EXPECT_FALSE(hk_bin_is_fresh(&mine->bin[4])) << "a vanished thread's lists are not known to be";
  CheckSpan(mine, SpanOf(held), 1);
}

// ---- Many moves: heaps that are idle by turns, blocks freed by whoever comes by.

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {
    for (hk_heap_t *&heap : heaps_) heap = hk_heap_take();
  }

  void Step(size_t most_blocks) {
    hk_heap_t *heap = heaps_[random_.Below(kHeaps)];
    if (idle_.count(heap) > 0) {
      if (random_.OneIn(50)) Adopt(heap);
    } else if (random_.OneIn(100) && idle_.size() < kHeaps - 1) {
      Leave(heap);
    } else if (held_.size() < most_blocks && random_.Below(100) < growth_) {
      Take(heap);
    } else if (!held_.empty()) {
      GiveBack(heap);
    }
    if (random_.OneIn(1500)) growth_ = random_.OneIn(2) ? 80 : 20;
    if (random_.OneIn(200)) hk_remote_drain_idle();
  }

  // Everybody is attached, and what is on its way comes home.
  void Settle() {
    for (hk_heap_t *heap : std::set<hk_heap_t *>(idle_)) Adopt(heap);
    bool is_pending = true;
    for (int round = 0; is_pending && round < 20; round++) {
      is_pending = false;
      for (hk_heap_t *heap : heaps_) {
        Drain(heap);
        hk_remote_flush(heap);
      }
      for (hk_heap_t *heap : heaps_) is_pending |= hk_remote_is_pending(heap);
    }
    ASSERT_FALSE(is_pending) << "what is sent on arrives";
  }

  void CheckAll() {
    Settle();
    std::map<hk_slab_t *, unsigned> live;
    for (hk_block_t *block : held_) live[SpanOf(block)]++;
    size_t slabs = 0;
    for (hk_heap_t *heap : heaps_) {
      slabs += heap->spare_slabs + ReservedSlabs(heap);
      for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
        if (heap->state[i].active.load() != nullptr) live.insert({heap->state[i].active.load(), 0});
        if (!hk_class_is_mid(i)) continue;
        CheckMidBin(heap, i);
        for (hk_block_t *block = heap->bin[i].free; block != HK_LIST_END; block = block->next) {
          live.insert({SpanOf(block), 0});
        }
      }
    }
    std::map<hk_heap_t *, size_t> owned;
    for (const auto &[span, count] : live) {
      CheckSpan(OwnerOf(span), span, count);
      owned[OwnerOf(span)] += span->slab_count;
      slabs += span->slab_count;
    }
    for (hk_heap_t *heap : heaps_) EXPECT_EQ(heap->span_slabs, owned[heap]);
    EXPECT_EQ(InUseSlabs(), slabs) << "no other slab is in use";
  }

  void GiveBackAll() {
    Settle();
    while (!held_.empty() && !testing::Test::HasFailure()) GiveBack(heaps_[random_.Below(kHeaps)]);
    Settle();
    uint64_t freed = 0, home = 0, moved = 0;
    for (hk_heap_t *heap : heaps_) {
      hk_heap_trim(heap);
      EXPECT_EQ(heap->span_slabs, 0u);
      freed += StatOf(heap, hk_stat_remote_free);
      home += StatOf(heap, hk_stat_remote_drain);
      moved += StatOf(heap, hk_stat_slab_move);
    }
    EXPECT_EQ(InUseSlabs(), 0u);
    EXPECT_EQ(freed, home) << "each came home once, whatever its way was";
    EXPECT_GT(moved, 100u) << "else the test has not seen much";
  }

 private:
  static constexpr unsigned kHeaps = 4;
  static constexpr unsigned kClasses[] = {2, 4, 33, 64, 66, 80, 93, 104};

  static uint64_t *WordOf(hk_block_t *block) { return reinterpret_cast<uint64_t *>(block + 1); }

  void Adopt(hk_heap_t *heap) {
    ASSERT_TRUE(hk_heap_take_this(heap));
    idle_.erase(heap);
  }

  // As a thread ends, or, one in two, as one that only borrowed it.
  void Leave(hk_heap_t *heap) {
    hk_remote_flush(heap);
    if (random_.OneIn(2)) hk_heap_settle_down(heap, SIZE_MAX);
    hk_heap_give_back(heap);
    idle_.insert(heap);
  }

  void Take(hk_heap_t *heap) {
    unsigned class_index = kClasses[random_.Below(sizeof kClasses / sizeof kClasses[0])];
    bool fresh = hk_bin_is_fresh(&heap->bin[class_index]);
    hk_block_t *block = hk_test::Pop(heap, class_index);
    if (block == nullptr) {
      block = Alloc(heap, class_index);
      fresh = hk_bin_was_fresh(&heap->bin[class_index], class_index);
    }
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(OwnerOf(hk_slab_of(block)), heap);
    ASSERT_TRUE(!fresh || *WordOf(block) == 0) << "fresh memory is zero";
    *WordOf(block) = reinterpret_cast<uint64_t>(block);
    held_.push_back(block);
  }

  void GiveBack(hk_heap_t *heap) {
    std::swap(held_[random_.Below(held_.size())], held_.back());
    hk_block_t *block = held_.back();
    held_.pop_back();
    ASSERT_EQ(*WordOf(block), reinterpret_cast<uint64_t>(block)) << "somebody else wrote into it";
    hk_test::Free(heap, block);
  }

  void Drain(hk_heap_t *heap) {
    if (hk_remote_is_pending(heap)) hk_remote_drain(heap);
    ASSERT_EQ(heap->damaged, nullptr);
  }

  TestRandom random_;
  hk_heap_t *heaps_[kHeaps];
  std::set<hk_heap_t *> idle_;
  std::vector<hk_block_t *> held_;
  unsigned growth_ = 70;
};

void RunAgainstModel(uint64_t seed, size_t most_blocks) {
  Model model(seed);
  for (int i = 0; i < 80000 && !testing::Test::HasFailure(); i++) {
    model.Step(most_blocks);
    if (i % 4000 == 3999) model.CheckAll();
  }
  model.GiveBackAll();
}

HK_FRESH_TEST(StealModel, FewBlocks) { RunAgainstModel(1, 200); }
HK_FRESH_TEST(StealModel, ManyBlocks) { RunAgainstModel(2, 8000); }
HK_FRESH_TEST(StealModel, WithoutSpareSlabs) {
  hk_option.spare_slabs = 0;
  RunAgainstModel(3, 1500);
}

}  // namespace
