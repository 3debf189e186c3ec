// heap/pool: what a child of fork makes of the heaps that no thread has.
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "fresh_test.h"
#include "in_child.h"
#include "os/lock.h"
#include "unit/pool_driver.h"

using namespace hk_test;

namespace {

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

// Its slot is empty and it does not say yet that a thread has it: no thread touched it.
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
    while (hk_block_t *block = Pop(orphan, 80)) blocks.push_back(block);
    for (unsigned i = 0; i < length; i++) (void)FreeOwn(orphan, blocks[i]);
    Repair(mine);
    ASSERT_TRUE(TakeOut(orphan));
    EXPECT_EQ(ListLength(orphan->bin[80].free), length);
    for (unsigned i = length; i < blocks.size(); i++) (void)FreeOwn(orphan, blocks[i]);
    CheckMidBin(orphan, 80);
    std::vector<hk_block_t *> again;
    for (unsigned i = 0; i < 30; i++) again.push_back(Alloc(orphan, 80));
    CheckMidBin(orphan, 80);
    for (hk_block_t *block : again) (void)FreeOwn(orphan, block);
    CheckMidBin(orphan, 80);
    hk_heap_flush(orphan);
    EXPECT_EQ(InUseSlabs(), 0u);
  }
}

HK_FRESH_TEST(Pool, NoOrphansListIsFresh) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) ASSERT_NE(Alloc(heaps[1], i), nullptr);
  ASSERT_TRUE(hk_bin_is_fresh(&heaps[1]->bin[4]));
  Repair(heaps[0]);
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    ASSERT_FALSE(hk_bin_is_fresh(&heaps[1]->bin[i])) << i;
    ASSERT_FALSE(hk_heap_was_fresh(heaps[1], i)) << i << ": the next thread's first block is of no refill";
  }
}

// A bin whose idle look found blocks in use counts down to 0. The owner may vanish before it acts on that.
HK_FRESH_TEST(Pool, NoFreeIntoAnOrphansBinMakesItFresh) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  hk_block_t *one = Alloc(heaps[1], 8), *other = Alloc(heaps[1], 8);
  (void)FreeOwn(heaps[1], one);
  heaps[1]->bin[8].countdown = 0;
  Repair(heaps[0]);
  (void)FreeOwn(heaps[1], other);
  EXPECT_FALSE(hk_bin_is_fresh(&heaps[1]->bin[8]));
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
    hk_heap_flush(heaps[1]);
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
    while (Pop(orphan, class_index) != nullptr) {
    }
    for (unsigned i = 0; i < 250; i++) (void)FreeOwn(orphan, blocks[i]);
    hk_mid_spill(orphan, class_index, 0);
    ASSERT_TRUE(hk_refill(orphan, class_index, nullptr)); /* many more blocks are in its spans */
    while (Pop(orphan, class_index) != nullptr) {
    }
    Repair(heaps[0]);
    ASSERT_TRUE(TakeOut(orphan));
    ASSERT_TRUE(hk_refill(orphan, class_index, nullptr));
    for (unsigned i = 250; i < 500; i++) {
      unsigned room = RoomOf(orphan, class_index);
      (void)FreeOwn(orphan, blocks[i]);
      ASSERT_LT(ListLength(orphan->bin[class_index].free), room) << i;
    }
    CheckMidBin(orphan, class_index);
    hk_mid_spill_all(orphan);
    hk_heap_give_back(orphan);
  }
}

HK_FRESH_TEST(Pool, AnOrphanKeepsItsRunsAndItsBatches) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  hk_heap_t *mine = heaps[0], *orphan = heaps[1];
  bool is_zero;
  void *run = hk_run_alloc(3 * HK_SLAB_BYTES, 1, &is_zero);
  ASSERT_TRUE(SpareRun(orphan, hk_slab_of(run)));
  hk_block_t *block = Alloc(mine, 4);
  hk_remote_free(orphan, SpanOf(block), block);
  hk_superslab_index_repair();
  Repair(mine);
  EXPECT_EQ(InUseSlabs(), 4u) << "kept runs are in use";
  ASSERT_TRUE(TakeOut(orphan));
  EXPECT_EQ(TakeSpareRun(orphan, 3 * HK_SLAB_BYTES), run);
  hk_remote_flush(orphan);
  EXPECT_EQ(hk_load_relaxed(&mine->shared.incoming), block);
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

void VisitAnIdleHeap(hk_heap_t *) {}

HK_FRESH_TEST(Pool, ThePoolIsAsDeepAfterAVisitAndInAChildOfFork) {
  std::vector<hk_heap_t *> heaps;
  for (unsigned idle : {1u, HK_POOL_WARM - 1u, HK_POOL_WARM + 0u, HK_POOL_WARM + 1u}) {
    SCOPED_TRACE(idle);
    while (heaps.size() < idle) heaps.push_back(hk_heap_take());
    for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
    for (int round = 0; round < 2 * HK_POOL_WARM; round++) {
      hk_heap_visit_idle(VisitAnIdleHeap);
      ASSERT_EQ(hk_heap_pool_has_warm(), idle >= HK_POOL_WARM);
      Repair(HK_EMPTY_HEAP);
      ASSERT_EQ(hk_heap_pool_has_warm(), idle >= HK_POOL_WARM);
    }
    for (unsigned left = idle; left-- > 0;) {
      ASSERT_NE(hk_heap_take(), nullptr);
      ASSERT_EQ(hk_heap_pool_has_warm(), left >= HK_POOL_WARM);
    }
  }
}

// ---- In a child of fork: the first caller waits for the repair.

std::atomic<int> repairs;

void RepairOnce() {
  hk_heap_repair();
  repairs++;
}

template <typename Body>
int InRepairedChild(void (*repair)(), Body body) {
  EXPECT_TRUE(hk_lock_init(repair));
  return InChild([body] {
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
  static int visits;
  idle = heap;
  void (*const ways[])() = {[] { EXPECT_EQ(hk_heap_take(), idle); }, [] { EXPECT_TRUE(hk_heap_take_this(idle)); },
                            [] { EXPECT_EQ(hk_heap_take_if([](hk_heap_t *, unsigned) { return true; }, 0), idle); },
                            [] {
                              hk_heap_visit_idle([](hk_heap_t *visited_one) {
                                EXPECT_EQ(repairs, 1);
                                EXPECT_EQ(visited_one, idle);
                                visits++;
                              });
                              EXPECT_EQ(visits, 1);
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

HK_FRESH_TEST(PoolInAForkedChild, GivingBackWaitsForTheRepair) {
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

}  // namespace
