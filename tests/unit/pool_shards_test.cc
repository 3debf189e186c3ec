// heap/pool on a machine of several shards: each keeps the heaps of its threads.
#include <atomic>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/pool_driver.h"
#include "unit/shards_test.h"

using hk_test::TestRandom;
using namespace hk_test;

namespace {

hk_heap_t *TakeOn(unsigned shard) {
  MoveToShard(shard);
  return hk_heap_take();
}

HK_FRESH_TEST(PoolShards, TheSecondHeapBringsAllShardsIntoUse) {
  fake_os_set_cpu_count(4);
  MoveToShard(3);
  hk_heap_t *first = hk_heap_take();
  EXPECT_EQ(first->shard.load(), 0u);
  EXPECT_EQ(hk_shard_current(), 0u) << "one thread keeps its memory together";
  hk_heap_t *second = hk_heap_take();
  EXPECT_EQ(hk_shard_current(), 3u);
  EXPECT_EQ(hk_load_relaxed(&hk_shard_at_once), 2u);
  hk_heap_give_back(second);
  EXPECT_EQ(hk_heap_take(), second);
  EXPECT_EQ(second->shard.load(), 3u);
}

HK_FRESH_TEST(PoolShards, AThreadGetsAHeapOfItsShardFirst) {
  SetShards(4);
  std::vector<hk_heap_t *> heaps;
  for (unsigned shard = 0; shard < 4; shard++) heaps.push_back(TakeOn(shard));
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  for (unsigned shard : {2u, 0u, 3u, 1u}) EXPECT_EQ(TakeOn(shard), heaps[shard]);
  EXPECT_EQ(HeapCount(), 4u);
}

HK_FRESH_TEST(PoolShards, AHeapIsOfTheShardThatTookIt) {
  SetShards(2);
  hk_heap_t *heap = TakeOn(1), *other = TakeOn(0);
  hk_heap_give_back(other);
  MoveToShard(0); /* the scheduler has moved the thread */
  hk_heap_give_back(heap);
  EXPECT_EQ(TakeOn(1), heap);
}

HK_FRESH_TEST(PoolShards, AnyIdleHeapIsTakenBeforeANewOneIsMade) {
  SetShards(4);
  std::vector<hk_heap_t *> heaps;
  for (unsigned i = 0; i < 8; i++) heaps.push_back(TakeOn(3));
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  for (unsigned i = 0; i < 8; i++) EXPECT_NE(TakeOn(i % 3), nullptr);
  EXPECT_EQ(HeapCount(), 8u);
  EXPECT_NE(TakeOn(3), nullptr);
  EXPECT_EQ(HeapCount(), 9u);
}

HK_FRESH_TEST(PoolShards, AGrowingThreadSeesIdleHeapsOfTheNextShards) {
  SetShards(16);
  hk_heap_t *near = TakeOn(9), *far = TakeOn(10);
  hk_heap_give_back(far);
  hk_heap_give_back(near);
  auto any = [](hk_heap_t *, unsigned) { return true; };
  MoveToShard(2);
  EXPECT_EQ(hk_heap_take_if(any, 0), near);
  EXPECT_EQ(hk_heap_take_if(any, 0), nullptr) << "the look is short";
  MoveToShard(15);
  hk_heap_give_back(near);
  EXPECT_EQ(TakeOn(9), near);
  MoveToShard(10);
  EXPECT_EQ(hk_heap_take_if(any, 0), far);
}

HK_FRESH_TEST(PoolShards, OneHeapIsFoundInTheSlotsOfAnyShard) {
  SetShards(3);
  std::vector<hk_heap_t *> heaps;
  for (unsigned i = 0; i < 3 * 10; i++) heaps.push_back(TakeOn(i % 3));
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  MoveToShard(1);
  for (hk_heap_t *heap : heaps) {
    EXPECT_TRUE(hk_heap_take_this(heap));
    EXPECT_FALSE(hk_heap_take_this(heap));
  }
  EXPECT_FALSE(hk_heap_pool_has_any());
}

HK_FRESH_TEST(PoolShards, EachShardKeepsWarmHeaps) {
  SetShards(2);
  std::vector<hk_heap_t *> heaps;
  for (unsigned i = 0; i < 2 * HK_POOL_WARM; i++) heaps.push_back(TakeOn(i % 2));
  bool is_waited_for;
  for (unsigned shard : {0u, 1u}) {
    MoveToShard(shard);
    for (unsigned i = 0; i < HK_POOL_WARM; i++) {
      EXPECT_FALSE(hk_heap_pool_has_warm());
      EXPECT_TRUE(hk_heap_give_back_warm(heaps[2 * i + shard], &is_waited_for));
    }
    EXPECT_TRUE(hk_heap_pool_has_warm());
  }
}

HK_FRESH_TEST(PoolShards, AHeapBeyondItsShardsSlotsIsInTheList) {
  SetShards(2);
  std::vector<hk_heap_t *> heaps;
  for (unsigned i = 0; i < kMany; i++) heaps.push_back(TakeOn(1));
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  for (unsigned i = kMany; i-- > HK_POOL_SLOTS;) EXPECT_EQ(TakeOn(0), heaps[i]) << "given back last";
  for (unsigned i = HK_POOL_SLOTS; i-- > 0;) EXPECT_EQ(TakeOn(0), heaps[i]);
}

std::vector<hk_heap_t *> visited;

HK_FRESH_TEST(PoolShards, AVisitComesToEachAndLeavesItInItsShard) {
  SetShards(3);
  std::vector<hk_heap_t *> heaps;
  for (unsigned shard : {2u, 0u, 1u}) heaps.push_back(TakeOn(shard));
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  MoveToShard(2); /* where the purge thread is */
  hk_heap_visit_idle([](hk_heap_t *heap) { visited.push_back(heap); });
  EXPECT_EQ(visited, (std::vector<hk_heap_t *>{heaps[1], heaps[2], heaps[0]}));
  EXPECT_EQ(TakeOn(0), heaps[1]);
  EXPECT_EQ(TakeOn(1), heaps[2]);
}

HK_FRESH_TEST(PoolShards, AChildOfForkFindsThemInTheirShards) {
  SetShards(3);
  hk_heap_t *mine = TakeOn(0);
  std::vector<hk_heap_t *> heaps;
  for (unsigned shard : {1u, 2u}) heaps.push_back(TakeOn(shard));
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  Repair(mine);
  EXPECT_EQ(TakeOn(2), heaps[1]);
  EXPECT_EQ(TakeOn(1), heaps[0]);
}

HK_FRESH_TEST(PoolShards, ThreadsThatMoveNeverHaveTheSameOne) {
  SetShards(4);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; t++) {
    threads.emplace_back([&failures, t] {
      TestRandom random(t);
      for (int i = 0; i < 5000; i++) {
        hk_heap_t *heap = TakeOn(static_cast<unsigned>(random.Below(4)));
        if (heap == nullptr || heap->spare_slabs++ != 0) failures++;
        if (heap == nullptr) return;
        if (i % 16 == 0) std::this_thread::yield();
        heap->spare_slabs--;
        MoveToShard(static_cast<unsigned>(random.Below(4)));
        hk_heap_give_back(heap);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace
