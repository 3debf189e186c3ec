// heap/remote: blocks on their way home: batches, what waits for the owner, what it takes back, and threads at it
// together.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/heap_driver.h"
#include "unit/rendezvous.h"

namespace {

using hakmem_test::TestRandom;
using hk_test::Alloc;
using hk_test::AllocMany;
using hk_test::CapacityOf;
using hk_test::CheckMidBin;
using hk_test::CheckSpan;
using hk_test::FreeOwn;
using hk_test::IncomingLength;
using hk_test::InUseSlabs;
using hk_test::IsActive;
using hk_test::IsPartial;
using hk_test::ListLength;
using hk_test::Pop;
using hk_test::RoomOf;
using hk_test::SpanOf;
using hk_test::StatOf;
using hk_test::WorthOf;

using Blocks = std::vector<hk_block_t *>;

// The owner and one that frees the owner's blocks.
struct Heaps {
  hk_heap_t *owner = hk_heap_take();
  hk_heap_t *other = hk_heap_take();
};

void RemoteFree(hk_heap_t *heap, hk_block_t *block) { hk_remote_free(heap, hk_slab_of(block), block); }

void RemoteFreeAll(hk_heap_t *heap, const Blocks &blocks) {
  for (hk_block_t *block : blocks) RemoteFree(heap, block);
}

bool IsMarked(const hk_block_t *block) { return (reinterpret_cast<uintptr_t>(block->next) & 1) != 0; }

// What waits for the owner, in the order in which it will be taken back.
Blocks IncomingOf(hk_heap_t *owner) {
  Blocks blocks;
  hk_block_t *block = hk_load_relaxed(&owner->shared.incoming);
  for (; block != HK_LIST_END && blocks.size() < 100000; block = hk_remote_next(block->next)) blocks.push_back(block);
  return blocks;
}

// All of the heap's blocks that are at home: in its bins and in its spans' own lists.
std::multiset<hk_block_t *> AtHome(hk_heap_t *heap) {
  std::multiset<hk_block_t *> blocks;
  auto add = [&blocks](hk_block_t *list) {
    for (size_t steps = 0; list != HK_LIST_END && hk_block_is_intact(list) && steps < 100000;
         list = list->next, steps++) {
      blocks.insert(list);
    }
  };
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    add(heap->bin[i].free);
    const hk_list_t *partial = &heap->state[i].partial;
    if (!hk_list_is_linked(partial)) continue;
    for (hk_list_t *node = partial->next; node != partial; node = node->next) {
      add(HK_CONTAINER_OF(node, hk_slab_t, link)->own.free);
    }
  }
  return blocks;
}

void Drain(hk_heap_t *heap) {
  hk_remote_drain(heap);
  EXPECT_EQ(heap->damaged, nullptr);
  EXPECT_FALSE(hk_remote_is_pending(heap));
}

// ---- Batches.

size_t WeightOf(unsigned class_index) { return std::max<size_t>(hk_class_bytes(class_index), HK_BATCH_LEAST_BLOCK); }

// How many blocks of a class go home together, from a heap that has little itself.
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
      ASSERT_FALSE(hk_remote_is_pending(heaps.owner)) << i;
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

// Who has much itself holds back more: a sixteenth of that, between bounds.
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
      ASSERT_FALSE(hk_remote_is_pending(heaps.owner));
      RemoteFree(heaps.other, block);
    }
    EXPECT_EQ(IncomingLength(heaps.owner), batch);
    Drain(heaps.owner);
  }
}

// Sent to a heap that nobody has: whoever sends looks after it.
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
  EXPECT_FALSE(hk_load_relaxed(&heaps.owner->busy));
  EXPECT_FALSE(heaps.owner->is_tended);
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
      for (const hk_outgoing_t &batch : heaps.other->outbox) {
        if (batch.owner == heaps.owner) in_outbox += 32 * HK_KIB - batch.room;
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
      ASSERT_FALSE(hk_remote_is_pending(heaps.owner));
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
  EXPECT_FALSE(hk_remote_is_pending(heaps.owner));
  hk_remote_flush(heaps.other);
  EXPECT_EQ(IncomingLength(heaps.owner), 5u);
  EXPECT_TRUE(hk_remote_is_pending(heaps.owner));
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
    EXPECT_FALSE(hk_remote_is_pending(heaps.owner)) << "an old batch does not come again";
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
  for (unsigned i = 0; i < 4 * HK_OUTBOX_SLOTS; i++) {
    hk_heap_t *owner = hk_heap_take();
    Blocks blocks = AllocMany(owner, 4, 3);
    RemoteFreeAll(other, blocks);
    EXPECT_FALSE(hk_remote_is_pending(owner)) << "three are no batch";
    size_t sent = 0;
    for (hk_heap_t *before : owners) {
      if (waiting[before].empty() || !hk_remote_is_pending(before)) continue;
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
  EXPECT_GE(collisions, 3 * size_t{HK_OUTBOX_SLOTS});
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
  for (int i = 0; i < 1000 && !hk_remote_is_pending(first); i++) {
    second = hk_heap_take();
    RemoteFree(other, Alloc(second, 4));
    if (!hk_remote_is_pending(first))
      hk_remote_flush(other), Drain(second), Drain(first), RemoteFree(other, Alloc(first, 4));
  }
  ASSERT_TRUE(hk_remote_is_pending(first)) << "no two heaps share a place";
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
  for (int i = 0; i < 5; i++) EXPECT_EQ(Pop(heaps.owner, 4), blocks[i]) << "the last one to come home goes first";
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
    for (hk_block_t *block : blocks) EXPECT_TRUE(hk_block_looks_free(block)) << "at home";
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

// ---- What comes home counts.

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
  hk_heap_trim(heaps.owner);
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
        hk_heap_trim(heaps.owner);
        ASSERT_EQ(InUseSlabs(), 0u);
      }
    }
  }
}

// Each class: a full span whose blocks all go home by way of another thread, with own frees between.
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
    hk_heap_trim(heaps.owner);
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

// More than the bin has room for: it is spilled while the chain is taken, and spans whose blocks have come home are
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
      unsigned keep = i % 3; /* of every third span all blocks come home */
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
  ASSERT_TRUE(hk_refill(heaps.owner, 80));
  EXPECT_EQ(heaps.owner->bin[80].free, mid) << "that is where it comes from";
  EXPECT_FALSE(hk_bin_was_fresh(&heaps.owner->bin[80], 80));
  EXPECT_FALSE(hk_bin_is_fresh(&heaps.owner->bin[4]));
}

// ---- Heaps that no thread has.

HK_FRESH_TEST(Remote, AnIdleHeapIsDrainedByWhoeverAsks) {
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
  EXPECT_EQ(InUseSlabs(), 1u) << "the active span stays; spare slabs nobody would use do not";
  EXPECT_EQ(heaps.owner->spare_slabs, 0u);
  EXPECT_EQ(hk_load_relaxed(&heaps.owner->life), hk_heap_idle);
  EXPECT_FALSE(hk_load_relaxed(&heaps.owner->busy));
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

// Whoever grows takes a look: what is empty there is not held back by blocks of mid classes in the bins of a heap that
// nobody uses.
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
  ASSERT_TRUE(hk_bin_was_fresh(&heaps.owner->bin[65], 65)) << "it was cut just now";
  hk_mid_spill_all(heaps.owner); /* as at its thread's end */
  hk_heap_give_back(heaps.owner);
  RemoteFreeAll(heaps.other, Blocks(blocks.begin(), blocks.begin() + 5));
  hk_remote_flush(heaps.other);
  hk_remote_drain_idle();
  ASSERT_EQ(hk_heap_take(), heaps.owner);
  if (Pop(heaps.owner, 65) != nullptr) EXPECT_FALSE(hk_bin_was_fresh(&heaps.owner->bin[65], 65));
}

// ---- Fork.

// ---- Damage.

#if HK_SAFETY

// At each place of a chain of several batches: what was sent before the block is lost, what was sent after it is not.
HK_FRESH_TEST(RemoteDamage, TheDrainTellsOfABlockAndLosesWhatWasSentBefore) {
  for (unsigned class_index : {20u, 66u, 104u}) {
    constexpr size_t kCount = 12;
    for (size_t place = 0; place < kCount; place++) {
      for (int how = 0; how < 4; how++) {
        SCOPED_TRACE(place);
        Heaps heaps;
        Blocks blocks = AllocMany(heaps.owner, class_index, kCount + 3);
        while (Pop(heaps.owner, class_index) != nullptr) {
        }
        for (size_t i = 0; i < kCount; i++) {
          RemoteFree(heaps.other, blocks[i]);
          if (i % 4 == 3) hk_remote_flush(heaps.other);
        }
        hk_block_t *damaged = blocks[kCount - 1 - place];
        if (how == 0) memset(static_cast<void *>(damaged), 'x', 16);
        if (how == 1) damaged->seal ^= 1;
        if (how == 2) damaged->next = HK_LIST_END;
        if (how == 3) memset(static_cast<void *>(damaged), 0, 16);
        hk_remote_drain(heaps.owner);
        EXPECT_EQ(heaps.owner->damaged, damaged);
        EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), place);
        EXPECT_FALSE(hk_remote_is_pending(heaps.owner));
        std::multiset<hk_block_t *> home = AtHome(heaps.owner);
        for (size_t i = 0; i < kCount; i++) ASSERT_EQ(home.count(blocks[i]), i > kCount - 1 - place ? 1u : 0u) << i;
        if (hk_class_is_mid(class_index)) CheckMidBin(heaps.owner, class_index);

        heaps.owner->damaged = nullptr; /* life goes on */
        for (size_t i = kCount; i < blocks.size(); i++) RemoteFree(heaps.other, blocks[i]);
        hk_remote_flush(heaps.other);
        Drain(heaps.owner);
        home = AtHome(heaps.owner);
        for (size_t i = kCount; i < blocks.size(); i++) {
          bool is_released = hk_slab_state(hk_slab_of(blocks[i])) == hk_slab_free; /* all of its span came home */
          ASSERT_EQ(home.count(blocks[i]), is_released ? 0u : 1u);
        }
      }
    }
  }
}

HK_FRESH_TEST(RemoteDamage, TheLostCountAsInUse) {
  Heaps heaps;
  Blocks blocks = AllocMany(heaps.owner, 20, CapacityOf(20));
  hk_block_t *active = Alloc(heaps.owner, 20);
  hk_slab_t *span = SpanOf(blocks[0]);
  RemoteFreeAll(heaps.other, Blocks(blocks.begin(), blocks.begin() + 20)); /* the chain leads from [19] to [0] */
  hk_remote_flush(heaps.other);
  RemoteFree(heaps.other, active);
  hk_remote_flush(heaps.other);
  memset(static_cast<void *>(blocks[7]), 'x', 16);
  hk_remote_drain(heaps.owner);
  EXPECT_EQ(heaps.owner->damaged, blocks[7]);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 12u + 1u);
  CheckSpan(heaps.owner, span, CapacityOf(20) - 12);
  CheckSpan(heaps.owner, SpanOf(active), 0);
}

// Its owner freed it too while it was under way.
HK_FRESH_TEST(RemoteDamage, ABlockThatIsHomeAlreadyIsNoticed) {
  for (unsigned class_index : {20u, 80u}) {
    for (size_t twice = 0; twice < 5; twice++) {
      SCOPED_TRACE(twice);
      Heaps heaps;
      Blocks blocks = AllocMany(heaps.owner, class_index, 6);
      RemoteFreeAll(heaps.other, Blocks(blocks.begin(), blocks.begin() + 5));
      hk_remote_flush(heaps.other);
      (void)FreeOwn(heaps.owner, blocks[twice]);
      hk_remote_drain(heaps.owner);
      EXPECT_EQ(heaps.owner->damaged, blocks[twice]);
      EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 4 - twice);
      std::multiset<hk_block_t *> home = AtHome(heaps.owner);
      for (hk_block_t *block : blocks) EXPECT_LE(home.count(block), 1u);
    }
  }
}

// The same, and it has been given out again since.
HK_FRESH_TEST(RemoteDamage, ABlockThatIsInUseAgainIsNoticed) {
  for (unsigned class_index : {20u, 80u}) {
    Heaps heaps;
    Blocks blocks = AllocMany(heaps.owner, class_index, 4);
    RemoteFreeAll(heaps.other, blocks);
    hk_remote_flush(heaps.other);
    (void)FreeOwn(heaps.owner, blocks[2]);
    ASSERT_EQ(Pop(heaps.owner, class_index), blocks[2]);
    hk_remote_drain(heaps.owner);
    EXPECT_EQ(heaps.owner->damaged, blocks[2]);
    EXPECT_EQ(AtHome(heaps.owner).count(blocks[2]), 0u) << "nobody else is given it";
  }
}

// Two threads free one block at the same moment, each finding that it looks in use: both batches hold it, at any place.
// Whatever the batches' order makes of their links, a ring among them too, the drain ends, and no block is home twice.
HK_FRESH_TEST(RemoteDamage, ABlockInTwoBatchesIsTakenBackOnce) {
  constexpr size_t kEach = 4;
  int rings = 0;
  for (unsigned class_index : {20u, 70u, 80u}) {
    for (size_t first_place = 0; first_place < kEach; first_place++) {
      for (size_t second_place = 0; second_place < kEach; second_place++) {
        for (int order = 0; order < 4; order++) {
          Heaps heaps;
          hk_heap_t *third = hk_heap_take();
          Blocks blocks = AllocMany(heaps.owner, class_index, 2 * kEach);
          hk_block_t *both = blocks[0];
          size_t next = 1;
          for (size_t i = 0; i < kEach; i++) RemoteFree(heaps.other, i == first_place ? both : blocks[next++]);
          if (order == 2) hk_remote_flush(heaps.other); /* the first was sent before the second came to it */
          for (size_t i = 0; i < kEach; i++) RemoteFree(third, i == second_place ? both : blocks[next++]);
          hk_remote_flush(order == 1 ? third : heaps.other);
          if (order != 3) hk_remote_flush(order == 1 ? heaps.other : third);
          bool is_ring = IncomingLength(heaps.owner) >= 1000;
          rings += is_ring;
          hk_remote_drain(heaps.owner);
          EXPECT_LE(StatOf(heaps.owner, hk_stat_remote_drain), 2 * kEach - 1);
          EXPECT_FALSE(hk_remote_is_pending(heaps.owner));
          if (is_ring) EXPECT_EQ(heaps.owner->damaged, both);
          std::multiset<hk_block_t *> home = AtHome(heaps.owner);
          for (hk_block_t *block : blocks) ASSERT_LE(home.count(block), 1u);
          ASSERT_LE(home.size(), hk_test::CarvedOf(SpanOf(both)));
        }
      }
    }
  }
  EXPECT_GT(rings, 0) << "else the test has not seen one";
}

#endif

// ---- Threads.

// Blocks on their way from one thread to another.
class Queue {
 public:
  void Put(hk_block_t *block) {
    std::lock_guard<std::mutex> guard(mutex_);
    blocks_.push_back(block);
  }
  std::vector<hk_block_t *> TakeAll() {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<hk_block_t *> taken;
    taken.swap(blocks_);
    return taken;
  }

 private:
  std::mutex mutex_;
  std::vector<hk_block_t *> blocks_;
};

constexpr uint64_t kHeld = 0x1de41de41de41de4;
constexpr unsigned kClasses[] = {2, 3, 33, 64, 66, 80, 90, 104};

unsigned AnyClass(TestRandom *random) { return kClasses[random->Below(sizeof kClasses / sizeof kClasses[0])]; }

uint64_t *MarkOf(hk_block_t *block) { return reinterpret_cast<uint64_t *>(block + 1); }

// A block that nobody else has: false says that somebody has.
bool Hold(hk_block_t *block) {
  if (*MarkOf(block) == kHeld) return false;
  *MarkOf(block) = kHeld;
  return true;
}
bool LetGo(hk_block_t *block) {
  if (*MarkOf(block) != kHeld) return false;
  *MarkOf(block) = 0;
  return true;
}

constexpr size_t kBlocks = 60000;

// One owner hands out blocks, `thread_count` threads free them while it allocates and drains.
void PostWhileTheOwnerDrains(int thread_count) {
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};
  std::vector<Queue> queues(thread_count);
  std::vector<hk_heap_t *> heaps;
  for (int t = 0; t < thread_count; t++) heaps.push_back(hk_heap_take());
  hk_heap_t *owner = hk_heap_take();

  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; t++) {
    threads.emplace_back([&failures, &done, &queues, &heaps, t] {
      for (bool last_round = false; !last_round;) {
        last_round = done;
        std::vector<hk_block_t *> blocks = queues[t].TakeAll();
        for (size_t i = 0; i < blocks.size(); i++) {
          if (!LetGo(blocks[i])) failures++;
          if (i % 64 == 63) {
            hk_remote_free_now(hk_slab_of(blocks[i]), blocks[i]);
          } else {
            RemoteFree(heaps[t], blocks[i]);
          }
        }
        if (blocks.empty()) std::this_thread::yield();
        hk_remote_flush(heaps[t]);
      }
    });
  }

  TestRandom random(thread_count);
  for (size_t i = 0; i < kBlocks; i++) {
    hk_block_t *block = Alloc(owner, AnyClass(&random));
    if (block == nullptr || !Hold(block)) failures++;
    if (block == nullptr) break;
    queues[random.Below(thread_count)].Put(block);
    if (i % 256 == 0) hk_remote_drain(owner);
    if (i % 4096 == 0) std::this_thread::yield();
  }
  done = true;
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);

  hk_remote_drain(owner);
  EXPECT_EQ(owner->damaged, nullptr);
  EXPECT_EQ(StatOf(owner, hk_stat_remote_drain), kBlocks) << "nothing lost, nothing twice";
  uint64_t freed = hk_load_relaxed(&hk_stat_process.value[hk_stat_remote_free]);
  for (hk_heap_t *heap : heaps) freed += StatOf(heap, hk_stat_remote_free);
  EXPECT_EQ(freed, kBlocks);
  for (unsigned class_index : kClasses) {
    hk_slab_t *active = owner->state[class_index].active.load();
    if (active != nullptr) CheckSpan(owner, active, 0);
    if (hk_class_is_mid(class_index)) CheckMidBin(owner, class_index);
  }
  hk_heap_trim(owner);
  EXPECT_EQ(InUseSlabs(), 0u) << "every block came home";
}

HK_FRESH_TEST(RemoteThreads, TwoPost) { PostWhileTheOwnerDrains(2); }
HK_FRESH_TEST(RemoteThreads, FourPost) { PostWhileTheOwnerDrains(4); }
HK_FRESH_TEST(RemoteThreads, EightPost) { PostWhileTheOwnerDrains(8); }

// Pushing and draining at their densest: each block sent alone, and the owner does nothing but drain.
HK_FRESH_TEST(RemoteThreads, TheSameListIsPushedToAndTakenAllTheTime) {
  constexpr int kThreads = 3, kRounds = 100;
  hk_heap_t *owner = hk_heap_take();
  for (int round = 0; round < kRounds; round++) {
    Blocks blocks;
    for (unsigned class_index : {40u, 66u, 80u}) {
      Blocks some = AllocMany(owner, class_index, 400);
      blocks.insert(blocks.end(), some.begin(), some.end());
    }
    std::atomic<int> finished{0};
    hk_test::Rendezvous start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
      threads.emplace_back([&blocks, &finished, &start, t] {
        start.Wait();
        for (size_t i = t; i < blocks.size(); i += kThreads) hk_remote_free_now(hk_slab_of(blocks[i]), blocks[i]);
        finished++;
      });
    }
    while (finished < kThreads) hk_remote_drain(owner);
    for (std::thread &thread : threads) thread.join();
    hk_remote_drain(owner);
    ASSERT_EQ(StatOf(owner, hk_stat_remote_drain), (round + 1) * blocks.size());
    ASSERT_EQ(owner->damaged, nullptr);
  }
  hk_heap_trim(owner);
  EXPECT_EQ(InUseSlabs(), 0u);
}

// Everybody owns blocks and frees those of the others.
HK_FRESH_TEST(RemoteThreads, AllWithAll) {
  constexpr int kThreads = 4;
  constexpr size_t kEach = 15000;
  std::atomic<int> failures{0};
  std::atomic<int> allocating{kThreads};
  std::vector<Queue> queues(kThreads);
  std::vector<hk_heap_t *> heaps;
  for (int t = 0; t < kThreads; t++) heaps.push_back(hk_heap_take());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&failures, &allocating, &queues, &heaps, t] {
      hk_heap_t *heap = heaps[t];
      TestRandom random(200 + t);
      auto free_all = [&] {
        for (hk_block_t *block : queues[t].TakeAll()) {
          if (!LetGo(block)) failures++;
          hk_test::Free(heap, block);
        }
      };
      for (size_t i = 0; i < kEach; i++) {
        hk_block_t *block = Alloc(heap, AnyClass(&random));
        if (block == nullptr || !Hold(block)) failures++;
        if (block == nullptr) break;
        queues[random.Below(kThreads)].Put(block);
        if (i % 100 == 0) free_all();
      }
      allocating--;
      while (allocating > 0) {
        free_all();
        std::this_thread::yield();
      }
      free_all();
      hk_remote_flush(heap);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  uint64_t sent = 0, came = 0;
  for (hk_heap_t *heap : heaps) {
    hk_remote_drain(heap);
    EXPECT_EQ(heap->damaged, nullptr);
    hk_heap_trim(heap);
    sent += StatOf(heap, hk_stat_remote_free);
    came += StatOf(heap, hk_stat_remote_drain);
  }
  EXPECT_EQ(sent, came);
  EXPECT_EQ(InUseSlabs(), 0u) << "every block came home";
}

// Threads come and go: each gets a heap as malloc does, frees what those before it left, leaves blocks for those after
// it, and ends as a thread does. Heaps are adopted, and drained while nobody has them.
HK_FRESH_TEST(RemoteThreads, ThreadsComeAndGo) {
  constexpr int kThreads = 4, kGenerations = 60;
  constexpr size_t kEach = 250;
  std::atomic<int> failures{0};
  Queue queue;
  auto live = [&failures, &queue](uint64_t seed) {
    TestRandom random(seed);
    hk_thread_lease_t lease = hk_thread_enter();
    if (lease.heap == nullptr || lease.borrowed) failures++;
    for (size_t i = 0; i < kEach; i++) {
      hk_block_t *block = Alloc(lease.heap, AnyClass(&random));
      if (block == nullptr || !Hold(block)) failures++;
      if (block != nullptr) queue.Put(block);
      if (i % 50 != 49) continue;
      for (hk_block_t *other : queue.TakeAll()) {
        if (!LetGo(other)) failures++;
        if (random.OneIn(2)) {
          hk_test::Free(lease.heap, other);
        } else if (Hold(other)) {
          queue.Put(other); /* for somebody else */
        }
      }
    }
    hk_thread_leave(lease);
    hk_thread_on_exit();
  };
  for (int generation = 0; generation < kGenerations; generation++) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) threads.emplace_back(live, 1000u * generation + t);
    for (std::thread &thread : threads) thread.join();
  }
  EXPECT_EQ(failures, 0);
  hk_heap_t *mine = hk_heap_take();
  for (hk_block_t *block : queue.TakeAll()) {
    EXPECT_TRUE(LetGo(block));
    hk_test::Free(mine, block);
  }
  hk_remote_flush(mine);
  hk_heap_give_back(mine);
  uint64_t sent = 0, came = 0;
  int heaps = 0;
  hk_heap_visit_idle([](hk_heap_t *heap) {
    hk_remote_drain(heap);
    EXPECT_EQ(heap->damaged, nullptr);
    hk_heap_trim(heap);
  });
  for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next, heaps++) {
    sent += StatOf(heap, hk_stat_remote_free);
    came += StatOf(heap, hk_stat_remote_drain);
    EXPECT_EQ(hk_load_relaxed(&heap->life), hk_heap_idle);
  }
  EXPECT_LE(heaps, kThreads + 1) << "they are adopted";
  EXPECT_EQ(sent, came);
  EXPECT_EQ(InUseSlabs(), 0u) << "every block came home";
}

}  // namespace
