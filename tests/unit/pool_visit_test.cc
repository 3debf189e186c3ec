// heap/pool: visits to the heaps that no thread has.
#include <set>
#include <vector>

#include "fresh_test.h"
#include "unit/pool_driver.h"

using namespace hk_test;

namespace {

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

// As api/process_purge.c does after it has purged the heap.
void NoteFlushed(hk_heap_t *heap) { hk_store_relaxed(&heap->is_flushed, true); }

HK_FRESH_TEST(Pool, AHeapThatIsTakenIsNoLongerPurged) {
  std::vector<hk_heap_t *> heaps = TakeMany(kMany); /* some go beyond the slots */
  EXPECT_FALSE(hk_heap_pool_has_unflushed()) << "none is idle";
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  EXPECT_TRUE(hk_heap_pool_has_unflushed());
  hk_heap_visit_idle(NoteFlushed);
  EXPECT_FALSE(hk_heap_pool_has_unflushed());
  for (hk_heap_t *heap : heaps) {
    ASSERT_TRUE(hk_heap_take_this(heap));
    EXPECT_FALSE(hk_heap_pool_has_unflushed()) << "a thread has it";
    hk_heap_give_back(heap);
    EXPECT_TRUE(hk_heap_pool_has_unflushed());
    hk_heap_visit_idle(NoteFlushed);
  }
  hk_heap_give_back(hk_heap_take());
  EXPECT_TRUE(hk_heap_pool_has_unflushed());
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

HK_FRESH_TEST(Pool, NoThreadTakesAHeapThatIsVisited) {
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

HK_FRESH_TEST(PoolBeyondSlots, NoThreadTakesAHeapThatIsVisited) {
  std::vector<hk_heap_t *> heaps = GiveBackMany();
  hk_heap_visit_idle([](hk_heap_t *heap) {
    visited.push_back(heap);
    EXPECT_FALSE(hk_heap_take_this(heap));
  });
  EXPECT_EQ(std::set<hk_heap_t *>(visited.begin(), visited.end()).size(), kMany);
}

}  // namespace
