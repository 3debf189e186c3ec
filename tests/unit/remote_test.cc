// heap/remote: remote frees: blocks that wait for the owner, blocks that it collects, and idle heaps.
#include <map>
#include <vector>

#include "fresh_test.h"
#include "unit/remote_driver.h"

using namespace hk_test;

namespace {

// ---- Collected blocks count.

HK_FRESH_TEST(Remote, ADrainOfNothing) {
  Heaps heaps;
  Drain(heaps.owner);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 0u);
  hk_remote_flush(heaps.other);
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), 0u);
}

HK_FRESH_TEST(Remote, BlocksComeHomeToTheActiveSpan) {
  Heaps heaps;
  Blocks blocks = AllocMany(heaps.owner, 20, 40);
  hk_slab_t *span = SpanOf(blocks[0]);
  RemoteFreeAll(heaps.other, blocks);
  CheckSpan(heaps.owner, span, 40);
  hk_remote_flush(heaps.other);
  CheckSpan(heaps.owner, span, 40);
  Drain(heaps.owner);
  EXPECT_TRUE(IsActive(heaps.owner, span));
  CheckSpan(heaps.owner, span, 0);
  for (hk_block_t *block : AllocMany(heaps.owner, 20, 40)) EXPECT_EQ(SpanOf(block), span);
  hk_heap_flush(heaps.owner);
  EXPECT_EQ(InUseSlabs(), 1u);
}

HK_FRESH_TEST(Remote, ADrainOfEachSizeLeavesTheCountsRight) {
  hk_option.spare_slabs = 0;
  Heaps heaps;
  for (unsigned class_index : {20u, 64u}) {
    unsigned capacity = CapacityOf(class_index);
    for (unsigned before = 0; before < capacity; before += 1 + capacity / 16) {
      for (unsigned count = 1; count <= capacity - before; count += 1 + capacity / 23) {
        Blocks blocks = AllocMany(heaps.owner, class_index, capacity);
        hk_block_t *active = Alloc(heaps.owner, class_index); /* the span is full now, and not active */
        hk_slab_t *span = SpanOf(blocks[0]);
        for (unsigned i = 0; i < before; i++) (void)FreeOwn(heaps.owner, blocks[i]);
        for (unsigned i = before; i < before + count; i++) RemoteFree(heaps.other, blocks[i]);
        hk_remote_flush(heaps.other);
        Drain(heaps.owner);
        if (before + count == capacity) {
          ASSERT_EQ(hk_slab_state(span), hk_slab_free);
        } else {
          CheckSpan(heaps.owner, span, capacity - before - count);
          ASSERT_EQ(IsPartial(heaps.owner, span), before + count >= WorthOf(class_index));
        }
        for (unsigned i = before + count; i < capacity; i++) (void)FreeOwn(heaps.owner, blocks[i]);
        (void)FreeOwn(heaps.owner, active);
        hk_heap_flush(heaps.owner);
        ASSERT_EQ(InUseSlabs(), 0u);
      }
    }
  }
}

// Each class: a full span whose blocks another thread frees, with own frees between.
HK_FRESH_TEST(Remote, ASpanIsReleasedWhenItsLastBlockIsHome) {
  hk_option.spare_slabs = 0;
  Heaps heaps;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    bool is_mid = hk_class_is_mid(class_index);
    unsigned capacity = CapacityOf(class_index);
    Blocks blocks = AllocMany(heaps.owner, class_index, capacity);
    hk_block_t *next = Alloc(heaps.owner, class_index); /* makes another span the active one */
    hk_slab_t *span = SpanOf(blocks[0]);
    unsigned live = capacity;
    while (live > 1) {
      unsigned count = 1 + (live * 7 + class_index) % 23;
      if (count > live - 1) count = live - 1;
      for (unsigned i = 0; i < count; i++) {
        live--;
        if (i % 5 == 0) {
          (void)FreeOwn(heaps.owner, blocks[live]);
        } else {
          RemoteFree(heaps.other, blocks[live]);
        }
      }
      hk_remote_flush(heaps.other);
      Drain(heaps.owner);
      if (live % 16 == 0 || live < 40) CheckSpan(heaps.owner, span, live);
      if (is_mid) {
        CheckMidBin(heaps.owner, class_index);
      } else {
        ASSERT_EQ(IsPartial(heaps.owner, span), capacity - live >= WorthOf(class_index));
      }
    }
    RemoteFree(heaps.other, blocks[0]);
    if (is_mid) hk_mid_spill_all(heaps.owner);
    ASSERT_EQ(hk_slab_state(span), hk_slab_small) << "in a batch it counts as in use";
    hk_remote_flush(heaps.other);
    if (is_mid) hk_mid_spill_all(heaps.owner);
    ASSERT_EQ(hk_slab_state(span), hk_slab_small) << "sent too";
    Drain(heaps.owner);
    if (is_mid) hk_mid_spill_all(heaps.owner);
    ASSERT_EQ(hk_slab_state(span), hk_slab_free);
    (void)FreeOwn(heaps.owner, next);
    hk_heap_flush(heaps.owner);
    ASSERT_EQ(InUseSlabs(), 0u);
  }
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), StatOf(heaps.other, hk_stat_remote_free));
}

HK_FRESH_TEST(Remote, OneDrainServesTinySpansInEveryState) {
  hk_option.spare_slabs = 0;
  Heaps heaps;
  unsigned capacity = CapacityOf(64);
  std::vector<Blocks> spans;
  for (int i = 0; i < 4; i++) spans.push_back(AllocMany(heaps.owner, 64, capacity));
  hk_block_t *active = Alloc(heaps.owner, 64);
  RemoteFreeAll(heaps.other, spans[0]);                                             /* full to empty */
  for (unsigned i = 0; i < capacity - 1; i++) RemoteFree(heaps.other, spans[1][i]); /* full to partial */
  RemoteFree(heaps.other, spans[2][0]);                                             /* full, and stays full */
  for (unsigned i = 0; i < WorthOf(64); i++) (void)FreeOwn(heaps.owner, spans[3][i]);
  for (unsigned i = WorthOf(64); i < capacity; i++) RemoteFree(heaps.other, spans[3][i]); /* partial to empty */
  RemoteFree(heaps.other, active);
  hk_remote_flush(heaps.other);
  Drain(heaps.owner);

  EXPECT_EQ(hk_slab_state(SpanOf(spans[0][0])), hk_slab_free);
  CheckSpan(heaps.owner, SpanOf(spans[1][0]), 1);
  CheckSpan(heaps.owner, SpanOf(spans[2][0]), capacity - 1);
  EXPECT_EQ(hk_slab_state(SpanOf(spans[3][0])), hk_slab_free);
  CheckSpan(heaps.owner, SpanOf(active), 0);
  EXPECT_EQ(InUseSlabs(), 3u);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 3 * capacity + 1 - WorthOf(64));
}

// More than the bin has room for: it is spilled while the chain is taken, and spans whose blocks are all free are
// released while others of the chain wait.
HK_FRESH_TEST(Remote, OneDrainServesMidSpansInEveryState) {
  hk_option.spare_slabs = 0;
  Heaps heaps;
  for (unsigned class_index : {66u, 80u, 93u, 104u}) {
    SCOPED_TRACE(class_index);
    unsigned capacity = CapacityOf(class_index);
    std::vector<Blocks> spans;
    for (int i = 0; i < 12; i++) spans.push_back(AllocMany(heaps.owner, class_index, capacity));
    hk_block_t *active = Alloc(heaps.owner, class_index);
    std::map<hk_slab_t *, unsigned> held = {{SpanOf(active), 1}};
    size_t freed = 0;
    for (unsigned i = 0; i < spans.size(); i++) {
      unsigned keep = i % 3; /* of every third span all blocks are freed */
      for (unsigned k = keep; k < capacity; k++) RemoteFree(heaps.other, spans[i][k]);
      freed += capacity - keep;
      if (keep > 0) held[SpanOf(spans[i][0])] = keep;
    }
    hk_remote_flush(heaps.other);
    uint64_t drained = StatOf(heaps.owner, hk_stat_remote_drain);
    Drain(heaps.owner);
    EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain) - drained, freed);
    CheckMidBin(heaps.owner, class_index);
    for (const auto &[span, live] : held) CheckSpan(heaps.owner, span, live);
    hk_mid_spill_all(heaps.owner);
    for (const auto &[span, live] : held) CheckSpan(heaps.owner, span, live);
    EXPECT_EQ(InUseSlabs(), held.size() * hk_class_span_slabs(class_index));
    for (unsigned i = 0; i < spans.size(); i++) {
      for (unsigned k = 0; k < i % 3; k++) RemoteFree(heaps.other, spans[i][k]);
    }
    RemoteFree(heaps.other, active);
    hk_remote_flush(heaps.other);
    Drain(heaps.owner);
    hk_mid_spill_all(heaps.owner);
    ASSERT_EQ(InUseSlabs(), 0u);
  }
}

HK_FRESH_TEST(Remote, WhatComesHomeIsNotFresh) {
  Heaps heaps;
  hk_block_t *tiny = Alloc(heaps.owner, 4), *mid = Alloc(heaps.owner, 80);
  ASSERT_TRUE(hk_bin_is_fresh(&heaps.owner->bin[4]));
  RemoteFree(heaps.other, tiny);
  RemoteFree(heaps.other, mid);
  hk_remote_flush(heaps.other);
  while (Pop(heaps.owner, 80) != nullptr) {
  }
  ASSERT_TRUE(hk_refill(heaps.owner, 80, nullptr));
  EXPECT_EQ(heaps.owner->bin[80].free, mid) << "that is where it comes from";
  EXPECT_FALSE(hk_heap_was_fresh(heaps.owner, 80));
  EXPECT_FALSE(hk_bin_is_fresh(&heaps.owner->bin[4]));
}

// ---- Heaps that no thread has.

HK_FRESH_TEST(Remote, AnIdleHeapIsDrainedByAnyCaller) {
  hk_option.spare_slabs = 4;
  Heaps heaps;
  Blocks blocks = AllocMany(heaps.owner, 64, 2 * CapacityOf(64) + 1);
  hk_remote_drain_idle();
  hk_heap_give_back(heaps.owner);
  hk_remote_drain_idle(); /* nothing waits there */
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 0u);
  RemoteFreeAll(heaps.other, blocks);
  hk_remote_flush(heaps.other);
  hk_remote_drain_idle();
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), blocks.size());
  EXPECT_EQ(InUseSlabs(), 1u) << "the active span stays; spare slabs without a use do not";
  EXPECT_EQ(heaps.owner->spare_slabs, 0u);
  EXPECT_EQ(hk_load_relaxed(&heaps.owner->life), hk_heap_idle);
  EXPECT_FALSE(hk_load_relaxed(&heaps.owner->is_busy));
  EXPECT_EQ(hk_heap_take(), heaps.owner);
}

HK_FRESH_TEST(Remote, OneOfManyIdleHeapsIsLeftWithNothingFree) {
  for (unsigned idle : {HK_POOL_WARM - 1u, HK_POOL_WARM + 0u}) { /* beside it */
    SCOPED_TRACE(idle);
    Heaps heaps;
    std::vector<hk_heap_t *> others;
    for (unsigned i = 0; i < idle; i++) others.push_back(hk_heap_take());
    size_t before = InUseSlabs();
    RemoteFreeAll(heaps.other, AllocMany(heaps.owner, 64, 2 * CapacityOf(64) + 1));
    hk_remote_flush(heaps.other);
    while (hk_block_t *block = Pop(heaps.owner, 64)) RemoteFree(heaps.other, block);
    hk_remote_flush(heaps.other);
    for (hk_heap_t *heap : others) hk_heap_give_back(heap);
    hk_heap_give_back(heaps.owner);
    hk_remote_drain_idle();
    EXPECT_EQ(InUseSlabs() - before, idle >= HK_POOL_WARM ? 0u : 1u);
    EXPECT_EQ(heaps.owner->state[64].active.load() != nullptr, idle < HK_POOL_WARM);
    EXPECT_EQ(heaps.owner->spare_slabs, 0u);
    for (unsigned i = 0; i <= idle; i++) (void)hk_heap_take();
  }
}

HK_FRESH_TEST(Remote, AHeapThatAThreadHasIsLeftToIt) {
  Heaps heaps;
  RemoteFreeAll(heaps.other, AllocMany(heaps.owner, 64, 3));
  hk_remote_flush(heaps.other);
  hk_remote_drain_idle();
  EXPECT_EQ(IncomingLength(heaps.owner), 3u);
}

// A heap that grows drains idle heaps: blocks of mid classes in an idle heap's bins do not hold back its empty
// spans.
HK_FRESH_TEST(Remote, ADrainedIdleHeapKeepsNoMidSpanWithoutABlockInUse) {
  for (unsigned class_index : {66u, 88u, 104u}) {
    SCOPED_TRACE(class_index);
    Heaps heaps;
    size_t before = InUseSlabs();
    Blocks blocks = AllocMany(heaps.owner, class_index, 2 * CapacityOf(class_index));
    hk_mid_spill_all(heaps.owner); /* as at its thread's end */
    hk_heap_give_back(heaps.owner);
    RemoteFreeAll(heaps.other, blocks);
    hk_remote_flush(heaps.other);
    hk_remote_drain_idle();
    EXPECT_EQ(InUseSlabs(), before);
    EXPECT_EQ(hk_heap_take(), heaps.owner);
  }
}

// calloc must clear what such a heap gives first, though it is no refill that gives it.
HK_FRESH_TEST(Remote, WhatAnIdleHeapTookBackIsNotFreshForTheNextThread) {
  Heaps heaps;
  Blocks blocks = AllocMany(heaps.owner, 65, 6);
  ASSERT_TRUE(hk_heap_was_fresh(heaps.owner, 65)) << "it was carved just now";
  hk_mid_spill_all(heaps.owner); /* as at its thread's end */
  hk_heap_give_back(heaps.owner);
  RemoteFreeAll(heaps.other, Blocks(blocks.begin(), blocks.begin() + 5));
  hk_remote_flush(heaps.other);
  hk_remote_drain_idle();
  ASSERT_EQ(hk_heap_take(), heaps.owner);
  if (Pop(heaps.owner, 65) != nullptr) EXPECT_FALSE(hk_heap_was_fresh(heaps.owner, 65));
}

}  // namespace
