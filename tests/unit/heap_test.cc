// heap/heap: who has which heap, the pool of those that nobody has, and what a child of fork makes of them.
#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

namespace {

using hk_test::Alloc;

hk_heap_life_t LifeOf(hk_heap_t *heap) { return static_cast<hk_heap_life_t>(hk_load_relaxed(&heap->life)); }

std::vector<hk_heap_t *> TakeMany(int count) {
  std::vector<hk_heap_t *> heaps;
  for (int i = 0; i < count; i++) heaps.push_back(hk_heap_take());
  return heaps;
}

// How many heaps were ever made.
size_t HeapCount() {
  size_t count = 0;
  for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next) count++;
  return count;
}

// ---- The bins that the fast path adds an offset for.

// What happens in the child of a fork whose thread has `mine`.
void Repair(const hk_heap_t *mine) {
  hk_heap_repair();
  hk_heap_adopt_orphans(mine);
}

HK_FRESH_TEST(Heap, EachSizeFindsItsBin) {
  for (size_t size = 0; size <= HK_TINY_MAX_BYTES; size++) {
    ASSERT_EQ(hk_heap_tiny_bin(size), hk_class_of(size) * sizeof(hk_sink_t)) << size;
  }
  for (size_t size = HK_TINY_MAX_BYTES + 1; size <= HK_MID_MAX_BYTES; size++) {
    ASSERT_EQ(hk_heap_mid_bin(size), hk_class_of(size) * sizeof(hk_sink_t)) << size;
  }
}

HK_FRESH_TEST(Heap, TheEmptyHeapGivesNothing) {
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(hk_empty_heap.bin[i].free, HK_LIST_END) << i;
    EXPECT_EQ(hk_test::Pop(HK_EMPTY_HEAP, i), nullptr) << i;
  }
}

HK_FRESH_TEST(Heap, ANewHeapIsEmpty) {
  EXPECT_EQ(hk_heap_first(), nullptr);
  hk_heap_t *heap = hk_heap_take();
  ASSERT_NE(heap, nullptr);
  EXPECT_NE(heap, HK_EMPTY_HEAP);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(heap) % HK_CACHE_LINE_BYTES, 0u);
  EXPECT_EQ(LifeOf(heap), hk_heap_attached);
  EXPECT_FALSE(hk_load_relaxed(&heap->busy));
  EXPECT_FALSE(hk_remote_is_pending(heap));
  EXPECT_EQ(hk_load_relaxed(&heap->shared.incoming), HK_LIST_END);
  for (const hk_outgoing_t &batch : heap->outbox) EXPECT_EQ(batch.owner, nullptr);
  EXPECT_EQ(heap->spare_slabs, 0u);
  for (const hk_list_t &list : heap->spare) EXPECT_TRUE(hk_list_is_empty(&list));
  EXPECT_EQ(heap->damaged, nullptr);
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(hk_test::Pop(heap, i), nullptr) << i;
    EXPECT_EQ(heap->bin[i].free, HK_LIST_END) << i;
    EXPECT_EQ(heap->state[i].active, nullptr) << i;
    if (hk_class_is_mid(i)) hk_test::CheckMidBin(heap, i);
  }
  EXPECT_EQ(hk_heap_first(), heap);
}

// ---- Take and give back.

HK_FRESH_TEST(Heap, EachTakerHasItsOwn) {
  std::vector<hk_heap_t *> heaps = TakeMany(100);
  EXPECT_EQ(std::set<hk_heap_t *>(heaps.begin(), heaps.end()).size(), 100u);
  hk_heap_t *next = hk_heap_first();
  for (size_t i = heaps.size(); i-- > 0; next = next->all_next) ASSERT_EQ(next, heaps[i]) << "newest first";
  EXPECT_EQ(next, nullptr);
}

HK_FRESH_TEST(Heap, TheOneGivenBackLastIsTakenFirst) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  for (hk_heap_t *heap : {heaps[1], heaps[0], heaps[2]}) {
    hk_heap_give_back(heap);
    EXPECT_EQ(LifeOf(heap), hk_heap_idle);
  }
  for (hk_heap_t *heap : {heaps[2], heaps[0], heaps[1]}) {
    EXPECT_EQ(hk_heap_take(), heap);
    EXPECT_EQ(LifeOf(heap), hk_heap_attached);
  }
  EXPECT_EQ(HeapCount(), 3u);
  EXPECT_NE(hk_heap_take(), nullptr);
  EXPECT_EQ(HeapCount(), 4u) << "the pool was empty";
}

HK_FRESH_TEST(Heap, IsAdoptedWhole) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *held = Alloc(heap, 4);
  hk_block_t *freed = Alloc(heap, 4);
  (void)hk_test::FreeOwn(heap, freed);
  hk_slab_t *span = hk_test::SpanOf(held);
  hk_heap_give_back(heap);

  std::thread([heap, held, freed, span] {
    ASSERT_EQ(hk_heap_take(), heap);
    EXPECT_EQ(hk_load_relaxed(&span->owner), heap) << "its spans stay its own";
    EXPECT_EQ(heap->state[4].active, span);
    EXPECT_EQ(hk_test::Pop(heap, 4), freed) << "its lists too";
    (void)hk_test::FreeOwn(heap, held);
    (void)hk_test::FreeOwn(heap, freed);
    hk_test::CheckSpan(heap, span, 0);
    hk_heap_give_back(heap);
  }).join();
  EXPECT_EQ(HeapCount(), 1u);
}

HK_FRESH_TEST(Heap, IsAdoptedWithItsMidBinsAndWhatWaitsForIt) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  hk_block_t *freed = Alloc(heap, 80), *remote = Alloc(heap, 80), *held = Alloc(heap, 80);
  (void)hk_test::FreeOwn(heap, freed);
  hk_remote_free(other, hk_test::SpanOf(remote), remote);
  hk_heap_give_back(heap);
  hk_remote_flush(other); /* while nobody has it */

  std::thread([heap, held, freed, remote] {
    ASSERT_EQ(hk_heap_take(), heap);
    hk_test::CheckMidBin(heap, 80);
    EXPECT_EQ(hk_test::Pop(heap, 80), freed);
    EXPECT_EQ(Alloc(heap, 80), remote) << "the first refill takes it back";
    for (hk_block_t *block : {held, freed, remote}) (void)hk_test::FreeOwn(heap, block);
    hk_test::CheckMidBin(heap, 80);
    hk_heap_trim(heap);
    EXPECT_EQ(hk_test::InUseSlabs(), 0u);
  }).join();
}

HK_FRESH_TEST(Heap, ARefusedHeapIsAskedForAgain) {
  fake_os_fail_all(fake_os_reserve, true);
  while (hk_heap_take() != nullptr) ASSERT_LT(HeapCount(), 1000u) << "at most what is left of a chunk";
  size_t count = HeapCount();
  EXPECT_EQ(hk_heap_take(), nullptr);
  EXPECT_EQ(HeapCount(), count);
  fake_os_fail_all(fake_os_reserve, false);
  EXPECT_NE(hk_heap_take(), nullptr);
  EXPECT_EQ(HeapCount(), count + 1);
}

HK_FRESH_TEST(Heap, WhatIsInThePoolNeedsNoSystem) {
  hk_heap_t *heap = hk_heap_take();
  hk_heap_give_back(heap);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(hk_heap_take(), heap);
}

HK_FRESH_TEST(Heap, ThreadsNeverHaveTheSameOne) {
  constexpr int kThreads = 4;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&failures] {
      for (int i = 0; i < 5000; i++) {
        hk_heap_t *heap = hk_heap_take();
        /* A plain field of the heap: two who have it would also race for ThreadSanitizer. */
        if (heap == nullptr || heap->spare_slabs++ != 0) failures++;
        if (heap == nullptr) return;
        if (i % 16 == 0) std::this_thread::yield();
        heap->spare_slabs--;
        hk_heap_give_back(heap);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_LE(HeapCount(), size_t{kThreads});
}

// ---- Idle heaps that have something to take back.

void SendOneTo(hk_heap_t *owner, hk_heap_t *from) {
  hk_block_t *block = Alloc(owner, 4);
  hk_remote_free(from, hk_test::SpanOf(block), block);
  hk_remote_flush(from);
}

HK_FRESH_TEST(Heap, TakePendingTakesOneThatHasBlocksToTakeBack) {
  std::vector<hk_heap_t *> heaps = TakeMany(5);
  EXPECT_EQ(hk_heap_take_pending(), nullptr) << "none is idle";
  SendOneTo(heaps[0], heaps[4]); /* a thread has that one */
  for (int i = 1; i < 4; i++) hk_heap_give_back(heaps[i]);
  EXPECT_EQ(hk_heap_take_pending(), nullptr) << "nothing waits for those";
  std::vector<hk_heap_t *> order = {heaps[3], heaps[2], heaps[1]}; /* in the pool */
  for (hk_heap_t *heap : {heaps[2], heaps[3], heaps[1]}) {
    hk_heap_t *attached = hk_heap_take();
    EXPECT_EQ(attached, order[0]);
    hk_heap_give_back(attached);
    hk_block_t *block = Alloc(heap, 4); /* nobody has it, and nobody else is here */
    hk_remote_free_now(hk_test::SpanOf(block), block);
    EXPECT_EQ(hk_heap_take_pending(), heap) << "wherever it is in the pool";
    EXPECT_EQ(LifeOf(heap), hk_heap_attached);
    EXPECT_EQ(hk_heap_take_pending(), nullptr);
    hk_remote_drain(heap);
    hk_heap_give_back(heap);
    order.erase(std::find(order.begin(), order.end(), heap));
    order.insert(order.begin(), heap);
  }
  for (hk_heap_t *heap : order) EXPECT_EQ(hk_heap_take(), heap) << "the others stayed as they were";
  EXPECT_EQ(HeapCount(), 5u);
}

// ---- Whether many heaps are idle.

HK_FRESH_TEST(Heap, ThePoolIsDeepFromSoManyIdleHeapsOn) {
  EXPECT_FALSE(hk_heap_pool_is_deep()) << "there is none";
  constexpr unsigned kHeaps = 2 * HK_POOL_WARM + 1;
  std::vector<hk_heap_t *> heaps = TakeMany(kHeaps);
  EXPECT_FALSE(hk_heap_pool_is_deep()) << "none is idle";
  for (int round = 0; round < 3; round++) {
    for (unsigned idle = 1; idle <= kHeaps; idle++) {
      hk_heap_give_back(heaps[idle - 1]);
      ASSERT_EQ(hk_heap_pool_is_deep(), idle >= HK_POOL_WARM) << idle;
    }
    for (unsigned idle = kHeaps; idle-- > 0;) {
      ASSERT_EQ(hk_heap_take(), heaps[idle]);
      ASSERT_EQ(hk_heap_pool_is_deep(), idle >= HK_POOL_WARM) << idle;
    }
  }
}

void VisitAnIdleHeap(hk_heap_t *) {}

HK_FRESH_TEST(Heap, ThePoolIsAsDeepAfterAVisitAndInAChildOfFork) {
  std::vector<hk_heap_t *> heaps;
  for (unsigned idle : {1u, HK_POOL_WARM - 1u, HK_POOL_WARM + 0u, HK_POOL_WARM + 1u}) {
    SCOPED_TRACE(idle);
    while (heaps.size() < idle) heaps.push_back(hk_heap_take());
    for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
    for (int round = 0; round < 2 * HK_POOL_WARM; round++) {
      hk_heap_visit_idle(VisitAnIdleHeap);
      ASSERT_EQ(hk_heap_pool_is_deep(), idle >= HK_POOL_WARM);
      Repair(HK_EMPTY_HEAP);
      ASSERT_EQ(hk_heap_pool_is_deep(), idle >= HK_POOL_WARM);
    }
    for (unsigned left = idle; left-- > 0;) {
      ASSERT_NE(hk_heap_take(), nullptr);
      ASSERT_EQ(hk_heap_pool_is_deep(), left >= HK_POOL_WARM);
    }
  }
}

// ---- The end of a thread.

bool zero;

// Runs `body` in a thread that gets a heap as malloc does, and ends as a thread does. Returns its heap.
template <typename Body>
hk_heap_t *InThread(Body body) {
  hk_heap_t *heap = nullptr;
  std::thread([&heap, body] {
    hk_thread_lease_t lease = hk_thread_enter();
    ASSERT_NE(lease.heap, nullptr);
    EXPECT_FALSE(lease.borrowed);
    EXPECT_EQ(hk_thread_heap, lease.heap);
    heap = lease.heap;
    body(heap);
    hk_thread_leave(lease);
    hk_thread_on_exit();
    EXPECT_EQ(hk_thread_heap, HK_EMPTY_HEAP);
  }).join();
  return heap;
}

HK_FRESH_TEST(HeapOfAThread, IsIdleAfterItsEndAndAdopted) {
  hk_heap_t *heap = InThread([](hk_heap_t *) {});
  EXPECT_EQ(LifeOf(heap), hk_heap_idle);
  EXPECT_FALSE(hk_load_relaxed(&heap->busy));
  EXPECT_EQ(InThread([](hk_heap_t *) {}), heap);
  EXPECT_EQ(HeapCount(), 1u);
}

HK_FRESH_TEST(HeapOfAThread, KeepsNoMidBlocksNoRunsAndNoBatches) {
  hk_option.spare_slabs = 0;
  hk_heap_t *other = hk_heap_take();
  hk_block_t *theirs = Alloc(other, 4);
  hk_block_t *held = nullptr;
  hk_heap_t *heap = InThread([theirs, &held](hk_heap_t *mine) {
    for (unsigned i = HK_TINY_CLASS_MAX + 1; i < HK_CLASS_COUNT; i++) {
      std::vector<hk_block_t *> blocks;
      for (int k = 0; k < 5; k++) blocks.push_back(Alloc(mine, i));
      for (hk_block_t *block : blocks) (void)hk_test::FreeOwn(mine, block);
    }
    held = Alloc(mine, 104);
    (void)hk_test::FreeOwn(mine, Alloc(mine, 104));
    for (size_t slabs : {1, 2, 7}) {
      void *run = hk_run_alloc(slabs * HK_SLAB_BYTES, 1, &zero);
      EXPECT_TRUE(hk_test::SpareRun(mine, hk_slab_of(run)));
    }
    hk_remote_free(mine, hk_test::SpanOf(theirs), theirs);
    EXPECT_FALSE(hk_remote_is_pending(hk_load_relaxed(&hk_test::SpanOf(theirs)->owner)));
  });
  EXPECT_TRUE(hk_remote_is_pending(other)) << "the batch was sent";
  EXPECT_EQ(heap->spare_slabs, 0u);
  for (unsigned i = HK_TINY_CLASS_MAX + 1; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(heap->bin[i].free, HK_LIST_END) << i;
    hk_test::CheckMidBin(heap, i);
    EXPECT_EQ(heap->state[i].active != nullptr, i == 104) << i;
  }
  EXPECT_EQ(hk_test::InUseSlabs(), 1 + 4u) << "the other's span, and the one with a block in use";
  hk_test::CheckSpan(heap, hk_test::SpanOf(held), 1);
}

// What is cheap to keep for the next thread stays, but not when many heaps wait for one.
HK_FRESH_TEST(HeapOfAThread, KeepsNothingWhenManyAreIdle) {
  for (unsigned idle : {HK_POOL_WARM - 1u, HK_POOL_WARM + 0u}) {
    SCOPED_TRACE(idle);
    std::vector<hk_heap_t *> heaps = TakeMany(static_cast<int>(idle) + 1);
    hk_heap_t *next = heaps.back(); /* the one that the thread gets */
    heaps.pop_back();
    std::thread([&heaps, next] {
      hk_heap_give_back(next);
      hk_thread_lease_t lease = hk_thread_enter();
      ASSERT_EQ(lease.heap, next);
      for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
      for (unsigned i : {4u, 64u, 80u, 104u}) (void)hk_test::FreeOwn(next, Alloc(next, i));
      EXPECT_TRUE(hk_test::SpareRun(next, hk_slab_of(hk_run_alloc(3 * HK_SLAB_BYTES, 1, &zero))));
      hk_thread_leave(lease);
      hk_thread_on_exit();
    }).join();
    EXPECT_EQ(next->spare_slabs, 0u);
    EXPECT_EQ(hk_test::InUseSlabs(), idle >= HK_POOL_WARM ? 0u : 2u) << "of each tiny class the active span";
    for (unsigned i : {4u, 64u}) EXPECT_EQ(next->state[i].active != nullptr, idle < HK_POOL_WARM) << i;
    for (unsigned i : {80u, 104u}) EXPECT_EQ(next->state[i].active, nullptr) << i;
    ASSERT_EQ(hk_heap_take(), next);
    hk_heap_trim(next);
    for (size_t i = 0; i < heaps.size(); i++) (void)hk_heap_take();
  }
}

HK_FRESH_TEST(HeapOfAThread, ServesTheNextThreadFromWhatTheLastOneLeft) {
  hk_option.spare_slabs = 0;
  std::vector<hk_block_t *> held;
  hk_heap_t *heap = InThread([&held](hk_heap_t *mine) {
    std::vector<hk_block_t *> freed;
    for (int k = 0; k < 40; k++) (k % 2 ? held : freed).push_back(Alloc(mine, 80));
    for (hk_block_t *block : freed) (void)hk_test::FreeOwn(mine, block);
  });
  size_t in_use = hk_test::InUseSlabs();
  EXPECT_EQ(InThread([&held](hk_heap_t *mine) {
              hk_test::CheckMidBin(mine, 80);
              std::vector<hk_block_t *> blocks;
              for (int k = 0; k < 20; k++) blocks.push_back(Alloc(mine, 80));
              for (hk_block_t *block : blocks) (void)hk_test::FreeOwn(mine, block);
              for (hk_block_t *block : held) (void)hk_test::FreeOwn(mine, block);
            }),
            heap);
  EXPECT_LE(hk_test::InUseSlabs(), in_use);
  EXPECT_EQ(hk_test::InUseSlabs(), 0u);
}

HK_FRESH_TEST(HeapOfAThread, WhatLaterExitHandlersNeedIsGivenBackToo) {
  std::thread([] {
    for (int round = 0; round < 4; round++) {
      hk_thread_lease_t lease = hk_thread_enter();
      ASSERT_NE(lease.heap, nullptr);
      EXPECT_EQ(lease.borrowed, hk_thread_is_leaving());
      (void)hk_test::FreeOwn(lease.heap, Alloc(lease.heap, 80));
      hk_thread_leave(lease);
      if (!lease.borrowed) hk_thread_on_exit();
      EXPECT_EQ(LifeOf(lease.heap), hk_heap_idle);
    }
    EXPECT_TRUE(hk_thread_is_leaving());
  }).join();
  EXPECT_EQ(HeapCount(), 1u);
}

// ---- In a child of fork.

HK_FRESH_TEST(Heap, RepairMakesHeapsOfVanishedThreadsIdleOrLost) {
  std::vector<hk_heap_t *> heaps = TakeMany(5);
  hk_heap_t *mine = heaps[0], *resting = heaps[1], *changing = heaps[2], *idle = heaps[3], *another = heaps[4];
  hk_heap_enter(changing);
  hk_heap_give_back(idle);
  EXPECT_EQ(hk_heap_lost_count(), 0u);

  Repair(mine);
  EXPECT_EQ(hk_heap_lost_count(), 1u);
  EXPECT_EQ(LifeOf(changing), hk_heap_lost);
  EXPECT_EQ(LifeOf(mine), hk_heap_attached);
  for (hk_heap_t *heap : {resting, idle, another}) EXPECT_EQ(LifeOf(heap), hk_heap_idle);

  std::set<hk_heap_t *> taken;
  for (int i = 0; i < 3; i++) taken.insert(hk_heap_take());
  EXPECT_EQ(taken, (std::set<hk_heap_t *>{resting, idle, another})) << "each is in the pool once";
  EXPECT_EQ(HeapCount(), 5u);
  EXPECT_NE(hk_heap_take(), nullptr);
  EXPECT_EQ(HeapCount(), 6u) << "a lost heap is never taken";
}

HK_FRESH_TEST(Heap, TheForkingThreadsHeapStaysItsOwnWhateverItWasDoing) {
  hk_heap_t *mine = hk_heap_take();
  hk_heap_enter(mine); /* a signal handler forked */
  Repair(mine);
  EXPECT_EQ(LifeOf(mine), hk_heap_attached);
  EXPECT_EQ(hk_heap_lost_count(), 0u);
  hk_heap_leave(mine);
  EXPECT_NE(hk_heap_take(), mine);
}

HK_FRESH_TEST(Heap, LostHeapsStayLost) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  hk_heap_enter(heaps[0]);
  Repair(HK_EMPTY_HEAP);
  hk_heap_leave(heaps[0]); /* as a half-done change may look */
  Repair(HK_EMPTY_HEAP);
  EXPECT_EQ(hk_heap_lost_count(), 1u);
  EXPECT_EQ(LifeOf(heaps[0]), hk_heap_lost);
  EXPECT_EQ(hk_heap_take(), heaps[1]);
  EXPECT_NE(hk_heap_take(), heaps[0]);
}

HK_FRESH_TEST(Heap, RepairFindsTheHeapThatWasOnItsWayIntoThePool) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  hk_heap_give_back(heaps[0]);
  heaps[0]->pool_next = heaps[0]; /* whatever a vanished thread left there */
  Repair(HK_EMPTY_HEAP);
  std::set<hk_heap_t *> taken = {hk_heap_take(), hk_heap_take()};
  EXPECT_EQ(taken, std::set<hk_heap_t *>(heaps.begin(), heaps.end()));
  EXPECT_NE(hk_heap_take(), nullptr);
  EXPECT_EQ(HeapCount(), 3u);
}

// Takes heaps until it is this one.
bool TakeOut(const hk_heap_t *heap) {
  for (size_t left = HeapCount(); left > 0; left--) {
    if (hk_heap_take() == heap) return true;
  }
  return false;
}

// A vanished thread's counts may be off by one; what its bins have is right.
HK_FRESH_TEST(Heap, AnOrphansMidBinsAreCountedAnew) {
  for (unsigned length : {0u, 1u, 4u}) {
    SCOPED_TRACE(length);
    std::vector<hk_heap_t *> heaps = TakeMany(2);
    hk_heap_t *mine = heaps[0], *orphan = heaps[1];
    std::vector<hk_block_t *> blocks;
    for (unsigned i = 0; i < length + 3; i++) blocks.push_back(Alloc(orphan, 80));
    while (hk_block_t *block = hk_test::Pop(orphan, 80)) blocks.push_back(block);
    for (unsigned i = 0; i < length; i++) (void)hk_test::FreeOwn(orphan, blocks[i]);
    Repair(mine);
    ASSERT_TRUE(TakeOut(orphan));
    EXPECT_EQ(hk_test::ListLength(orphan->bin[80].free), length);
    for (unsigned i = length; i < blocks.size(); i++) (void)hk_test::FreeOwn(orphan, blocks[i]);
    hk_test::CheckMidBin(orphan, 80);
    std::vector<hk_block_t *> again;
    for (unsigned i = 0; i < 30; i++) again.push_back(Alloc(orphan, 80));
    hk_test::CheckMidBin(orphan, 80);
    for (hk_block_t *block : again) (void)hk_test::FreeOwn(orphan, block);
    hk_test::CheckMidBin(orphan, 80);
    hk_heap_trim(orphan);
    EXPECT_EQ(hk_test::InUseSlabs(), 0u);
  }
}

// Heaps that are taken from below the top and given back on top do not make the pool look deeper.
HK_FRESH_TEST(Heap, ThePoolIsAsDeepAsItIsWhoeverTakesFromTheMiddle) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  std::vector<hk_block_t *> blocks;
  for (int i = 0; i < 20; i++) blocks.push_back(Alloc(heaps[i % 2], 4));
  hk_heap_give_back(heaps[1]);
  hk_heap_give_back(heaps[0]);
  for (int i = 0; i < 20; i++) {
    hk_heap_t *below = heaps[(i + 1) % 2];
    hk_block_t *block = blocks[(i + 1) % 2 + 2 * (i / 2)];
    hk_remote_free_now(hk_test::SpanOf(block), block);
    ASSERT_EQ(hk_heap_take_pending(), below);
    hk_remote_drain(below);
    hk_heap_give_back(below);
    ASSERT_FALSE(hk_heap_pool_is_deep()) << i;
  }
}

HK_FRESH_TEST(Heap, NoOrphansListIsFresh) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) ASSERT_NE(Alloc(heaps[1], i), nullptr);
  ASSERT_TRUE(hk_bin_is_fresh(&heaps[1]->bin[4]));
  Repair(heaps[0]);
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    ASSERT_FALSE(hk_bin_is_fresh(&heaps[1]->bin[i])) << i;
    ASSERT_FALSE(hk_bin_was_fresh(&heaps[1]->bin[i], i)) << i << ": the next thread's first block is of no refill";
  }
}

// Whatever an adopted heap's bins are refilled with: calloc must not take a count for the word "fresh".
HK_FRESH_TEST(Heap, NoMidListOfAnAdoptedOrphanLooksFresh) {
  for (unsigned class_index = HK_TINY_CLASS_MAX + 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    std::vector<hk_heap_t *> heaps = TakeMany(2);
    Repair(heaps[0]);
    ASSERT_TRUE(TakeOut(heaps[1]));
    for (int i = 0; i < 100; i++) {
      ASSERT_FALSE(hk_bin_is_fresh(&heaps[1]->bin[class_index])) << i;
      ASSERT_NE(Alloc(heaps[1], class_index), nullptr);
    }
    hk_heap_trim(heaps[1]);
  }
}

// The list of an adopted orphan's bin is bounded as every other is, however it came to be as long as it is.
HK_FRESH_TEST(Heap, AnAdoptedOrphansMidListsAreBounded) {
  for (unsigned class_index : {65u, 70u, 80u, 104u}) {
    SCOPED_TRACE(class_index);
    std::vector<hk_heap_t *> heaps = TakeMany(2);
    hk_heap_t *orphan = heaps[1];
    std::vector<hk_block_t *> blocks;
    for (unsigned i = 0; i < 500; i++) blocks.push_back(Alloc(orphan, class_index));
    while (hk_test::Pop(orphan, class_index) != nullptr) {
    }
    for (unsigned i = 0; i < 250; i++) (void)hk_test::FreeOwn(orphan, blocks[i]);
    hk_mid_spill(orphan, class_index, 0);
    ASSERT_TRUE(hk_refill(orphan, class_index)); /* many more blocks are in its spans */
    while (hk_test::Pop(orphan, class_index) != nullptr) {
    }
    Repair(heaps[0]);
    ASSERT_TRUE(TakeOut(orphan));
    ASSERT_TRUE(hk_refill(orphan, class_index));
    for (unsigned i = 250; i < 500; i++) {
      unsigned room = hk_test::RoomOf(orphan, class_index);
      (void)hk_test::FreeOwn(orphan, blocks[i]);
      ASSERT_LT(hk_test::ListLength(orphan->bin[class_index].free), room) << i;
    }
    hk_test::CheckMidBin(orphan, class_index);
    hk_mid_spill_all(orphan);
    hk_heap_give_back(orphan);
  }
}

HK_FRESH_TEST(Heap, AnOrphanKeepsItsRunsAndItsBatches) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  hk_heap_t *mine = heaps[0], *orphan = heaps[1];
  void *run = hk_run_alloc(3 * HK_SLAB_BYTES, 1, &zero);
  ASSERT_TRUE(hk_test::SpareRun(orphan, hk_slab_of(run)));
  hk_block_t *block = Alloc(mine, 4);
  hk_remote_free(orphan, hk_test::SpanOf(block), block);
  hk_superslab_repair();
  Repair(mine);
  EXPECT_EQ(hk_test::InUseSlabs(), 4u) << "kept runs are in use";
  ASSERT_TRUE(TakeOut(orphan));
  EXPECT_EQ(hk_test::TakeSpareRun(orphan, 3 * HK_SLAB_BYTES), run);
  hk_remote_flush(orphan);
  EXPECT_EQ(hk_load_relaxed(&mine->shared.incoming), block);
}

// ---- Visits.

std::vector<hk_heap_t *> visited;

void Visit(hk_heap_t *heap) {
  visited.push_back(heap);
  EXPECT_EQ(LifeOf(heap), hk_heap_attached) << "the visitor has it";
}

HK_FRESH_TEST(Heap, EachIdleHeapIsVisitedOnceAndStaysIdle) {
  std::vector<hk_heap_t *> heaps = TakeMany(6);
  hk_heap_enter(heaps[5]);
  hk_heap_give_back(heaps[0]);
  Repair(heaps[1]); /* [2] to [4] become idle too, [5] is lost */
  hk_heap_t *attached = hk_heap_take();
  hk_heap_visit_idle(Visit);

  std::set<hk_heap_t *> idle = {heaps[0], heaps[2], heaps[3], heaps[4]};
  idle.erase(attached);
  EXPECT_EQ(visited.size(), 3u);
  EXPECT_EQ(std::set<hk_heap_t *>(visited.begin(), visited.end()), idle);
  for (hk_heap_t *heap : idle) EXPECT_EQ(LifeOf(heap), hk_heap_idle);
  std::set<hk_heap_t *> taken;
  for (int i = 0; i < 3; i++) taken.insert(hk_heap_take());
  EXPECT_EQ(taken, idle);
}

HK_FRESH_TEST(Heap, AVisitOfNone) {
  hk_heap_visit_idle(Visit);
  hk_heap_t *heap = hk_heap_take();
  hk_heap_visit_idle(Visit);
  EXPECT_TRUE(visited.empty());
  EXPECT_EQ(LifeOf(heap), hk_heap_attached);
}

void TakeWhileVisited(hk_heap_t *heap) {
  hk_heap_t *other = hk_heap_take();
  EXPECT_NE(other, heap);
  visited.push_back(heap);
  visited.push_back(other);
}

HK_FRESH_TEST(Heap, NobodyTakesAHeapThatIsVisited) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  hk_heap_visit_idle(TakeWhileVisited);
  ASSERT_EQ(visited.size(), 4u);
  EXPECT_EQ(visited[0], heaps[1]);
  EXPECT_NE(visited[1], heaps[0]) << "nor one whose turn comes later";
  EXPECT_EQ(visited[2], heaps[0]);
}

#if HK_DEBUG
HK_FRESH_TEST(HeapDeathTest, ABusyHeapCannotBeGivenBack) {
  hk_heap_t *heap = hk_heap_take();
  hk_heap_enter(heap);
  EXPECT_DEATH(hk_heap_give_back(heap), "at rest when it changes hands");
}
#endif

}  // namespace
