// heap/remote, heap/heap_flush: heaps without a thread whose blocks are collected all the same: the thread that
// sends the blocks drains the heap.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "scale.h"
#include "test_random.h"
#include "unit/heap_driver.h"

using namespace hk_test;

namespace {

using Heaps = std::vector<hk_heap_t *>;

// As the end of its thread does.
void MakeIdle(hk_heap_t *heap) {
  hk_remote_flush(heap);
  hk_heap_unload(heap);
  hk_remote_give_back(heap);
}

// Fills the pool with `count` idle heaps that have nothing.
void FillPool(size_t count) {
  for (hk_heap_t *heap : TakeMany(count)) hk_heap_give_back(heap);
}

void ExpectIdle(hk_heap_t *heap) {
  EXPECT_EQ(hk_heap_life(heap), hk_heap_idle);
  EXPECT_FALSE(hk_load_relaxed(&heap->is_busy));
  EXPECT_FALSE(heap->is_visited);
}

// Empties the pool: each idle heap must be in it once.
void ExpectPoolIs(const Heaps &expected) {
  std::set<hk_heap_t *> taken;
  for (size_t i = 0; i < expected.size(); i++) taken.insert(hk_heap_take());
  EXPECT_EQ(taken, std::set<hk_heap_t *>(expected.begin(), expected.end()));
  size_t idle = 0;
  for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next) {
    idle += hk_heap_life(heap) == hk_heap_idle;
  }
  EXPECT_EQ(idle, 0u);
}

// ---- What a heap keeps when all blocks are collected.

HK_FRESH_TEST(RemoteDrain, NothingIsLeftInUseWhenManyHeapsAreIdle) {
  hk_heap_t *sender = hk_heap_take(), *owner = hk_heap_take();
  FillPool(HK_POOL_WARM);
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    for (unsigned count : {1u, CapacityOf(class_index), 2 * CapacityOf(class_index) + 1}) {
      SCOPED_TRACE(testing::Message() << class_index << ", " << count);
      Blocks blocks = AllocMany(owner, class_index, count);
      Blocks rest = PopAll(owner, class_index); /* in the end all carved blocks are collected */
      blocks.insert(blocks.end(), rest.begin(), rest.end());
      uint64_t drained = StatOf(owner, hk_stat_remote_drain);
      MakeIdle(owner);
      SendAll(sender, blocks);
      EXPECT_EQ(StatOf(owner, hk_stat_remote_drain) - drained, blocks.size());
      EXPECT_FALSE(hk_heap_has_incoming(owner));
      EXPECT_EQ(InUseSlabs(), 0u);
      EXPECT_EQ(owner->state[class_index].active.load(), nullptr);
      ExpectIdle(owner);
      ASSERT_TRUE(hk_heap_take_this(owner));
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_EQ(StatOf(owner, hk_stat_slab_acquire), StatOf(owner, hk_stat_slab_release));
}

// It is one of the few: the next thread finds it as its last one left it.
HK_FRESH_TEST(RemoteDrain, AWarmHeapKeepsItsActiveTinySpans) {
  for (unsigned idle = 0; idle < HK_POOL_WARM; idle++) { /* beside it */
    SCOPED_TRACE(idle);
    hk_heap_t *sender = hk_heap_take(), *owner = hk_heap_take();
    FillPool(idle);
    size_t before = InUseSlabs();
    Blocks blocks;
    for (unsigned class_index : {1u, 20u, 64u, 70u, 104u}) {
      for (hk_block_t *block : AllocMany(owner, class_index, 2 * CapacityOf(class_index) + 1)) blocks.push_back(block);
    }
    std::vector<hk_slab_t *> active;
    for (unsigned class_index : {1u, 20u, 64u}) active.push_back(owner->state[class_index].active.load());
    MakeIdle(owner);
    SendAll(sender, blocks);
    ExpectIdle(owner);
    EXPECT_EQ(InUseSlabs() - before, 3u);
    EXPECT_EQ(owner->spare_slabs + ReservedSlabs(owner), 0u);
    for (hk_slab_t *span : active) {
      EXPECT_EQ(owner->state[span->class_index].active.load(), span);
      CheckSpan(owner, span, 0);
    }
    ASSERT_TRUE(hk_heap_take_this(owner));
    hk_heap_flush(owner);
    for (unsigned i = 0; i < idle; i++) (void)hk_heap_take();
  }
}

HK_FRESH_TEST(RemoteDrain, BeforeTheLastBlockASpanStays) {
  hk_heap_t *sender = hk_heap_take(), *owner = hk_heap_take();
  FillPool(HK_POOL_WARM);
  for (unsigned class_index : {1u, 20u, 64u, 66u, 93u, 104u}) {
    SCOPED_TRACE(class_index);
    Blocks blocks = AllocMany(owner, class_index, CapacityOf(class_index));
    hk_slab_t *span = SpanOf(blocks[0]);
    hk_block_t *last = blocks.back();
    blocks.pop_back();
    MakeIdle(owner);
    SendAll(sender, blocks);
    EXPECT_EQ(InUseSlabs(), span->slab_count);
    CheckSpan(owner, span, 1);
    ASSERT_TRUE(hk_heap_take_this(owner));
    EXPECT_EQ(InUseSlabs(), span->slab_count);
    (void)FreeOwn(owner, last);
    hk_heap_flush(owner);
    EXPECT_EQ(InUseSlabs(), 0u);
  }
}

HK_FRESH_TEST(RemoteDrain, AHeapThatAThreadHasIsLeftToIt) {
  hk_heap_t *sender = hk_heap_take(), *owner = hk_heap_take();
  FillPool(HK_POOL_WARM);
  Blocks blocks = AllocMany(owner, 64, 3);
  hk_remote_free_now(SpanOf(blocks[2]), blocks[2]);
  blocks.pop_back();
  SendAll(sender, blocks);
  EXPECT_EQ(IncomingLength(owner), 3u);
  EXPECT_EQ(StatOf(owner, hk_stat_remote_drain), 0u);
  EXPECT_EQ(hk_heap_life(owner), hk_heap_attached);
}

// ---- Wherever in the pool it is.

HK_FRESH_TEST(RemoteDrain, HeapsInAndBeyondTheSlotsAreDrained) {
  constexpr size_t kHeaps = HK_POOL_SLOTS + 40;
  hk_heap_t *sender = hk_heap_take();
  Heaps owners = TakeMany(kHeaps);
  std::vector<Blocks> blocks;
  for (hk_heap_t *owner : owners) blocks.push_back(AllocMany(owner, 104, 3));
  for (hk_heap_t *owner : owners) MakeIdle(owner);
  TestRandom random(5);
  size_t left = kHeaps;
  while (left > 0 && !testing::Test::HasFailure()) {
    size_t i = random.Below(kHeaps);
    if (blocks[i].empty()) continue;
    SendAll(sender, blocks[i]);
    blocks[i].clear();
    left--;
    EXPECT_FALSE(hk_heap_has_incoming(owners[i]));
    EXPECT_EQ(StatOf(owners[i], hk_stat_remote_drain), 3u);
    EXPECT_EQ(InUseSlabs(), left * hk_class_span_slabs(104));
    ExpectIdle(owners[i]);
  }
  ExpectPoolIs(owners);
}

// ---- Without a heap of one's own.

HK_FRESH_TEST(RemoteDrain, AThreadThatIsLeavingDrainsToo) {
  hk_heap_t *owner = hk_heap_take();
  FillPool(HK_POOL_WARM + HK_POOL_SLOTS);
  for (unsigned class_index : {64u, 66u, 104u}) {
    SCOPED_TRACE(class_index);
    Blocks blocks = AllocMany(owner, class_index, 2 * CapacityOf(class_index));
    MakeIdle(owner);
    for (hk_block_t *block : blocks) {
      uint64_t drained = StatOf(owner, hk_stat_remote_drain);
      hk_remote_free_now(SpanOf(block), block);
      ASSERT_EQ(StatOf(owner, hk_stat_remote_drain), drained + 1) << "at once";
      ExpectIdle(owner);
    }
    EXPECT_EQ(InUseSlabs(), 0u);
    ASSERT_TRUE(hk_heap_take_this(owner));
  }
}

// ---- One after the other.

// One span of each heap belonged to the heap before it, where a block of that span still waits. The thread that drains
// one heap sends that block on, and drains the next heap after it: no block waits for a thread that may never come.
HK_FRESH_TEST(RemoteDrain, AChainOfMovedSpansIsFollowedToItsEnd) {
  constexpr unsigned kHeaps = 12;
  hk_heap_t *sender = hk_heap_take();
  Heaps heaps = TakeMany(kHeaps);
  hk_block_t *first = Alloc(heaps[0], 10);
  for (unsigned i = 0; i + 1 < kHeaps; i++) {
    hk_block_t *moved = Alloc(heaps[i], 20 + i);
    hk_remote_free_now(SpanOf(moved), moved); /* which waits: a thread has the heap */
    HeldBack held(heaps[i]);
    hk_heap_give_back(heaps[i]);
    ASSERT_TRUE(hk_steal_span(heaps[i + 1], 20 + i));
    ASSERT_EQ(hk_load_relaxed(&SpanOf(moved)->owner), heaps[i + 1]);
    ASSERT_TRUE(hk_heap_take_this(heaps[i]));
  }
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  ASSERT_EQ(IncomingLength(heaps[0]), 1u);
  SendAll(sender, {first});
  for (hk_heap_t *heap : heaps) {
    ExpectIdle(heap);
    EXPECT_FALSE(hk_heap_has_incoming(heap));
    EXPECT_EQ(StatOf(heap, hk_stat_remote_drain), 1u);
  }
  for (hk_heap_t *heap : heaps) {
    ASSERT_TRUE(hk_heap_take_this(heap));
    for (const hk_batch_t &batch : heap->outbox) EXPECT_EQ(batch.owner, nullptr) << "nothing stays behind";
    hk_heap_flush(heap);
  }
  EXPECT_EQ(InUseSlabs(), 0u);
}

// ---- How far a look goes.

// One block of a span with thousands is collected: the drain looks at its page alone, for the span counts its blocks.
HK_FRESH_TEST(RemoteDrain, OneBlockNeedsNoLookAtAllOthers) {
  hk_heap_t *sender = hk_heap_take(), *owner = hk_heap_take();
  FillPool(HK_POOL_WARM);
  Blocks blocks = AllocMany(owner, 1, CapacityOf(1));
  hk_slab_t *span = SpanOf(blocks[0]);
  hk_block_t *one = reinterpret_cast<hk_block_t *>(hk_slab_start(span));
  for (hk_block_t *block : blocks) {
    if (block != one) (void)FreeOwn(owner, block);
  }
  MakeIdle(owner);
  EXPECT_EQ(InUseSlabs(), 1u);
  size_t page = static_cast<size_t>(getpagesize());
  char *others = reinterpret_cast<char *>(one) + page;
  ASSERT_EQ(mprotect(others, HK_SLAB_BYTES - page, PROT_NONE), 0) << "a look there ends the test";
  SendAll(sender, {one});
  EXPECT_EQ(StatOf(owner, hk_stat_remote_drain), 1u);
  EXPECT_EQ(InUseSlabs(), 0u);
  ASSERT_EQ(mprotect(others, HK_SLAB_BYTES - page, PROT_READ | PROT_WRITE), 0);
}

// ---- Very many heaps.

constexpr unsigned kClassesOfMany[] = {20, 66, 104};

// Heaps whose threads have ended, and the blocks that they left in use: of several classes all that they carved.
std::vector<Blocks> MakeManyIdle(size_t count, Heaps *heaps) {
  std::vector<Blocks> blocks(count);
  *heaps = TakeMany(count);
  for (size_t i = 0; i < count; i++) {
    for (unsigned class_index : kClassesOfMany) {
      blocks[i].push_back(Alloc((*heaps)[i], class_index));
      for (hk_block_t *block : PopAll((*heaps)[i], class_index)) blocks[i].push_back(block);
    }
    MakeIdle((*heaps)[i]);
  }
  return blocks;
}

size_t SlabsOf(const Heaps &heaps) {
  size_t slabs = 0;
  for (const hk_heap_t *heap : heaps) slabs += heap->span_slabs;
  return slabs;
}

void ExpectAllHome(const Heaps &heaps, size_t in_use) {
  for (hk_heap_t *heap : heaps) {
    ASSERT_FALSE(hk_heap_has_incoming(heap));
    ASSERT_EQ(hk_heap_life(heap), hk_heap_idle);
  }
  EXPECT_LE(InUseSlabs(), in_use);
  (void)hk_purge_down_to(0);
  EXPECT_LE(hk_superslab_usage().mapped_bytes, in_use * HK_SUPERSLAB_BYTES);
  size_t ours = hk_superslab_usage().mapped_bytes + hk_region_map_mapped_bytes() + hk_meta_mapped_bytes();
  EXPECT_EQ(fake_os_mapped_bytes(), ours) << "the system has the rest again";
}

// Of the warm heaps each may keep its active tiny span.
HK_FRESH_TEST(RemoteDrainMany, WhatOneThreadFreesHeapByHeapIsAllHome) {
  size_t count = Scaled(10000, 500);
  hk_heap_t *sender = hk_heap_take();
  Heaps heaps;
  std::vector<Blocks> blocks = MakeManyIdle(count, &heaps);
  EXPECT_EQ(InUseSlabs(), SlabsOf(heaps));
  EXPECT_GT(InUseSlabs(), count * 5) << "a few serve the heaps that come after them";
  for (const Blocks &of_one : blocks) {
    for (hk_block_t *block : of_one) RemoteFree(sender, block);
  }
  hk_remote_flush(sender);
  ExpectAllHome(heaps, HK_POOL_WARM);
}

// Now each block is sent alone.
HK_FRESH_TEST(RemoteDrainMany, WhatOneThreadFreesRoundAndRoundIsAllHome) {
  size_t count = Scaled(10000, 500);
  hk_heap_t *sender = hk_heap_take();
  Heaps heaps;
  std::vector<Blocks> blocks = MakeManyIdle(count, &heaps);
  for (bool any = true; any;) {
    any = false;
    for (Blocks &of_one : blocks) {
      if (of_one.empty()) continue;
      RemoteFree(sender, of_one.back());
      of_one.pop_back();
      any = true;
    }
  }
  hk_remote_flush(sender);
  ExpectAllHome(heaps, HK_POOL_WARM);
}

// ---- Damage.

#if HK_SAFETY

HK_FRESH_TEST(RemoteDrainDamage, IsKeptForTheHeapsNextOwner) {
  hk_heap_t *sender = hk_heap_take(), *owner = hk_heap_take();
  FillPool(HK_POOL_WARM);
  for (unsigned class_index : {20u, 66u}) {
    SCOPED_TRACE(class_index);
    Blocks blocks = AllocMany(owner, class_index, 3);
    MakeIdle(owner);
    for (hk_block_t *block : blocks) RemoteFree(sender, block); /* the chain leads from [2] to [0] */
    blocks[1]->seal ^= 1;
    hk_remote_flush(sender);
    ExpectIdle(owner);
    EXPECT_EQ(owner->damaged, blocks[1]);
    EXPECT_EQ(sender->damaged, nullptr) << "it is not the sender's";
    EXPECT_FALSE(hk_heap_has_incoming(owner));
    hk_block_t *later = nullptr;
    ASSERT_TRUE(hk_heap_take_this(owner));
    EXPECT_EQ(owner->damaged, blocks[1]) << "it waits";
    later = Alloc(owner, 104);
    hk_heap_give_back(owner);
    SendAll(sender, {later});
    EXPECT_EQ(owner->damaged, blocks[1]) << "also while more blocks are collected";
    ASSERT_TRUE(hk_heap_take_this(owner));
    owner->damaged = nullptr;
    EXPECT_EQ(hk_slab_state(hk_slab_of(blocks[0])), hk_slab_small) << "a lost block counts as in use";
  }
}

#endif

// ---- Threads.

// Threads come, allocate, leave blocks behind and end, while others free those: no heap is two threads' at once, none
// is lost from the pool, and in the end nothing is in use.
HK_FRESH_TEST(RemoteDrainThreads, HeapsComeAndGoWhileTheirBlocksComeHome) {
  constexpr int kThreads = 4;
  std::atomic<hk_block_t *> slots[64] = {};
  std::vector<std::thread> threads;
  size_t rounds = Scaled(400, 20);
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&slots, t, rounds] {
      TestRandom random(200 + t);
      for (size_t round = 0; round < rounds; round++) {
        hk_heap_t *heap = hk_heap_take();
        ASSERT_NE(heap, nullptr);
        hk_heap_enter(heap);
        for (int i = 0; i < 40; i++) {
          hk_block_t *block = Alloc(heap, static_cast<unsigned>(random.Between(1, HK_CLASS_COUNT - 1)));
          ASSERT_NE(block, nullptr);
          hk_block_t *old = slots[random.Below(64)].exchange(block);
          if (old == nullptr) continue;
          if (random.OneIn(5) && hk_load_relaxed(&SpanOf(old)->owner) != heap) {
            hk_remote_free_now(SpanOf(old), old);
          } else {
            Free(heap, old);
          }
        }
        hk_remote_flush(heap);
        hk_heap_unload(heap);
        hk_heap_leave(heap);
        hk_remote_give_back(heap);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  Heaps heaps;
  for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next) {
    ExpectIdle(heap);
    heaps.push_back(heap);
  }
  EXPECT_LE(heaps.size(), 2u * kThreads) << "a thread has one, and for a moment another";
  hk_heap_t *last = hk_heap_take();
  for (auto &slot : slots) {
    if (slot != nullptr) Free(last, slot);
  }
  hk_remote_flush(last);
  hk_heap_give_back(last);
  ExpectPoolIs(heaps);
  for (int pass = 0; pass < 8; pass++) { /* blocks of spans that have moved go on from heap to heap */
    for (hk_heap_t *heap : heaps) {
      hk_remote_drain(heap);
      hk_remote_flush(heap);
    }
  }
  for (hk_heap_t *heap : heaps) {
    EXPECT_EQ(heap->damaged, nullptr);
    EXPECT_FALSE(hk_heap_has_incoming(heap));
    hk_heap_flush(heap);
  }
  EXPECT_EQ(InUseSlabs(), 0u);
}

}  // namespace
