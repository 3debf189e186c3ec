// heap/heap_check: each equation of a heap, its spans and the pool is broken by hand, and the next slow path ends the
// process with the sentence that does not hold.
#include <utility>
#include <vector>

#include "fresh_test.h"
#include "policy/sampling.h"
#include "unit/pool_driver.h"
#include "unit/purge_drain_driver.h"
#include "unit/span_driver.h"

extern "C" {
#include "heap/sample_countdown.h"
}

using namespace hk_test;

namespace {

constexpr unsigned kTiny = 4, kMid = 93;

// All slabs that have the heap as their owner.
size_t OwnedSlabs(hk_heap_t *heap) {
  struct Sum {
    hk_heap_t *heap;
    size_t slabs;
  } sum = {heap, 0};
  hk_superslab_visit(
      [](hk_slab_t *slabs, void *context) {
        Sum *into = static_cast<Sum *>(context);
        for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) into->slabs += slabs[i].owner.load() == into->heap;
      },
      &sum);
  return sum.slabs;
}

HK_FRESH_TEST(HeapInvariant, TheCountOfAHeapsSlabsIsHowManyItHas) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<Blocks> all;
  for (unsigned class_index : {1u, kTiny, 64u, kMid, 104u}) {
    all.push_back(AllocMany(heap, class_index, 2 * CapacityOf(class_index)));
    EXPECT_EQ(heap->span_slabs, OwnedSlabs(heap));
  }
  for (const Blocks &blocks : all) {
    for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
    EXPECT_EQ(heap->span_slabs, OwnedSlabs(heap));
  }
  hk_heap_flush(heap);
  EXPECT_EQ(heap->span_slabs, 0u);
  EXPECT_EQ(OwnedSlabs(heap), 0u);
}

#if HK_DEBUG

// The next slow path walks over all of the heap.
void MakeDue(hk_heap_t *heap) { heap->walk = {}; }

// Breaks something, and expects that what `path` does notices it.
#define EXPECT_NOTICED(breakage, path, sentence) \
  EXPECT_DEATH(                                  \
      {                                          \
        breakage;                                \
        path;                                    \
      },                                         \
      sentence)

// ---- Spans. A heap with a full, a partial and an active span of a tiny class, and two partial and one active of a mid
// class.

struct Spans {
  hk_heap_t *heap = hk_heap_take();
  hk_slab_t *full, *partial, *active, *mid, *other_mid, *active_mid;
  Blocks tiny; /* all of the full span first */

  Spans() {
    tiny = AllocMany(heap, kTiny, 2 * CapacityOf(kTiny) + 1);
    full = SpanOf(tiny[0]);
    partial = SpanOf(tiny[CapacityOf(kTiny)]);
    active = SpanOf(tiny.back());
    for (unsigned i = 0; i < 2 * WorthOf(kTiny); i++) (void)FreeOwn(heap, tiny[CapacityOf(kTiny) + i]);
    Blocks blocks = AllocMany(heap, kMid, 2 * CapacityOf(kMid) + 1);
    mid = SpanOf(blocks[0]);
    other_mid = SpanOf(blocks[CapacityOf(kMid)]);
    active_mid = SpanOf(blocks.back());
    for (unsigned i : {0u, CapacityOf(kMid), 1u, CapacityOf(kMid) + 1}) (void)FreeOwn(heap, blocks[i]);
    hk_mid_spill(heap, kMid, 0);
    (void)FreeOwn(heap, blocks[2]);
    EXPECT_TRUE(IsPartial(heap, partial));
    EXPECT_FALSE(hk_list_is_linked(&full->link));
    EXPECT_TRUE(IsPartial(heap, mid) && IsPartial(heap, other_mid));
    EXPECT_TRUE(IsActive(heap, active) && IsActive(heap, active_mid));
  }

  // A slow path of another class, which walks over all of the heap.
  void Walk() {
    MakeDue(heap);
    (void)Alloc(heap, 20);
  }
};

#define EXPECT_WALK_NOTICES(breakage, sentence) EXPECT_NOTICED(breakage, at.Walk(), sentence)

HK_FRESH_TEST(HeapInvariantDeathTest, Descriptors) {
  Spans at;
  EXPECT_WALK_NOTICES(at.mid->carved += 1000, "no more is carved than there is room for");
  EXPECT_WALK_NOTICES(hk_slab_set_state(at.full, hk_slab_free), "each slab of a span is in the state small");
  EXPECT_WALK_NOTICES(at.partial->head = at.full, "each slab of a span knows its head");
  EXPECT_WALK_NOTICES(hk_store_relaxed(&at.other_mid->owner, nullptr), "each slab of a span has the span's owner");
  EXPECT_WALK_NOTICES(at.full->free_list = &at.heap->bin[kTiny], "an inactive span's frees go to itself");
  EXPECT_WALK_NOTICES(at.active->free_list = &at.active->own, "an active span's frees go to its bin");
  EXPECT_WALK_NOTICES(hk_span_set_free_lists(at.other_mid, &at.other_mid->own), "a mid span's frees go to its bin");
  ASSERT_GT(at.mid->slab_count, 1);
  EXPECT_WALK_NOTICES(at.mid[1].free_list = &at.mid->own, "each slab of a span has the span's free list");
  EXPECT_WALK_NOTICES(at.mid[1].class_index--, "each slab of a span has the span's class");
  at.Walk();
}

HK_FRESH_TEST(HeapInvariantDeathTest, CountsOfSpans) {
  Spans at;
  EXPECT_WALK_NOTICES(at.full->live--, "a span's list is as long as its counts say");
  EXPECT_WALK_NOTICES(at.full->own.free = at.partial->own.free, "a free block lies in its span");
  EXPECT_WALK_NOTICES(at.partial->own.free = at.partial->own.free->next, "a span's list is as long as its counts say");
  EXPECT_WALK_NOTICES(
      {
        hk_block_t *inner = at.partial->own.free + 1;
        hk_block_link(inner, at.partial->own.free->next);
        at.partial->own.free = inner;
      },
      "a free block is a block");
  EXPECT_WALK_NOTICES(at.full->own.countdown = at.full->own.start + 1, "an inactive span counts down from its start");
  EXPECT_WALK_NOTICES((at.full->own.start = 60000, at.full->live = 1), "no more blocks come back than went out");
  EXPECT_WALK_NOTICES(at.full->live = at.full->carved + 1, "no more blocks are in use than were carved");
  EXPECT_WALK_NOTICES((at.partial->own.countdown--, at.partial->own.start--),
                      "a partial span is due when all its blocks are free");
  EXPECT_WALK_NOTICES(at.mid->live++, "a span's list is as long as its counts say");
  EXPECT_WALK_NOTICES(hk_list_remove(&at.mid->link), "a mid span is partial while its list has blocks");
  EXPECT_WALK_NOTICES(
      {
        at.full->own.free = HK_LIST_END;
        for (unsigned i = 0; i < CapacityOf(kTiny); i++) {
          hk_block_link(at.tiny[i], at.full->own.free);
          at.full->own.free = at.tiny[i];
        }
        at.full->own.start = at.full->own.countdown;
        at.full->live = 0;
      },
      "a span without a block in use is given back");
  at.Walk();
}

// ---- Bins.

HK_FRESH_TEST(HeapInvariantDeathTest, TinyBins) {
  Spans at;
  hk_heap_t *heap = at.heap;
  ASSERT_NE(heap->bin[kTiny].free, HK_LIST_END);
  EXPECT_WALK_NOTICES(at.active->own.free = heap->bin[kTiny].free, "an active span's free blocks are its bin's");
  EXPECT_WALK_NOTICES(hk_list_init(&at.active->link), "an active span is in no list");
  EXPECT_WALK_NOTICES(at.active->carved = 1, "a bin has no more blocks than were carved");
  EXPECT_WALK_NOTICES((at.active->is_zero = false, heap->bin[kTiny].countdown = HK_COUNTDOWN_FRESH),
                      "a fresh list is of a zero span");
  EXPECT_WALK_NOTICES(heap->bin[kTiny].free = at.partial->own.free, "a free block lies in its span");
  EXPECT_WALK_NOTICES(heap->bin[7].free = at.partial->own.free, "a bin without an active span has no blocks");
  at.Walk();
}

HK_FRESH_TEST(HeapInvariantDeathTest, MidBins) {
  Spans at;
  hk_free_list_t *bin = &at.heap->bin[kMid];
  ASSERT_NE(bin->free, HK_LIST_END);
  EXPECT_WALK_NOTICES(bin->countdown = 0, "a mid bin that is full is spilled at once");
  EXPECT_WALK_NOTICES(bin->countdown++, "a mid bin's list and countdown add up to its room");
  EXPECT_WALK_NOTICES(at.heap->state[kMid].room++, "a mid bin's list and countdown add up to its room");
  EXPECT_WALK_NOTICES(
      {
        at.heap->bin[kMid + 1].free = bin->free;
        at.heap->bin[kMid + 1].countdown -= ListLength(bin->free);
      },
      "a mid bin has blocks of its own spans");
  at.Walk();
}

HK_FRESH_TEST(HeapInvariantDeathTest, ListsOfPartialSpans) {
  Spans at;
  EXPECT_WALK_NOTICES(at.mid->link.next->previous = at.mid->link.next, "a list of partial spans is whole");
  EXPECT_WALK_NOTICES(
      {
        hk_list_t *other = &at.heap->state[kTiny].partial;
        hk_list_remove(&at.mid->link);
        hk_list_push_back(other, &at.mid->link);
      },
      "a partial span is in its class's list");
  at.Walk();
}

// A slow path looks at its own class at once, whenever the walk over all of the heap is due.
HK_FRESH_TEST(HeapInvariantDeathTest, AClassIsCheckedByItsOwnSlowPath) {
  Spans at;
  at.heap->walk = {.earned = 0, .price = UINT64_MAX};
  hk_slab_t *first = HK_CONTAINER_OF(at.heap->state[kMid].partial.next, hk_slab_t, link);
  EXPECT_NOTICED(first->live++, hk_mid_spill(at.heap, kMid, 1), "a span's list is as long as its counts say");
  first->live++;
  (void)Alloc(at.heap, 20);
  first->live--;
  hk_mid_spill(at.heap, kMid, 1);
}

// ---- Sampled bins.

struct Sampled {
  hk_heap_t *heap = hk_heap_take();
  Blocks blocks;
  Sampled() {
    EXPECT_TRUE(hk_sampling_begin(HK_MIB));
    hk_sample_countdown_follow(heap);
    EXPECT_TRUE(hk_heap_is_sampled(heap));
    hk_free_list_t *list = hk_heap_effective_list(heap, kTiny);
    EXPECT_TRUE(hk_refill(heap, kTiny, nullptr));
    blocks.push_back(list->free);
    list->free = blocks[0]->next;
    hk_block_unseal(blocks[0]);
    Cut()->until = 100000; /* far beyond the list: the bin is opened */
    hk_sample_countdown_count(heap, kTiny, false);
    hk_sample_countdown_next_piece(heap, kTiny);
  }
  hk_sample_countdown_t *MidCut() { return &heap->countdowns->of[kMid]; }
  hk_sample_countdown_t *Cut() { return &heap->countdowns->of[kTiny]; }
};

HK_FRESH_TEST(HeapInvariantDeathTest, AnOpenBinHasWhatWasCounted) {
  Sampled at;
  ASSERT_TRUE(at.Cut()->is_open.load());
  ASSERT_NE(at.heap->bin[kTiny].free, HK_LIST_END);
  EXPECT_NOTICED(at.Cut()->start_length = 0, hk_heap_check_class(at.heap, kTiny),
                 "an open bin has at most what it was given and what came back");
  EXPECT_NOTICED(hk_store_relaxed(&at.heap->effective_lists, at.heap->bin + 1),
                 (MakeDue(at.heap), hk_heap_check(at.heap)), "a heap's effective lists are its own");
}

HK_FRESH_TEST(HeapInvariantDeathTest, AMeteredBinHasWhatWasCounted) {
  Sampled at;
  hk_mid_unmeter(at.heap, kMid);
  ASSERT_TRUE(hk_refill(at.heap, kMid, nullptr));
  at.MidCut()->until = 100000;
  hk_mid_meter(at.heap, kMid);
  ASSERT_NE(at.heap->bin[kMid].free, HK_LIST_END);
  EXPECT_NOTICED(at.MidCut()->start_length = 0, hk_heap_check_class(at.heap, kMid),
                 "a metered bin has at most its blocks and what came back");
  EXPECT_NOTICED(at.MidCut()->until = 0, hk_heap_check_class(at.heap, kMid),
                 "a metered bin's blocks end at the next sample");
  EXPECT_NOTICED(at.heap->bin[kMid].countdown = 0, hk_heap_check_class(at.heap, kMid),
                 "a mid bin that is full is spilled at once");
  hk_store_relaxed(&at.heap->effective_lists, at.heap->bin);
  EXPECT_NOTICED({}, hk_heap_check_class(at.heap, kMid), "a metered bin is of a sampled heap");
}

HK_FRESH_TEST(HeapInvariantDeathTest, AClosedBinsHomeIsCounted) {
  Sampled at;
  at.heap->bin[kTiny].countdown = 1;
  Blocks taken = {Pop(at.heap, kTiny)};
  (void)FreeOwn(at.heap, taken[0]); /* a block that returns now closes the bin */
  ASSERT_FALSE(at.Cut()->is_open.load());
  ASSERT_NE(at.heap->bin[kTiny].free, HK_LIST_END);
  EXPECT_NOTICED(at.Cut()->start_length++, hk_heap_check_class(at.heap, kTiny),
                 "a closed bin's effective free list is as long as it has counted");
  EXPECT_NOTICED({}, hk_heap_give_back(at.heap), "a heap that is given back has nothing in closed bins");
  hk_sample_countdown_recall(at.heap);
  hk_heap_give_back(at.heap);
}

// ---- Spare slabs, outboxes, and the heap's own counts.

HK_FRESH_TEST(HeapInvariantDeathTest, SpareSlabs) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  bool is_zero;
  std::vector<hk_slab_t *> heads;
  for (int i = 0; i < 3; i++) heads.push_back(hk_slab_of(hk_run_alloc(3 * HK_SLAB_BYTES, 1, &is_zero)));
  hk_slab_t *last = heads[2];
  for (int i = 0; i < 2; i++) (void)SpareRun(heap, heads[i]);
  hk_slab_t *kept = heads[0];
  EXPECT_NOTICED(heap->spare_slabs++, SpareRun(heap, last), "the count of spare slabs is how many there are");
  EXPECT_NOTICED(kept->slab_count++, SpareRun(heap, last), "a spare row is in the list of its length");
  EXPECT_NOTICED(hk_slab_set_state(kept, hk_slab_run), SpareRun(heap, last),
                 "the first slab of a spare row is in the state free");
  EXPECT_NOTICED(hk_slab_set_state(kept + 1, hk_slab_run), SpareRun(heap, last), "the others are free, or tails");
  EXPECT_NOTICED(hk_slab_set_state(kept + 1, hk_slab_free), SpareRun(heap, last),
                 "all slabs of a row behind the first one are in one state");
  EXPECT_NOTICED(kept[2].head = kept + 1, SpareRun(heap, last), "a tail of a spare row knows its head");
  EXPECT_NOTICED(hk_store_relaxed(&kept->owner, heap), SpareRun(heap, last), "a spare slab has no owner");
  EXPECT_NOTICED(kept->link.next->previous = kept->link.next, SpareRun(heap, last), "a list of spare slabs is whole");
  hk_slab_t none = {};
  EXPECT_NOTICED(heap->reserve = &none, SpareRun(heap, last), "a reserve has slabs");
  EXPECT_TRUE(SpareRun(heap, last));
}

HK_FRESH_TEST(HeapInvariantDeathTest, SparseRuns) {
  hk_option.spare_slabs = 2;
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  bool is_zero;
  std::vector<hk_slab_t *> heads;
  for (int i = 0; i < 3; i++) {
    auto *run = static_cast<char *>(hk_run_alloc(2 * HK_SLAB_BYTES, 1, &is_zero));
    run[0] = 1;
    heads.push_back(hk_slab_of(run));
  }
  hk_slab_t *kept = heads[1], *last = heads[2];
  for (int i = 0; i < 2; i++) (void)SpareRun(heap, heads[i]);
  ASSERT_EQ(heap->sparse.kept.slabs, 2u);
  hk_option.spare_slabs = 4;
  EXPECT_NOTICED(heap->sparse.kept.pages++, SpareRun(heap, last),
                 "the sum of the sparse runs that are kept is what they have");
  EXPECT_NOTICED(heap->sparse.known.pages--, SpareRun(heap, last),
                 "the sparse runs that are kept, and those that ended elsewhere, are known");
  EXPECT_NOTICED(kept->resident_pages = 0, SpareRun(heap, last), "a sparse run that is kept has known pages");
  EXPECT_NOTICED(heap->sparse.of_length[2] = std::exchange(heap->sparse.of_length[1], nullptr), SpareRun(heap, last),
                 "a sparse run is in the list of its length");
  EXPECT_NOTICED(kept->sparse.gone = nullptr, SpareRun(heap, last), "a sparse run that is kept is known to its heap");
  EXPECT_TRUE(SpareRun(heap, last));
}

HK_FRESH_TEST(HeapInvariantDeathTest, CountsOfAHeap) {
  Spans at;
  EXPECT_WALK_NOTICES(at.heap->span_slabs++, "the count of a heap's slabs is how many it has");
  EXPECT_WALK_NOTICES(hk_store_relaxed(&at.heap->shared.drained_slabs, 1),
                      "the count of a heap's slabs is how many it has");
  EXPECT_NOTICED(hk_store_relaxed(&at.heap->shared.drained_slabs, 1000), hk_remote_drain(at.heap),
                 "no more slabs are drained than a heap has");
  at.Walk();
}

HK_FRESH_TEST(HeapInvariantDeathTest, Outboxes) {
  hk_heap_t *heap = hk_heap_take(), *owner = hk_heap_take();
  RemoteFree(heap, Alloc(owner, kTiny));
  hk_batch_t *batch = heap->outbox;
  while (batch->owner == nullptr) batch++;
  MakeDue(heap);
  EXPECT_NOTICED(batch->left_bytes = 0, hk_heap_check(heap), "a batch that is full is sent at once");
  EXPECT_NOTICED(batch->last = nullptr, hk_heap_check(heap), "a batch has blocks");
  EXPECT_NOTICED({}, hk_heap_give_back(heap), "a heap that is given back has sent its batches");
  hk_remote_flush(heap);
  EXPECT_NOTICED(heap->is_visited = true, hk_heap_give_back(heap), "a heap that is given back is not visited");
  hk_heap_give_back(heap);
}

// ---- Drained spans.

HK_FRESH_TEST(HeapInvariantDeathTest, WhatIsDrainedIsCounted) {
  purge_drain_driver::Heaps heaps;
  FullSpan full(heaps.owner, kMid);
  heaps.Send(full.blocks);
  EXPECT_NOTICED(hk_slab_set_state(full.span, hk_slab_free), DrainAll(), "a drained span has its own head and state");
  ASSERT_GT(full.span->slab_count, 1);
  EXPECT_NOTICED(hk_store_relaxed(&full.span[1].owner, heaps.other), DrainAll(),
                 "a drained span is owned by the heap of the chain");
  DrainAll();
  EXPECT_TRUE(IsGivenBack(full.span, hk_class_span_slabs(kMid)));
}

// A count that is left from before, as if a block in use had been freed.
HK_FRESH_TEST(HeapInvariantDeathTest, ABlockInUseIsNotDrained) {
  purge_drain_driver::Heaps heaps;
  FullSpan full(heaps.owner, kMid);
  heaps.Send({full.blocks[0]});
  DrainAll();
  ASSERT_EQ(full.span->drain_round, 1u);
  heaps.Send(Blocks(full.blocks.begin() + 2, full.blocks.end()));
  EXPECT_NOTICED((full.span->drain_round = 2, full.span->drain_count = 1), DrainAll(),
                 "each block of the chain is put back, or of a drained span");
  DrainAll();
}

// ---- The pool.

HK_FRESH_TEST(PoolInvariantDeathTest, LivesAndPlaces) {
  std::vector<hk_heap_t *> heaps = TakeMany(kMany);
  hk_heap_t *mine = heaps.back();
  heaps.pop_back();
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  hk_heap_t *in_slot = heaps[0], *beyond = heaps[HK_POOL_SLOTS];
  EXPECT_NOTICED(in_slot->life = hk_heap_attached, hk_heap_take_this(in_slot), "a heap in a slot is idle");
  EXPECT_NOTICED(beyond->life = hk_heap_attached, hk_heap_give_back(mine), "a heap beyond the slots is idle");
  EXPECT_NOTICED(hk_list_init(&in_slot->pool_link), hk_heap_give_back(mine), "a heap is in a slot or beyond the slots");
  EXPECT_NOTICED(beyond->pool_link.next->previous = beyond->pool_link.next, hk_heap_give_back(mine),
                 "the list of idle heaps is whole");
  EXPECT_NOTICED(hk_list_remove(&beyond->pool_link), hk_heap_give_back(mine),
                 "the count of heaps beyond the slots is how many there are");
  EXPECT_NOTICED(in_slot->number = 77, hk_heap_give_back(mine), "heaps are numbered without a gap");
  hk_heap_give_back(mine);
}

#endif

}  // namespace
