// heap/pool: the heaps that no thread has: who gets which, what is looked at without taking it, visits, and what a child of
// fork makes of them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "in_child.h"
#include "os/lock.h"
#include "test_random.h"
#include "unit/heap_driver.h"

namespace {

using hk_test::Alloc;
using hk_test::HeapCount;
using hk_test::TakeMany;
using hk_test::TakePending;

// What happens in the child of a fork whose thread has `mine`.
void Repair(const hk_heap_t *mine) {
  hk_heap_repair();
  hk_heap_adopt_orphans(mine);
}

// ---- Take and give back.

HK_FRESH_TEST(Pool, TheOneGivenBackLastIsTakenFirst) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  for (hk_heap_t *heap : {heaps[1], heaps[0], heaps[2]}) {
    hk_heap_give_back(heap);
    EXPECT_EQ(hk_heap_life(heap), hk_heap_idle);
  }
  for (hk_heap_t *heap : {heaps[2], heaps[0], heaps[1]}) {
    EXPECT_EQ(hk_heap_take(), heap);
    EXPECT_EQ(hk_heap_life(heap), hk_heap_attached);
  }
  EXPECT_EQ(HeapCount(), 3u);
  EXPECT_NE(hk_heap_take(), nullptr);
  EXPECT_EQ(HeapCount(), 4u) << "the pool was empty";
}

HK_FRESH_TEST(Pool, WhatIsInThePoolNeedsNoSystem) {
  hk_heap_t *heap = hk_heap_take();
  hk_heap_give_back(heap);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(hk_heap_take(), heap);
}

HK_FRESH_TEST(Pool, ThreadsNeverHaveTheSameOne) {
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

void Send(hk_heap_t *from, hk_block_t *block) {
  hk_remote_free(from, hk_test::SpanOf(block), block);
  hk_remote_flush(from);
}

HK_FRESH_TEST(Pool, TakePendingTakesOneThatHasBlocksToTakeBack) {
  std::vector<hk_heap_t *> heaps = TakeMany(5);
  std::vector<hk_block_t *> blocks;
  for (hk_heap_t *heap : heaps) blocks.push_back(Alloc(heap, 4));
  EXPECT_EQ(TakePending(), nullptr) << "none is idle";
  Send(heaps[4], blocks[0]); /* a thread has that one */
  for (int i = 1; i < 4; i++) hk_heap_give_back(heaps[i]);
  EXPECT_EQ(TakePending(), nullptr) << "nothing waits for those";
  for (int i : {2, 3, 1}) {
    ASSERT_TRUE(hk_heap_take_this(heaps[i]));
    Send(heaps[4], blocks[i]);
    hk_heap_give_back(heaps[i]);
    EXPECT_EQ(TakePending(), heaps[i]) << "wherever it is in the pool";
    EXPECT_EQ(hk_heap_life(heaps[i]), hk_heap_attached);
    EXPECT_EQ(TakePending(), nullptr);
    hk_remote_drain(heaps[i]);
    hk_heap_give_back(heaps[i]);
  }
  for (int i = 3; i >= 1; i--) EXPECT_EQ(hk_heap_take(), heaps[i]) << "each is where it was";
  EXPECT_EQ(HeapCount(), 5u);
}

HK_FRESH_TEST(Pool, TakeIfAsksWithTheArgumentAndTakesTheFirst) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  auto has_argument = [](hk_heap_t *, unsigned argument) { return argument == 7; };
  EXPECT_EQ(hk_heap_take_if(has_argument, 6), nullptr);
  for (hk_heap_t *heap : heaps) EXPECT_EQ(hk_heap_life(heap), hk_heap_idle) << "who is not wanted stays";
  for (hk_heap_t *heap : heaps) EXPECT_EQ(hk_heap_take_if(has_argument, 7), heap);
  EXPECT_EQ(hk_heap_take_if(has_argument, 7), nullptr);
}

// It is asked before each growth: not all that are idle are looked at.
HK_FRESH_TEST(Pool, TakeIfLooksAtTheFirstSixteen) {
  std::vector<hk_heap_t *> heaps = TakeMany(HK_POOL_SLOTS);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  static std::vector<hk_heap_t *> asked;
  auto note = [](hk_heap_t *heap, unsigned) {
    asked.push_back(heap);
    return false;
  };
  EXPECT_EQ(hk_heap_take_if(note, 0), nullptr);
  EXPECT_EQ(asked, std::vector<hk_heap_t *>(heaps.begin(), heaps.begin() + 16));
}

// ---- One heap and no other.

HK_FRESH_TEST(Pool, TakeThisTakesAnIdleHeapFromItsSlot) {
  std::vector<hk_heap_t *> heaps = TakeMany(HK_POOL_SLOTS);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  for (unsigned i : {0u, 5u, HK_POOL_SLOTS - 1u}) {
    EXPECT_TRUE(hk_heap_take_this(heaps[i])) << i;
    EXPECT_EQ(hk_heap_life(heaps[i]), hk_heap_attached);
    EXPECT_FALSE(hk_heap_take_this(heaps[i])) << "it is taken";
    for (unsigned k = 0; k < HK_POOL_SLOTS; k++) ASSERT_EQ(hk_heap_life(heaps[k]) == hk_heap_idle, k != i) << k;
    hk_heap_give_back(heaps[i]);
  }
}

HK_FRESH_TEST(Pool, TakeThisLeavesAHeapThatIsNotIdle) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  EXPECT_FALSE(hk_heap_take_this(heaps[0])) << "a thread has it";
  hk_heap_give_back(heaps[1]);
  EXPECT_FALSE(hk_heap_take_this(heaps[0]));
  hk_heap_enter(heaps[2]);
  Repair(heaps[0]);
  EXPECT_FALSE(hk_heap_take_this(heaps[2])) << "it is lost";
  EXPECT_EQ(hk_heap_life(heaps[2]), hk_heap_lost);
  EXPECT_EQ(hk_heap_life(heaps[0]), hk_heap_attached);
  EXPECT_EQ(hk_heap_life(heaps[1]), hk_heap_idle);
}

// ---- More than there are slots for.

constexpr unsigned kBeyond = 5;
constexpr unsigned kMany = HK_POOL_SLOTS + kBeyond;

std::vector<hk_heap_t *> GiveBackMany() {
  std::vector<hk_heap_t *> heaps = TakeMany(kMany);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  return heaps;
}

HK_FRESH_TEST(PoolBeyondSlots, TheOneGivenBackLastIsTakenFirst) {
  std::vector<hk_heap_t *> heaps = GiveBackMany();
  for (hk_heap_t *heap : heaps) EXPECT_EQ(hk_heap_life(heap), hk_heap_idle);
  for (int round = 0; round < 3; round++) {
    for (unsigned i = kMany; i-- > 0;) {
      ASSERT_EQ(hk_heap_take(), heaps[i]) << i;
      ASSERT_EQ(hk_heap_life(heaps[i]), hk_heap_attached);
    }
    for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  }
  EXPECT_EQ(HeapCount(), kMany);
}

HK_FRESH_TEST(PoolBeyondSlots, ASlotThatIsFreeIsFilledFirst) {
  std::vector<hk_heap_t *> heaps = GiveBackMany();
  ASSERT_TRUE(hk_heap_take_this(heaps[3]));
  hk_heap_t *last = hk_heap_take();
  ASSERT_EQ(last, heaps[kMany - 1]);
  hk_heap_give_back(last);
  EXPECT_EQ(hk_heap_take(), heaps[kMany - 2]) << "that one is in the slot now";
  EXPECT_EQ(hk_heap_take_if([](hk_heap_t *, unsigned) { return true; }, 0), heaps[0]);
  EXPECT_TRUE(hk_heap_take_this(last));
}

HK_FRESH_TEST(PoolBeyondSlots, TakeThisFindsItThereToo) {
  std::vector<hk_heap_t *> heaps = GiveBackMany();
  for (unsigned i : {HK_POOL_SLOTS + 2u, HK_POOL_SLOTS + 0u, kMany - 1}) { /* the middle, the oldest, the newest */
    EXPECT_TRUE(hk_heap_take_this(heaps[i])) << i;
    EXPECT_EQ(hk_heap_life(heaps[i]), hk_heap_attached);
    EXPECT_FALSE(hk_heap_take_this(heaps[i]));
  }
  EXPECT_EQ(hk_heap_take(), heaps[HK_POOL_SLOTS + 3]) << "the others are in their order";
  EXPECT_EQ(hk_heap_take(), heaps[HK_POOL_SLOTS + 1]);
  EXPECT_EQ(hk_heap_take(), heaps[HK_POOL_SLOTS - 1]) << "then the slots";
}

HK_FRESH_TEST(PoolBeyondSlots, TakeIfLooksAtSlotsOnly) {
  std::vector<hk_heap_t *> heaps = TakeMany(kMany);
  for (unsigned i = 0; i + 1 < kMany; i++) hk_heap_give_back(heaps[i]);
  hk_block_t *block = Alloc(heaps[kMany - 1], 4);
  hk_remote_free_now(hk_test::SpanOf(block), block);
  hk_heap_give_back(heaps[kMany - 1]);
  EXPECT_EQ(TakePending(), nullptr);
  EXPECT_TRUE(hk_heap_take_this(heaps[kMany - 1]));
}

// ---- Whether many heaps are idle.

HK_FRESH_TEST(Pool, ThePoolIsDeepFromSoManyIdleHeapsOn) {
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

// It is a look at the slots that are filled first: one of them that is empty will do.
HK_FRESH_TEST(Pool, ThePoolIsNotDeepWhileOneOfItsFirstIsTaken) {
  std::vector<hk_heap_t *> heaps = TakeMany(3 * HK_POOL_WARM);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  for (unsigned i = 0; i < heaps.size(); i++) {
    ASSERT_TRUE(hk_heap_take_this(heaps[i]));
    EXPECT_EQ(hk_heap_pool_is_deep(), i >= HK_POOL_WARM) << i;
    hk_heap_give_back(heaps[i]);
    EXPECT_TRUE(hk_heap_pool_is_deep());
  }
}

void VisitAnIdleHeap(hk_heap_t *) {}

HK_FRESH_TEST(Pool, ThePoolIsAsDeepAfterAVisitAndInAChildOfFork) {
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

// ---- In a child of fork.

HK_FRESH_TEST(Pool, RepairMakesHeapsOfVanishedThreadsIdleOrLost) {
  std::vector<hk_heap_t *> heaps = TakeMany(5);
  hk_heap_t *mine = heaps[0], *resting = heaps[1], *changing = heaps[2], *idle = heaps[3], *another = heaps[4];
  hk_heap_enter(changing);
  hk_heap_give_back(idle);
  EXPECT_EQ(hk_heap_count(hk_heap_lost), 0u);

  Repair(mine);
  EXPECT_EQ(hk_heap_count(hk_heap_lost), 1u);
  EXPECT_EQ(hk_heap_life(changing), hk_heap_lost);
  EXPECT_EQ(hk_heap_life(mine), hk_heap_attached);
  for (hk_heap_t *heap : {resting, idle, another}) EXPECT_EQ(hk_heap_life(heap), hk_heap_idle);

  std::set<hk_heap_t *> taken;
  for (int i = 0; i < 3; i++) taken.insert(hk_heap_take());
  EXPECT_EQ(taken, (std::set<hk_heap_t *>{resting, idle, another})) << "each is in the pool once";
  EXPECT_EQ(HeapCount(), 5u);
  EXPECT_NE(hk_heap_take(), nullptr);
  EXPECT_EQ(HeapCount(), 6u) << "a lost heap is never taken";
}

HK_FRESH_TEST(Pool, TheForkingThreadsHeapStaysItsOwnWhateverItWasDoing) {
  hk_heap_t *mine = hk_heap_take();
  hk_heap_enter(mine); /* a signal handler forked */
  Repair(mine);
  EXPECT_EQ(hk_heap_life(mine), hk_heap_attached);
  EXPECT_EQ(hk_heap_count(hk_heap_lost), 0u);
  hk_heap_leave(mine);
  EXPECT_NE(hk_heap_take(), mine);
}

HK_FRESH_TEST(Pool, LostHeapsStayLost) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  hk_heap_enter(heaps[0]);
  Repair(HK_EMPTY_HEAP);
  hk_heap_leave(heaps[0]); /* as a half-done change may look */
  Repair(HK_EMPTY_HEAP);
  EXPECT_EQ(hk_heap_count(hk_heap_lost), 1u);
  EXPECT_EQ(hk_heap_life(heaps[0]), hk_heap_lost);
  EXPECT_EQ(hk_heap_take(), heaps[1]);
  EXPECT_NE(hk_heap_take(), heaps[0]);
}

HK_FRESH_TEST(Pool, RepairFindsTheHeapThatWasOnItsWayIntoThePool) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  hk_heap_give_back(heaps[0]);
  heaps[0]->pool_link = {&heaps[0]->pool_link, nullptr}; /* whatever a vanished thread left there */
  Repair(HK_EMPTY_HEAP);
  std::set<hk_heap_t *> taken = {hk_heap_take(), hk_heap_take()};
  EXPECT_EQ(taken, std::set<hk_heap_t *>(heaps.begin(), heaps.end()));
  EXPECT_NE(hk_heap_take(), nullptr);
  EXPECT_EQ(HeapCount(), 3u);
}

// Its slot is empty and it does not say yet that somebody has it: nobody touched it.
HK_FRESH_TEST(Pool, RepairFindsTheHeapThatWasBetweenItsSlotAndATaker) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  hk_heap_give_back(heaps[0]);
  ASSERT_EQ(hk_heap_take(), heaps[0]);
  hk_store_relaxed(&heaps[0]->life, hk_heap_idle);
  Repair(heaps[1]);
  EXPECT_EQ(hk_heap_life(heaps[0]), hk_heap_idle);
  EXPECT_TRUE(hk_heap_take_this(heaps[0]));
  EXPECT_FALSE(hk_heap_take_this(heaps[0])) << "in one slot";
  EXPECT_NE(hk_heap_take(), heaps[0]);
}

// Takes heaps until it is this one.
bool TakeOut(const hk_heap_t *heap) {
  for (size_t left = HeapCount(); left > 0; left--) {
    if (hk_heap_take() == heap) return true;
  }
  return false;
}

// A vanished thread's counts may be off by one; what its bins have is right.
HK_FRESH_TEST(Pool, AnOrphansMidBinsAreCountedAnew) {
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

HK_FRESH_TEST(Pool, NoOrphansListIsFresh) {
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
HK_FRESH_TEST(Pool, NoMidListOfAnAdoptedOrphanLooksFresh) {
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
HK_FRESH_TEST(Pool, AnAdoptedOrphansMidListsAreBounded) {
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

HK_FRESH_TEST(Pool, AnOrphanKeepsItsRunsAndItsBatches) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  hk_heap_t *mine = heaps[0], *orphan = heaps[1];
  bool zero;
  void *run = hk_run_alloc(3 * HK_SLAB_BYTES, 1, &zero);
  ASSERT_TRUE(hk_test::SpareRun(orphan, hk_slab_of(run)));
  hk_block_t *block = Alloc(mine, 4);
  hk_remote_free(orphan, hk_test::SpanOf(block), block);
  hk_shelf_repair();
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
  EXPECT_EQ(hk_heap_life(heap), hk_heap_attached) << "the visitor has it";
}

HK_FRESH_TEST(Pool, EachIdleHeapIsVisitedOnceAndStaysIdle) {
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
  for (hk_heap_t *heap : idle) EXPECT_EQ(hk_heap_life(heap), hk_heap_idle);
  std::set<hk_heap_t *> taken;
  for (int i = 0; i < 3; i++) taken.insert(hk_heap_take());
  EXPECT_EQ(taken, idle);
}

HK_FRESH_TEST(Pool, AVisitOfNone) {
  hk_heap_visit_idle(Visit);
  hk_heap_t *heap = hk_heap_take();
  hk_heap_visit_idle(Visit);
  EXPECT_TRUE(visited.empty());
  EXPECT_EQ(hk_heap_life(heap), hk_heap_attached);
}

void TakeWhileVisited(hk_heap_t *heap) {
  visited.push_back(heap);
  EXPECT_FALSE(hk_heap_take_this(heap));
  EXPECT_NE(hk_heap_take_if([](hk_heap_t *, unsigned) { return true; }, 0), heap);
  hk_heap_t *other = hk_heap_take();
  EXPECT_NE(other, heap);
  visited.push_back(other);
}

HK_FRESH_TEST(Pool, NobodyTakesAHeapThatIsVisited) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  hk_heap_visit_idle(TakeWhileVisited);
  ASSERT_EQ(visited.size(), 2u) << "the other was taken before its turn: it is not idle";
  EXPECT_EQ(visited[0], heaps[0]);
  EXPECT_EQ(HeapCount(), 3u) << "and then there was none";
  EXPECT_EQ(hk_heap_life(heaps[0]), hk_heap_idle);
  EXPECT_EQ(hk_heap_life(heaps[1]), hk_heap_attached);
}

HK_FRESH_TEST(Pool, AVisitGoesOnWhereSlotsAreFreeBetween) {
  std::vector<hk_heap_t *> heaps = TakeMany(6);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  for (unsigned i : {0u, 3u}) ASSERT_TRUE(hk_heap_take_this(heaps[i]));
  hk_heap_visit_idle(Visit);
  EXPECT_EQ(visited, (std::vector<hk_heap_t *>{heaps[1], heaps[2], heaps[4], heaps[5]})) << "each once";
}

HK_FRESH_TEST(PoolBeyondSlots, EachIdleHeapIsVisitedOnceAndStaysIdle) {
  for (int round = 1; round <= 3; round++) {
    static std::vector<hk_heap_t *> heaps;
    if (heaps.empty()) heaps = GiveBackMany();
    visited.clear();
    hk_heap_visit_idle(Visit);
    EXPECT_EQ(visited.size(), kMany);
    EXPECT_EQ(std::set<hk_heap_t *>(visited.begin(), visited.end()), std::set<hk_heap_t *>(heaps.begin(), heaps.end()));
    for (hk_heap_t *heap : heaps) EXPECT_EQ(hk_heap_life(heap), hk_heap_idle);
  }
  std::set<hk_heap_t *> taken;
  for (unsigned i = 0; i < kMany; i++) taken.insert(hk_heap_take());
  EXPECT_EQ(taken, std::set<hk_heap_t *>(visited.begin(), visited.end()));
  EXPECT_EQ(HeapCount(), kMany);
}

HK_FRESH_TEST(PoolBeyondSlots, NobodyTakesAHeapThatIsVisited) {
  std::vector<hk_heap_t *> heaps = GiveBackMany();
  hk_heap_visit_idle([](hk_heap_t *heap) {
    visited.push_back(heap);
    EXPECT_FALSE(hk_heap_take_this(heap));
  });
  EXPECT_EQ(std::set<hk_heap_t *>(visited.begin(), visited.end()).size(), kMany);
}

HK_FRESH_TEST(PoolBeyondSlots, AChildOfForkFindsThemAll) {
  std::vector<hk_heap_t *> heaps = GiveBackMany();
  hk_heap_t *mine = hk_heap_take(); /* one that was beyond */
  hk_heap_t *lost = hk_heap_take();
  hk_heap_enter(lost);
  for (hk_heap_t *heap : heaps)
    heap->pool_link = {&heap->pool_link, nullptr}; /* whatever vanished threads left there */
  Repair(mine);
  EXPECT_FALSE(hk_heap_take_this(lost));
  EXPECT_FALSE(hk_heap_take_this(mine));
  std::set<hk_heap_t *> taken;
  for (unsigned i = 2; i < kMany; i++) taken.insert(hk_heap_take());
  EXPECT_EQ(taken.size(), kMany - 2);
  EXPECT_EQ(taken.count(mine) + taken.count(lost), 0u);
  EXPECT_EQ(HeapCount(), kMany);
}

// ---- Threads.

// Takers of every kind at once, with more idle heaps than slots. Who has a heap writes a plain field of it.
HK_FRESH_TEST(PoolBeyondSlots, ThreadsNeverHaveTheSameOne) {
  constexpr int kThreads = 4;
  constexpr size_t kHold = 14;
  static std::vector<hk_heap_t *> heaps;
  static std::atomic<int> failures{0};
  static auto hold = [](hk_heap_t *heap) {
    if (heap->span_slabs++ != 0) failures++;
  };
  static auto let_go = [](hk_heap_t *heap) {
    if (--heap->span_slabs != 0) failures++;
  };
  heaps = TakeMany(kThreads * kHold);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([t] {
      hakmem_test::TestRandom random(t);
      std::vector<hk_heap_t *> mine;
      for (int i = 0; i < 20000; i++) {
        hk_heap_t *heap = nullptr;
        if (mine.size() == kHold || (!mine.empty() && random.OneIn(2))) {
          std::swap(mine[random.Below(mine.size())], mine.back());
          let_go(mine.back());
          hk_heap_give_back(mine.back());
          mine.pop_back();
        } else if (random.OneIn(3)) {
          heap = hk_heap_take();
        } else if (random.OneIn(2)) {
          hk_heap_t *wanted = heaps[random.Below(heaps.size())];
          if (hk_heap_take_this(wanted)) heap = wanted;
        } else {
          heap = hk_heap_take_if([](hk_heap_t *any, unsigned) { return !hk_remote_is_pending(any); }, 0);
        }
        if (heap != nullptr) hold(heap), mine.push_back(heap);
        if (i % 1000 == 0) hk_heap_visit_idle([](hk_heap_t *visited_one) { hold(visited_one), let_go(visited_one); });
      }
      for (hk_heap_t *heap : mine) let_go(heap), hk_heap_give_back(heap);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  size_t count = HeapCount();
  std::set<hk_heap_t *> taken;
  for (size_t i = 0; i < count; i++) taken.insert(hk_heap_take());
  EXPECT_EQ(taken.size(), count);
  EXPECT_EQ(HeapCount(), count) << "every one is in the pool, and once";
}

// ---- In a child that forks made: whoever asks first waits for the repair.

std::atomic<int> repairs;

void RepairOnce() {
  hk_heap_repair();
  repairs++;
}

template <typename Body>
int InRepairedChild(void (*repair)(), Body body) {
  EXPECT_TRUE(hk_lock_init(repair));
  return hk_test::InChild([body] {
    body();
    HK_CHILD_CHECK(repairs == 1);
    return testing::Test::HasFailure() ? 1 : 0;
  });
}

HK_FRESH_TEST(PoolInAForkedChild, WhatWasAttachedIsNotTaken) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  hk_heap_give_back(heaps[1]);
  EXPECT_EQ(InRepairedChild(RepairOnce,
                            [heaps] {
                              EXPECT_EQ(hk_heap_take(), heaps[1]);
                              EXPECT_EQ(hk_heap_life(heaps[0]), hk_heap_orphan);
                              EXPECT_FALSE(hk_heap_take_this(heaps[0]));
                              EXPECT_NE(hk_heap_take(), heaps[0]);
                            }),
            0);
}

HK_FRESH_TEST(PoolInAForkedChild, EachWayInRepairsFirst) {
  hk_heap_t *heap = hk_heap_take();
  hk_heap_give_back(heap);
  static hk_heap_t *idle;
  idle = heap;
  void (*const ways[])() = {[] { EXPECT_EQ(hk_heap_take(), idle); }, [] { EXPECT_TRUE(hk_heap_take_this(idle)); },
                            [] { EXPECT_EQ(hk_heap_take_if([](hk_heap_t *, unsigned) { return true; }, 0), idle); },
                            [] {
                              hk_heap_visit_idle([](hk_heap_t *visited_one) {
                                EXPECT_EQ(repairs, 1);
                                EXPECT_EQ(visited_one, idle);
                                visited.push_back(visited_one);
                              });
                              EXPECT_EQ(visited.size(), 1u);
                            }};
  for (auto way : ways) EXPECT_EQ(InRepairedChild(RepairOnce, way), 0);
}

std::atomic<bool> gives_back, has_given_back;

// Time for a thread that does not wait to go wrong; one that does is not hurried.
void RepairWhileAnotherGivesBack() {
  while (!gives_back) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(has_given_back) << "or the heap would be in two slots";
  hk_heap_repair();
  repairs++;
}

HK_FRESH_TEST(PoolInAForkedChild, WhoGivesBackWaitsForTheRepair) {
  hk_heap_t *mine = hk_heap_take();
  EXPECT_EQ(InRepairedChild(RepairWhileAnotherGivesBack,
                            [mine] {
                              std::thread repairer([] { hk_lock_wait_for_repair(); });
                              std::thread giver([mine] {
                                gives_back = true;
                                hk_heap_give_back(mine);
                                has_given_back = true;
                              });
                              repairer.join();
                              giver.join();
                              EXPECT_EQ(hk_heap_take(), mine);
                              EXPECT_NE(hk_heap_take(), mine);
                            }),
            0);
}

#if HK_DEBUG
HK_FRESH_TEST(PoolDeathTest, ABusyHeapCannotBeGivenBack) {
  hk_heap_t *heap = hk_heap_take();
  hk_heap_enter(heap);
  EXPECT_DEATH(hk_heap_give_back(heap), "at rest when it changes hands");
}
#endif

}  // namespace
