// heap/heap: who has which heap, the pool of those that nobody has, and what a child of fork makes of them.
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
  EXPECT_TRUE(hk_list_is_empty(&heap->reserve));
  EXPECT_EQ(heap->reserve_count, 0u);
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(hk_test::Pop(heap, i), nullptr) << i;
    EXPECT_EQ(heap->bin[i].free, HK_LIST_END) << i;
    EXPECT_EQ(heap->state[i].active, nullptr) << i;
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
        if (heap == nullptr || heap->reserve_count++ != 0) failures++;
        if (heap == nullptr) return;
        if (i % 16 == 0) std::this_thread::yield();
        heap->reserve_count--;
        hk_heap_give_back(heap);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_LE(HeapCount(), size_t{kThreads});
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
