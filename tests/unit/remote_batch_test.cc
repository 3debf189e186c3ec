// heap/remote: batches of blocks on their way to the owner.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "fresh_test.h"
#include "test_random.h"
#include "unit/remote_driver.h"

using namespace hk_test;

namespace {

bool IsMarked(const hk_block_t *block) { return (reinterpret_cast<uintptr_t>(block->next) & 1) != 0; }

// The blocks that wait for the owner, in the order in which it will collect them.
Blocks IncomingOf(hk_heap_t *owner) {
  Blocks blocks;
  hk_block_t *block = hk_load_relaxed(&owner->shared.incoming);
  for (; block != HK_LIST_END && blocks.size() < 100000; block = hk_remote_next(block->next)) blocks.push_back(block);
  return blocks;
}

// ---- Batches.

size_t WeightOf(unsigned class_index) { return std::max<size_t>(hk_class_bytes(class_index), HK_BATCH_MIN_BLOCK); }

// How many blocks of a class a batch has, from a heap that has little itself.
size_t BatchOf(unsigned class_index) {
  return (HK_BATCH_FIRST_BYTES + WeightOf(class_index) - 1) / WeightOf(class_index);
}

HK_FRESH_TEST(Remote, AFullBatchGoesHomeByItself) {
  Heaps heaps;
  for (size_t size : {16, 112, 128}) EXPECT_EQ(BatchOf(hk_class_of(size)), 256u) << "the smallest are counted";
  EXPECT_EQ(BatchOf(hk_class_of(144)), 228u) << "others are weighed";
  EXPECT_EQ(BatchOf(hk_class_of(1024)), 32u);
  EXPECT_EQ(BatchOf(hk_class_of(5 * HK_KIB)), 7u);
  EXPECT_EQ(BatchOf(HK_CLASS_COUNT - 1), 1u);
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    size_t batch = BatchOf(class_index);
    uint64_t batches = StatOf(heaps.other, hk_stat_remote_batch), frees = StatOf(heaps.other, hk_stat_remote_free);
    Blocks blocks = AllocMany(heaps.owner, class_index, batch);
    for (size_t i = 0; i < batch; i++) {
      ASSERT_FALSE(hk_heap_has_incoming(heaps.owner)) << i;
      ASSERT_EQ(StatOf(heaps.other, hk_stat_remote_batch), batches);
      RemoteFree(heaps.other, blocks[i]);
    }
    Blocks expected(blocks.rbegin(), blocks.rend());
    EXPECT_EQ(IncomingOf(heaps.owner), expected);
    EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), batches + 1);
    EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_free), frees + batch);
    Drain(heaps.owner);
  }
}

// A heap that has much holds back more: a sixteenth of its memory, between bounds.
HK_FRESH_TEST(Remote, AHeapThatHasMuchSendsLargerBatches) {
  Heaps heaps;
  ASSERT_EQ(hk_class_bytes(64), HK_KIB);
  size_t spans = 0;
  for (auto [has, batch] :
       std::map<size_t, size_t>{{0, 32}, {8, 32}, {9, 36}, {20, 80}, {63, 252}, {64, 256}, {90, 256}}) {
    SCOPED_TRACE(has);
    for (; spans < has; spans++) (void)AllocMany(heaps.other, 64, CapacityOf(64));
    ASSERT_EQ(heaps.other->span_slabs, has);
    Blocks blocks = AllocMany(heaps.owner, 64, batch);
    for (hk_block_t *block : blocks) {
      ASSERT_FALSE(hk_heap_has_incoming(heaps.owner));
      RemoteFree(heaps.other, block);
    }
    EXPECT_EQ(IncomingLength(heaps.owner), batch);
    Drain(heaps.owner);
  }
}

// Sent to a heap without a thread: the sender drains it.
HK_FRESH_TEST(Remote, WhatIsSentToAnIdleHeapIsTakenUpAtOnce) {
  Heaps heaps;
  Blocks blocks = AllocMany(heaps.owner, 64, 3);
  hk_slab_t *span = SpanOf(blocks[0]);
  hk_heap_give_back(heaps.owner);
  RemoteFree(heaps.other, blocks[0]);
  hk_remote_flush(heaps.other);
  EXPECT_EQ(IncomingLength(heaps.owner), 0u);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 1u);
  hk_remote_free_now(span, blocks[1]);
  EXPECT_EQ(IncomingLength(heaps.owner), 0u);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 2u);
  CheckSpan(heaps.owner, span, 1);
  EXPECT_EQ(hk_heap_life(heaps.owner), hk_heap_idle);
  EXPECT_FALSE(hk_load_relaxed(&heaps.owner->is_busy));
  EXPECT_FALSE(heaps.owner->is_visited);
}

HK_FRESH_TEST(Remote, ABlockWeighsItsBytesAndASmallOneMore) {
  Heaps heaps;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    size_t bytes = hk_class_bytes(class_index), weight = bytes < 128 ? 128 : bytes;
    Blocks blocks = AllocMany(heaps.owner, class_index, 3);
    size_t total = 0;
    for (size_t i = 0; i < blocks.size() && total + weight < 32 * HK_KIB; i++) {
      RemoteFree(heaps.other, blocks[i]);
      total += weight;
      size_t in_outbox = 0;
      for (const hk_batch_t &batch : heaps.other->outbox) {
        if (batch.owner == heaps.owner) in_outbox += 32 * HK_KIB - batch.left_bytes;
      }
      ASSERT_EQ(in_outbox, total) << i;
    }
    hk_remote_flush(heaps.other);
    Drain(heaps.owner);
  }
}

// One batch for all that the owner has: small blocks fill it together with large ones.
HK_FRESH_TEST(Remote, BlocksOfAllClassesShareABatch) {
  Heaps heaps;
  TestRandom random(1);
  for (int round = 0; round < 200; round++) {
    size_t weight = 0;
    Blocks freed;
    while (weight < HK_BATCH_FIRST_BYTES) {
      ASSERT_FALSE(hk_heap_has_incoming(heaps.owner));
      unsigned class_index = static_cast<unsigned>(random.OneIn(4) ? random.Between(65, 104) : random.Between(1, 70));
      freed.push_back(Alloc(heaps.owner, class_index));
      weight += WeightOf(class_index);
      RemoteFree(heaps.other, freed.back());
    }
    std::reverse(freed.begin(), freed.end());
    ASSERT_EQ(IncomingOf(heaps.owner), freed);
    ASSERT_EQ(StatOf(heaps.other, hk_stat_remote_batch), round + 1u);
    Drain(heaps.owner);
  }
}

HK_FRESH_TEST(Remote, ABatchHoldsBlocksOfManySpans) {
  Heaps heaps;
  Blocks blocks;
  std::set<hk_slab_t *> spans;
  for (int i = 0; i < 10; i++) {
    blocks.push_back(AllocMany(heaps.owner, 64, CapacityOf(64)).back());
    spans.insert(SpanOf(blocks.back()));
  }
  ASSERT_EQ(spans.size(), 10u);
  RemoteFreeAll(heaps.other, blocks);
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), 0u) << "what belongs to one owner goes together";
  hk_remote_flush(heaps.other);
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), 1u);
  EXPECT_EQ(IncomingLength(heaps.owner), 10u);
}

HK_FRESH_TEST(Remote, FlushSendsWhatWaits) {
  Heaps heaps;
  Blocks blocks = AllocMany(heaps.owner, 4, 5);
  RemoteFreeAll(heaps.other, blocks);
  EXPECT_FALSE(hk_heap_has_incoming(heaps.owner));
  hk_remote_flush(heaps.other);
  EXPECT_EQ(IncomingLength(heaps.owner), 5u);
  EXPECT_TRUE(hk_heap_has_incoming(heaps.owner));
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), 1u);
  hk_remote_flush(heaps.other);
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), 1u) << "nothing waits any more";
  EXPECT_EQ(IncomingLength(heaps.owner), 5u);
}

HK_FRESH_TEST(Remote, NothingIsSentTwice) {
  Heaps heaps;
  for (unsigned class_index : {4u, 64u, 70u, 104u}) {
    Blocks blocks = AllocMany(heaps.owner, class_index, BatchOf(class_index) + 1);
    RemoteFreeAll(heaps.other, blocks); /* one batch and one block more */
    EXPECT_EQ(IncomingLength(heaps.owner), blocks.size() - (class_index == 104 ? 0 : 1));
    hk_remote_flush(heaps.other);
    hk_remote_flush(heaps.other);
    Blocks incoming = IncomingOf(heaps.owner);
    EXPECT_EQ(std::set<hk_block_t *>(incoming.begin(), incoming.end()),
              std::set<hk_block_t *>(blocks.begin(), blocks.end()));
    EXPECT_EQ(incoming.size(), blocks.size());
    Drain(heaps.owner);
    hk_remote_flush(heaps.other);
    EXPECT_FALSE(hk_heap_has_incoming(heaps.owner)) << "an old batch does not come again";
    hk_block_t *again = Alloc(heaps.owner, class_index);
    RemoteFree(heaps.other, again);
    hk_remote_flush(heaps.other);
    EXPECT_EQ(IncomingOf(heaps.owner), Blocks{again}) << "nor with the next one";
    Drain(heaps.owner);
  }
}

HK_FRESH_TEST(Remote, EachOwnerGetsItsOwn) {
  hk_heap_t *owners[3] = {hk_heap_take(), hk_heap_take(), hk_heap_take()};
  hk_heap_t *other = hk_heap_take();
  for (int i = 0; i < 3; i++) RemoteFreeAll(other, AllocMany(owners[i], 4, 10 + i));
  hk_remote_flush(other);
  for (uint64_t i = 0; i < 3; i++) {
    EXPECT_EQ(IncomingLength(owners[i]), 10 + i);
    Drain(owners[i]);
    EXPECT_EQ(StatOf(owners[i], hk_stat_remote_drain), 10 + i);
    CheckSpan(owners[i], owners[i]->state[4].active.load(), 0);
  }
}

// More owners than there are places: sooner or later two of them have the same.
HK_FRESH_TEST(Remote, AnotherOwnerInTheSamePlaceSendsTheBatch) {
  hk_heap_t *other = hk_heap_take();
  std::vector<hk_heap_t *> owners;
  std::map<hk_heap_t *, Blocks> waiting;
  size_t collisions = 0;
  for (unsigned i = 0; i < 4 * HK_OUTBOX_PLACES; i++) {
    hk_heap_t *owner = hk_heap_take();
    Blocks blocks = AllocMany(owner, 4, 3);
    RemoteFreeAll(other, blocks);
    EXPECT_FALSE(hk_heap_has_incoming(owner)) << "three are no batch";
    size_t sent = 0;
    for (hk_heap_t *before : owners) {
      if (waiting[before].empty() || !hk_heap_has_incoming(before)) continue;
      Blocks expected(waiting[before].rbegin(), waiting[before].rend());
      EXPECT_EQ(IncomingOf(before), expected) << "all of it, and nothing of another's";
      waiting[before].clear();
      sent++;
    }
    EXPECT_LE(sent, 1u) << "the one whose place it takes";
    collisions += sent;
    EXPECT_EQ(StatOf(other, hk_stat_remote_batch), collisions);
    owners.push_back(owner);
    waiting[owner] = blocks;
  }
  EXPECT_GE(collisions, 3 * size_t{HK_OUTBOX_PLACES});
  EXPECT_LT(collisions, owners.size() - 1) << "not all have the same place";
  hk_remote_flush(other);
  EXPECT_EQ(StatOf(other, hk_stat_remote_batch), owners.size());
  EXPECT_EQ(StatOf(other, hk_stat_remote_free), 3 * owners.size());
  for (hk_heap_t *owner : owners) {
    EXPECT_EQ(IncomingLength(owner), 3u);
    Drain(owner);
    CheckSpan(owner, owner->state[4].active.load(), 0);
  }
}

// Two owners that have the same place take turns.
HK_FRESH_TEST(Remote, OwnersInOnePlaceTakeTurns) {
  hk_heap_t *other = hk_heap_take(), *first = hk_heap_take(), *second = nullptr;
  Blocks ours = AllocMany(first, 4, 40);
  RemoteFree(other, ours.back());
  ours.pop_back();
  for (int i = 0; i < 1000 && !hk_heap_has_incoming(first); i++) {
    second = hk_heap_take();
    RemoteFree(other, Alloc(second, 4));
    if (!hk_heap_has_incoming(first))
      hk_remote_flush(other), Drain(second), Drain(first), RemoteFree(other, Alloc(first, 4));
  }
  ASSERT_TRUE(hk_heap_has_incoming(first)) << "no two heaps share a place";
  Drain(first);
  Blocks theirs = AllocMany(second, 80, 40);
  for (size_t i = 0; i < ours.size(); i++) {
    RemoteFree(other, ours[i]);
    EXPECT_EQ(IncomingLength(second), 1u);
    Drain(second);
    RemoteFree(other, theirs[i]);
    EXPECT_EQ(IncomingOf(first), Blocks{ours[i]});
    Drain(first);
  }
}

HK_FRESH_TEST(Remote, ABatchIsSentInFrontOfWhatWaits) {
  Heaps heaps;
  hk_heap_t *third = hk_heap_take();
  Blocks blocks = AllocMany(heaps.owner, 4, 6);
  RemoteFree(heaps.other, blocks[0]);
  RemoteFree(heaps.other, blocks[1]);
  RemoteFree(third, blocks[2]);
  RemoteFree(third, blocks[3]);
  hk_remote_flush(heaps.other);
  hk_remote_flush(third);
  hk_remote_free_now(SpanOf(blocks[4]), blocks[4]);
  EXPECT_EQ(IncomingOf(heaps.owner), (Blocks{blocks[4], blocks[3], blocks[2], blocks[1], blocks[0]}));
  Drain(heaps.owner);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 5u);
  for (int i = 0; i < 5; i++) EXPECT_EQ(Pop(heaps.owner, 4), blocks[i]) << "the last one collected is allocated first";
}

HK_FRESH_TEST(Remote, WithoutAHeapEachBlockGoesByItself) {
  Heaps heaps;
  Blocks blocks = AllocMany(heaps.owner, 20, 3);
  hk_slab_t *span = SpanOf(blocks[0]);
  for (unsigned i = 0; i < 3; i++) {
    hk_remote_free_now(span, blocks[i]);
    EXPECT_EQ(IncomingLength(heaps.owner), i + 1);
    EXPECT_TRUE(IsMarked(blocks[i]));
  }
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_remote_free]), 3u);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_remote_batch]), 3u);
  Drain(heaps.owner);
  CheckSpan(heaps.owner, span, 0);
}

// ---- Under way.

HK_FRESH_TEST(Remote, BlocksUnderWayLookFree) {
  Heaps heaps;
  for (unsigned class_index : {4u, 80u}) {
    Blocks blocks = AllocMany(heaps.owner, class_index, 3);
    for (hk_block_t *block : blocks) {
      EXPECT_FALSE(hk_block_looks_free(block));
      RemoteFree(heaps.other, block);
      EXPECT_TRUE(hk_block_looks_free(block)) << "in the batch";
    }
    hk_remote_flush(heaps.other);
    for (hk_block_t *block : blocks) EXPECT_TRUE(hk_block_looks_free(block)) << "sent";
    Drain(heaps.owner);
    for (hk_block_t *block : blocks) EXPECT_TRUE(hk_block_looks_free(block)) << "collected";
  }
}

HK_FRESH_TEST(Remote, LinksUnderWayAreMarkedAndLinksAtHomeAreNot) {
  Heaps heaps;
  for (unsigned class_index : {4u, 80u}) {
    Blocks blocks = AllocMany(heaps.owner, class_index, 3);
    RemoteFreeAll(heaps.other, blocks);
    EXPECT_EQ(hk_remote_next(blocks[2]->next), blocks[1]);
    EXPECT_EQ(hk_remote_next(blocks[1]->next), blocks[0]);
    for (int sent = 0; sent < 2; sent++) {
      for (hk_block_t *block : blocks) EXPECT_TRUE(IsMarked(block));
      EXPECT_EQ(hk_remote_next(blocks[0]->next), HK_LIST_END);
      hk_remote_flush(heaps.other);
    }
    Drain(heaps.owner);
    for (hk_block_t *block : blocks) {
      EXPECT_FALSE(IsMarked(block));
      EXPECT_EQ(hk_remote_next(block->next), block->next) << "a plain link leads where it leads";
    }
  }
}

}  // namespace
