// heap/steal: blocks that are on their way while their span moves, misuse, and fork.
#include "fresh_test.h"
#include "unit/steal_driver.h"

using namespace hk_test;

namespace {

void RemoteFreeAll(hk_heap_t *heap, const Blocks &blocks) {
  for (hk_block_t *block : blocks) hk_remote_free(heap, hk_slab_of(block), block);
}

// ---- Blocks under way.

// A span whose blocks are handed out, and the heap it belongs to is about to lose its thread.
struct UnderWay : Heaps {
  explicit UnderWay(unsigned class_index) : blocks(AllocMany(giver, class_index, 4)), span(SpanOf(blocks[0])) {
    for (hk_block_t *block : PopAll(giver, class_index)) blocks.push_back(block);
  }
  unsigned Live() const { return static_cast<unsigned>(blocks.size()); }
  void Move() {
    HeldBack held(giver);
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
  EXPECT_EQ(StatOf(way.giver, hk_stat_remote_drain), 0u) << "they were not collected there";
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
    hk_remote_flush(way.third); /* the sender drains an idle heap */
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
    Free(way.taker, way.blocks[2]);
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
    Free(way.giver, way.blocks[1]);
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
    {
      HeldBack of_giver(way.giver), of_taker(way.taker);
      hk_heap_give_back(way.taker);
      ASSERT_TRUE(Steal(last, class_index));
    }
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

// The thief sends the blocks of that span in its outbox before it looks for one.
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

// A purge sends on the blocks that it finds: nothing waits in an idle heap.
HK_FRESH_TEST(StealUnderWay, APurgeTakesBackWhatWaitsForTheOldOwner) {
  for (unsigned class_index : kWithRoom) {
    SCOPED_TRACE(class_index);
    UnderWay way(class_index);
    for (hk_block_t *block : way.blocks) hk_remote_free_now(way.span, block);
    way.Move();
    hk_thread_heap = way.taker;
    (void)hk_process_purge(0);
    EXPECT_EQ(InUseSlabs(), 0u);
    for (const hk_batch_t &batch : way.giver->outbox) EXPECT_EQ(batch.owner, nullptr);
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
  const hk_forker_t forker = {nullptr, mine, mine};
  hk_orphan_settle_all(&forker);
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
  const hk_forker_t forker = {nullptr, mine, mine};
  hk_orphan_settle_all(&forker);
  EXPECT_EQ(hk_heap_count(hk_heap_lost), 1u);
  ASSERT_TRUE(Steal(mine, 4));
  EXPECT_FALSE(hk_bin_is_fresh(&mine->bin[4])) << "a vanished thread's lists are not known to be";
  CheckSpan(mine, SpanOf(held), 1);
}

}  // namespace
