// heap/pool: the heaps that no thread has: which thread gets which, and which are looked at but not taken.
#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/pool_driver.h"

using namespace hk_test;

namespace {

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
        /* A plain field of the heap: two threads that have it would also race for ThreadSanitizer. */
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
  hk_remote_free(from, SpanOf(block), block);
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
  for (hk_heap_t *heap : heaps) EXPECT_EQ(hk_heap_life(heap), hk_heap_idle) << "a heap that is not wanted stays";
  for (hk_heap_t *heap : heaps) EXPECT_EQ(hk_heap_take_if(has_argument, 7), heap);
  EXPECT_EQ(hk_heap_take_if(has_argument, 7), nullptr);
}

// It is called before each growth, so it does not look at all idle heaps.
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
  hk_remote_free_now(SpanOf(block), block);
  hk_heap_give_back(heaps[kMany - 1]);
  EXPECT_EQ(TakePending(), nullptr);
  EXPECT_TRUE(hk_heap_take_this(heaps[kMany - 1]));
}

// ---- Whether many heaps are idle.

HK_FRESH_TEST(Pool, ThePoolIsDeepFromItsNumberOfIdleHeapsOn) {
  EXPECT_FALSE(hk_heap_pool_has_warm()) << "there is none";
  constexpr unsigned kHeaps = 2 * HK_POOL_WARM + 1;
  std::vector<hk_heap_t *> heaps = TakeMany(kHeaps);
  EXPECT_FALSE(hk_heap_pool_has_warm()) << "none is idle";
  for (int round = 0; round < 3; round++) {
    for (unsigned idle = 1; idle <= kHeaps; idle++) {
      hk_heap_give_back(heaps[idle - 1]);
      ASSERT_EQ(hk_heap_pool_has_warm(), idle >= HK_POOL_WARM) << idle;
    }
    for (unsigned idle = kHeaps; idle-- > 0;) {
      ASSERT_EQ(hk_heap_take(), heaps[idle]);
      ASSERT_EQ(hk_heap_pool_has_warm(), idle >= HK_POOL_WARM) << idle;
    }
  }
}

// It is a look at the slots that are filled first: one of them that is empty will do.
HK_FRESH_TEST(Pool, ThePoolIsNotDeepWhileOneOfItsFirstIsTaken) {
  std::vector<hk_heap_t *> heaps = TakeMany(3 * HK_POOL_WARM);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  for (unsigned i = 0; i < heaps.size(); i++) {
    ASSERT_TRUE(hk_heap_take_this(heaps[i]));
    EXPECT_EQ(hk_heap_pool_has_warm(), i >= HK_POOL_WARM) << i;
    hk_heap_give_back(heaps[i]);
    EXPECT_TRUE(hk_heap_pool_has_warm());
  }
}

// ---- Threads.

// Takers of every kind at once, with more idle heaps than slots. The thread that has a heap writes a plain field of it.
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
      hk_test::TestRandom random(t);
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
          heap = hk_heap_take_if([](hk_heap_t *any, unsigned) { return !hk_heap_has_incoming(any); }, 0);
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

#if HK_DEBUG
HK_FRESH_TEST(PoolDeathTest, ABusyHeapCannotBeGivenBack) {
  hk_heap_t *heap = hk_heap_take();
  hk_heap_enter(heap);
  EXPECT_DEATH(hk_heap_give_back(heap), "at rest when it changes hands");
}
#endif

}  // namespace
