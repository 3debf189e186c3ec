// heap/purge_drain: spans whose blocks all wait for a thread that sleeps: which are given back, and which stay as they
// are.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/purge_drain_driver.h"

using namespace hk_test;

namespace {

constexpr unsigned kTiny = 64, kSmallest = 1, kMid = 80;
constexpr unsigned kSome[] = {kSmallest, 2, 33, kTiny, 66, kMid, 104};

// ---- Spans that are given back.

HK_FRESH_TEST(PurgeDrain, ASpanOfEachClassIsGivenBack) {
  Heaps heaps;
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    FullSpan full(heaps.owner, i);
    heaps.Send(full.blocks);
    size_t in_use = InUseSlabs();
    uint32_t slabs = hk_class_span_slabs(i), owned = heaps.owner->span_slabs;
    uint64_t released = ProcessStat(hk_stat_slab_release), home = ProcessStat(hk_stat_remote_drain);
    DrainAll();
    ASSERT_EQ(InUseSlabs(), in_use - slabs) << "class " << i;
    ASSERT_TRUE(IsGivenBack(full.span, slabs)) << "class " << i;
    ASSERT_FALSE(hk_heap_has_incoming(heaps.owner));
    ASSERT_EQ(ProcessStat(hk_stat_slab_release), released + 1);
    ASSERT_EQ(ProcessStat(hk_stat_remote_drain), home + full.blocks.size());
    ASSERT_EQ(hk_load_relaxed(&heaps.owner->shared.drained_slabs), slabs);
    ASSERT_EQ(heaps.owner->span_slabs, owned) << "which is the owner's to change";
    Drain(heaps.owner);
    ASSERT_EQ(heaps.owner->span_slabs, owned - slabs);
    ASSERT_EQ(hk_load_relaxed(&heaps.owner->shared.drained_slabs), 0u);
    CheckSpan(heaps.owner, SpanOf(full.others[0]), 1);
  }
}

HK_FRESH_TEST(PurgeDrain, TheSlabsServeAgain) {
  Heaps heaps;
  for (int round = 0; round < 5; round++) {
    for (unsigned i : kSome) {
      FullSpan full(heaps.owner, i);
      heaps.Send(full.blocks);
      DrainAll();
      ASSERT_TRUE(IsGivenBack(full.span, hk_class_span_slabs(i)));
      for (hk_block_t *block : full.others) (void)FreeOwn(heaps.owner, block);
    }
  }
  Drain(heaps.owner);
  hk_heap_flush(heaps.owner);
  EXPECT_EQ(heaps.owner->span_slabs, 0u);
  EXPECT_EQ(InUseSlabs(), 0u);
}

HK_FRESH_TEST(PurgeDrain, WhatServesAgainIsNotTakenForZero) {
  Heaps heaps;
  FullSpan full(heaps.owner, kTiny);
  heaps.Send(full.blocks);
  DrainAll();
  EXPECT_FALSE(full.span->is_zero);
}

HK_FRESH_TEST(PurgeDrain, OfOneChainWhatCanAndWhatCannotBe) {
  Heaps heaps;
  std::vector<FullSpan> whole, parts;
  for (unsigned i : kSome) {
    whole.emplace_back(heaps.owner, i);
    parts.emplace_back(heaps.owner, i);
  }
  size_t most = CapacityOf(kSmallest), waiting = 0;
  for (size_t n = 0; n < most; n++) {
    for (size_t i = 0; i < whole.size(); i++) {
      if (n < whole[i].blocks.size()) heaps.Send({whole[i].blocks[n]});
      if (n > 0 && n < parts[i].blocks.size()) heaps.Send({parts[i].blocks[n]}), waiting++;
    }
  }
  DrainAll();
  for (const FullSpan &full : whole) EXPECT_EQ(hk_slab_state(full.span), hk_slab_free);
  ExpectWaiting(heaps.owner, waiting);
  Drain(heaps.owner);
  for (const FullSpan &full : parts) {
    hk_mid_spill_all(heaps.owner);
    CheckSpan(heaps.owner, full.span, 1);
  }
}

HK_FRESH_TEST(PurgeDrain, OfEachHeap) {
  Heaps heaps;
  std::vector<hk_heap_t *> owners = TakeMany(3);
  std::vector<FullSpan> full;
  full.reserve(owners.size());
  for (hk_heap_t *owner : owners) full.emplace_back(owner, kTiny);
  for (const FullSpan &each : full) heaps.Send(each.blocks);
  DrainAll();
  for (const FullSpan &each : full) EXPECT_TRUE(IsGivenBack(each.span, 1));
}

// ---- What stays.

HK_FRESH_TEST(PurgeDrainKeeps, TheSpanThatItsBinAllocatesFrom) {
  for (unsigned i : kSome) {
    Heaps heaps;
    Blocks blocks = AllocMany(heaps.owner, i, CapacityOf(i));
    hk_slab_t *span = SpanOf(blocks[0]);
    ASSERT_TRUE(IsActive(heaps.owner, span));
    heaps.Send(blocks);
    DrainAll();
    ExpectWaiting(heaps.owner, blocks.size());
    EXPECT_EQ(hk_load_relaxed(&span->owner), heaps.owner);
    ASSERT_NE(Alloc(heaps.owner, i), nullptr);
    CheckSpan(heaps.owner, span, 1);
  }
}

// It is in the list of those that are worth allocating from.
HK_FRESH_TEST(PurgeDrainKeeps, ASpanThatIsNotCarvedCompletely) {
  Heaps heaps;
  ASSERT_TRUE(hk_refill(heaps.owner, kTiny, nullptr));
  Blocks blocks = PopAll(heaps.owner, kTiny);
  hk_slab_t *span = SpanOf(blocks[0]);
  hk_list_init(&heaps.owner->state[kTiny].partial);
  hk_span_deactivate(heaps.owner, kTiny);
  ASSERT_TRUE(IsPartial(heaps.owner, span));
  heaps.Send(blocks);
  DrainAll();
  ExpectWaiting(heaps.owner, blocks.size());
  ASSERT_EQ(hk_slab_state(span), hk_slab_small);
  Drain(heaps.owner);
  EXPECT_EQ(InUseSlabs(), heaps.owner->spare_slabs + ReservedSlabs(heaps.owner));
}

HK_FRESH_TEST(PurgeDrainKeeps, ASpanWithABlockInUse) {
  for (unsigned i : kSome) {
    Heaps heaps;
    FullSpan full(heaps.owner, i);
    heaps.Send(AllBut(full.blocks, 1));
    for (int round = 0; round < 3; round++) {
      heaps.owner->drain.put_back = nullptr; /* as if it had never been looked at */
      DrainAll();
      ExpectWaiting(heaps.owner, full.blocks.size() - 1);
    }
    heaps.Send({full.blocks[0]});
    DrainAll();
    EXPECT_TRUE(IsGivenBack(full.span, hk_class_span_slabs(i))) << "the last one has come";
  }
}

HK_FRESH_TEST(PurgeDrainKeeps, ASpanWithABlockAtHome) {
  for (unsigned i : kSome) {
    Heaps heaps;
    FullSpan full(heaps.owner, i);
    (void)FreeOwn(heaps.owner, full.blocks[0]);
    heaps.Send(AllBut(full.blocks, 1));
    DrainAll();
    ExpectWaiting(heaps.owner, full.blocks.size() - 1);
    Drain(heaps.owner);
    hk_mid_spill_all(heaps.owner);
    EXPECT_EQ(hk_slab_state(full.span), hk_slab_free) << "by the owner";
  }
}

// The old owner's chain has most of its blocks, the new one's the others.
HK_FRESH_TEST(PurgeDrainKeeps, ASpanThatHasMoved) {
  Heaps heaps;
  hk_heap_t *thief = hk_heap_take();
  Blocks blocks = AllocMany(heaps.owner, kTiny, CapacityOf(kTiny));
  hk_slab_t *span = SpanOf(blocks.back());
  hk_block_t *at_home = blocks[0];
  (void)FreeOwn(heaps.owner, at_home);
  heaps.Send(AllBut(blocks, 2));
  {
    HeldBack held(heaps.owner);
    hk_heap_give_back(heaps.owner);
    ASSERT_TRUE(hk_steal_span(thief, kTiny));
    ASSERT_EQ(hk_load_relaxed(&span->owner), thief);
    ASSERT_TRUE(hk_heap_take_this(heaps.owner));
  }
  ASSERT_EQ(Alloc(thief, kTiny), at_home);
  (void)Alloc(thief, kTiny); /* of another span */
  ASSERT_FALSE(IsActive(thief, span));
  heaps.Send({blocks[0], blocks[1]});
  DrainAll();
  ExpectWaiting(heaps.owner, blocks.size() - 2);
  ExpectWaiting(thief, 2);
  Drain(heaps.owner); /* which sends them on */
  hk_remote_flush(heaps.owner);
  DrainAll();
  EXPECT_TRUE(IsGivenBack(span, 1)) << "by the new owner's chain";
  EXPECT_EQ(hk_load_relaxed(&thief->shared.drained_slabs), 1u);
  EXPECT_EQ(heaps.owner->span_slabs, 0u);
}

HK_FRESH_TEST(PurgeDrainKeeps, WhatWaitsForAHeapThatNoThreadHas) {
  for (hk_heap_life_t life : {hk_heap_idle, hk_heap_orphan, hk_heap_lost}) {
    Heaps heaps;
    FullSpan full(heaps.owner, kTiny);
    heaps.Send(full.blocks);
    hk_store_relaxed(&heaps.owner->life, static_cast<uint8_t>(life));
    const hk_block_t *first = hk_load_relaxed(&heaps.owner->shared.incoming);
    DrainAll();
    EXPECT_EQ(hk_load_relaxed(&heaps.owner->shared.incoming), first);
    ExpectWaiting(heaps.owner, full.blocks.size());
    EXPECT_EQ(hk_purge_drain_next_due(kNow, 0), UINT64_MAX);
  }
}

// A child of fork whose parent was counting, and a span that moved meanwhile: the count that is left belongs to no
// round.
HK_FRESH_TEST(PurgeDrainKeeps, ACountOfAnEarlierRoundIsNone) {
  Heaps heaps;
  FullSpan full(heaps.owner, kTiny);
  heaps.Send({full.blocks[0], full.blocks[1]});
  DrainAll();
  for (uint16_t left : {uint16_t{1}, uint16_t{2}, uint16_t{UINT16_MAX - 1}, uint16_t{UINT16_MAX}}) {
    full.span->drain_count = left;
    heaps.owner->drain.put_back = nullptr;
    DrainAll();
    ExpectWaiting(heaps.owner, 2);
  }
  heaps.Send(AllBut(full.blocks, 4));
  full.span->drain_count = 2;
  DrainAll();
  ExpectWaiting(heaps.owner, full.blocks.size() - 2);
  ASSERT_EQ(hk_slab_state(full.span), hk_slab_small) << "two blocks are in use";
}

// ---- When.

HK_FRESH_TEST(PurgeDrainTime, NotBeforeTheThreadHasBeenAsleepForSoLong) {
  Heaps heaps;
  FullSpan full(heaps.owner, kTiny);
  EXPECT_EQ(hk_purge_drain_next_due(500, 400), UINT64_MAX) << "nothing waits";
  heaps.Send(full.blocks);
  EXPECT_EQ(hk_purge_drain_next_due(1000, 400), 1400u);
  EXPECT_EQ(hk_purge_drain(1399, 400), nullptr);
  EXPECT_EQ(hk_purge_drain_next_due(1399, 400), 1400u);
  ASSERT_NE(Alloc(heaps.owner, kMid), nullptr); /* which drains; and a new chain */
  heaps.Send(FullSpan(heaps.owner, kTiny).blocks);
  EXPECT_EQ(hk_purge_drain(1400, 400), nullptr);
  EXPECT_TRUE(hk_heap_has_incoming(heaps.owner)) << "it was awake";
  EXPECT_EQ(hk_purge_drain_next_due(1400, 400), 1800u);
  EXPECT_EQ(hk_purge_drain(1800, 400), nullptr);
  EXPECT_FALSE(hk_heap_has_incoming(heaps.owner));
  EXPECT_EQ(hk_purge_drain_next_due(1800, 400), UINT64_MAX);
}

void ExpectEarliest(bool is_newest) {
  Heaps heaps;
  hk_heap_t *second = hk_heap_take();
  FullSpan early(is_newest ? second : heaps.owner, kTiny), late(is_newest ? heaps.owner : second, kTiny);
  heaps.Send(early.blocks);
  EXPECT_EQ(hk_purge_drain_next_due(1000, 400), 1400u);
  heaps.Send(late.blocks);
  EXPECT_EQ(hk_purge_drain_next_due(1100, 400), 1400u);
  EXPECT_EQ(hk_purge_drain(1400, 400), nullptr);
  EXPECT_EQ(hk_purge_drain_next_due(1400, 400), 1500u);
  EXPECT_EQ(hk_purge_drain_next_due(UINT64_MAX - 1, UINT64_MAX), UINT64_MAX) << "no time comes after";
}

HK_FRESH_TEST(PurgeDrainTime, TheEarliestOfSeveralIsDue) { ExpectEarliest(false); }
HK_FRESH_TEST(PurgeDrainTime, TheEarliestOfSeveralIsDueAlsoOfTheNewestHeap) { ExpectEarliest(true); }

// However long it has slept: each time costs a walk along all that waits.
HK_FRESH_TEST(PurgeDrainTime, NotAgainBeforeItHasSleptForSoLongSinceThen) {
  Heaps heaps;
  FullSpan full(heaps.owner, kTiny);
  heaps.Send(AllBut(full.blocks, 1));
  EXPECT_EQ(hk_purge_drain_next_due(1000, 400), 1400u);
  EXPECT_EQ(hk_purge_drain(1700, 400), nullptr);
  heaps.Send({full.blocks[0]});
  EXPECT_EQ(hk_purge_drain_next_due(1701, 400), 2100u);
  EXPECT_EQ(hk_purge_drain(2099, 400), nullptr);
  EXPECT_EQ(hk_slab_state(full.span), hk_slab_small);
  EXPECT_EQ(hk_purge_drain(2100, 400), nullptr);
  EXPECT_EQ(hk_slab_state(full.span), hk_slab_free);
}

HK_FRESH_TEST(PurgeDrainTime, WhatWasPutBackIsNotLookedAtAgain) {
  Heaps heaps;
  FullSpan full(heaps.owner, kTiny);
  heaps.Send(AllBut(full.blocks, 1));
  DrainAll();
  const hk_block_t *first = hk_load_relaxed(&heaps.owner->shared.incoming);
  EXPECT_EQ(hk_purge_drain_next_due(kNow, 400), UINT64_MAX);
  EXPECT_EQ(hk_purge_drain(kNow + 5000, 0), nullptr);
  EXPECT_EQ(hk_load_relaxed(&heaps.owner->shared.incoming), first) << "the order would have changed";
  heaps.Send({full.blocks[0]});
  EXPECT_EQ(hk_purge_drain_next_due(kNow + 100, 400), kNow + 400);
  EXPECT_EQ(hk_purge_drain(kNow + 400, 400), nullptr);
  EXPECT_FALSE(hk_heap_has_incoming(heaps.owner));
}

HK_FRESH_TEST(PurgeDrainTime, AfterALongWalkItRests) {
  Heaps heaps;
  FullSpan full(heaps.owner, kTiny);
  heaps.Send(AllBut(full.blocks, 1));
  fake_os_set_clock_step(100 * uint64_t{1000000});
  DrainAll();
  fake_os_set_clock_step(0);
  heaps.Send({full.blocks[0]});
  EXPECT_EQ(hk_purge_drain_next_due(kNow + 100, 400), kNow + 800 + 400);
}

// By chance: the block was collected, was in use again, and came last. The blocks behind it were never looked at.
void ExpectLookedAt(bool by_a_refill) {
  Heaps heaps;
  FullSpan full(heaps.owner, kMid);
  ASSERT_TRUE(hk_refill(heaps.owner, kTiny, nullptr));
  heaps.Send(PopAll(heaps.owner, kTiny));
  DrainAll();
  hk_block_t *first = hk_load_relaxed(&heaps.owner->shared.incoming);
  ASSERT_NE(first, HK_LIST_END) << "its span is active";
  if (by_a_refill) {
    (void)Alloc(heaps.owner, 2);
  } else {
    Drain(heaps.owner); /* as hakmem_collect does */
  }
  Blocks again = PopAll(heaps.owner, kTiny);
  ASSERT_EQ(std::count(again.begin(), again.end(), first), 1);
  heaps.Send(full.blocks);
  heaps.Send({first});
  ASSERT_EQ(hk_load_relaxed(&heaps.owner->shared.incoming), first);
  EXPECT_EQ(hk_purge_drain_next_due(kNow, 0), kNow);
  DrainAll();
  EXPECT_EQ(hk_slab_state(full.span), hk_slab_free);
}

HK_FRESH_TEST(PurgeDrainTime, TheSameBlockFirstAgainAfterARefillIsAnotherChain) { ExpectLookedAt(true); }
HK_FRESH_TEST(PurgeDrainTime, TheSameBlockFirstAgainAfterADrainIsAnotherChain) { ExpectLookedAt(false); }

// ---- Misuse.

HK_FRESH_TEST(PurgeDrainDamage, ABlockInTwoChainsIsTakenOnce) {
  Heaps heaps;
  hk_heap_t *third = hk_heap_take();
  FullSpan full(heaps.owner, kTiny);
  hk_block_t *twice = full.blocks[0];
  hk_remote_free(heaps.other, full.span, full.blocks[1]);
  hk_remote_free(heaps.other, full.span, twice);
  hk_remote_free(third, full.span, full.blocks[2]);
  hk_remote_free(third, full.span, twice);
  hk_remote_flush(heaps.other);
  hk_remote_flush(third);
  EXPECT_EQ(hk_purge_drain(kNow, 0), twice);
  ASSERT_LE(IncomingLength(heaps.owner), 3u) << "no ring";
  Drain(heaps.owner);
  EXPECT_EQ(hk_slab_state(full.span), hk_slab_small);
}

// The owner frees it while it is in another thread's batch: its link leads to blocks that its owner has already.
HK_FRESH_TEST(PurgeDrainDamage, ABlockThatIsHomeAlreadyLeadsNowhere) {
  for (size_t in_front : {0, 1, 3}) {
    Heaps heaps;
    FullSpan full(heaps.owner, kTiny);
    (void)FreeOwn(heaps.owner, full.blocks[10]);
    (void)FreeOwn(heaps.owner, full.blocks[11]);
    hk_remote_free(heaps.other, full.span, full.blocks[0]);
    hk_remote_free(heaps.other, full.span, full.blocks[1]);
    (void)FreeOwn(heaps.owner, full.blocks[1]);
    for (size_t i = 0; i < in_front; i++) hk_remote_free(heaps.other, full.span, full.blocks[20 + i]);
    hk_remote_flush(heaps.other);
    EXPECT_EQ(hk_purge_drain(kNow, 0), full.blocks[1]);
    ExpectWaiting(heaps.owner, in_front);
    EXPECT_EQ(ListLength(full.span->own.free), 3u) << "collected blocks stay in their span";
  }
}

#if HK_SAFETY

HK_FRESH_TEST(PurgeDrainDamage, WhatWasSentBeforeADamagedBlockIsLost) {
  for (size_t damaged : {size_t{0}, size_t{5}, CapacityOf(kTiny) - size_t{1}}) {
    Heaps heaps;
    FullSpan full(heaps.owner, kTiny);
    heaps.Send(full.blocks);
    full.blocks[damaged]->seal ^= 1;
    EXPECT_EQ(hk_purge_drain(kNow, 0), full.blocks[damaged]);
    EXPECT_EQ(hk_purge_drain(kNow, 0), nullptr) << "it is told of once";
    ExpectWaiting(heaps.owner, full.blocks.size() - 1 - damaged); /* the last one sent is the first */
    Drain(heaps.owner);
    if (damaged + 1 < full.blocks.size()) CheckSpan(heaps.owner, full.span, static_cast<unsigned>(damaged) + 1);
  }
}

HK_FRESH_TEST(PurgeDrainDamage, AnotherSpanInFrontIsGivenBackAllTheSame) {
  Heaps heaps;
  FullSpan behind(heaps.owner, kTiny), before(heaps.owner, kMid);
  heaps.Send(behind.blocks);
  heaps.Send(before.blocks);
  behind.blocks[7]->next = nullptr;
  EXPECT_EQ(hk_purge_drain(kNow, 0), behind.blocks[7]);
  EXPECT_EQ(hk_slab_state(before.span), hk_slab_free);
  EXPECT_EQ(hk_slab_state(behind.span), hk_slab_small);
}

#endif

}  // namespace
