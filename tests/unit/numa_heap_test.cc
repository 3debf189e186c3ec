// Several memory nodes, over the fake machine: a thread takes an idle heap of its own node first, and a heap no spans
// of another node's. The thread of a test is moved from node to node.
#include <vector>

#include "fake_os.h"
#include "nodes_test.h"
#include "unit/heap_driver.h"

namespace {

HK_NODES_SUITE(NumaHeap);

hk_heap_t *TakeOn(unsigned node) {
  fake_os_move_to_node(node);
  return hk_heap_take();
}

size_t HeapCount() {
  size_t count = 0;
  for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next) count++;
  return count;
}

uint64_t Adoptions(hk_heap_t *heap) { return hk_test::StatOf(heap, hk_stat_numa_adopt); }

std::vector<hk_heap_t *> LeaveHeapOnEach(unsigned nodes) {
  std::vector<hk_heap_t *> heaps;
  for (unsigned node = 0; node < nodes; node++) heaps.push_back(TakeOn(node));
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  return heaps;
}

HK_NODES_TEST(NumaHeap, AnIdleHeapOfTheOwnNodeIsTakenFirst) {
  std::vector<hk_heap_t *> heaps = LeaveHeapOnEach(nodes);
  for (unsigned round = 0; round < 2; round++) {
    for (unsigned i = 0; i < nodes; i++) {
      unsigned node = round == 0 ? i : nodes - 1 - i;
      EXPECT_EQ(TakeOn(node), heaps[node]);
      EXPECT_EQ(Adoptions(heaps[node]), 0u);
    }
    for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  }
  EXPECT_EQ(HeapCount(), nodes);
}

HK_NODES_TEST(NumaHeap, AnothersIsTakenBeforeANewOneIsMadeAndCounted) {
  std::vector<hk_heap_t *> heaps = LeaveHeapOnEach(nodes);
  ASSERT_EQ(TakeOn(0), heaps[0]);
  hk_heap_t *other = TakeOn(0);
  EXPECT_EQ(other, heaps[nodes - 1]) << "left last";
  EXPECT_EQ(HeapCount(), nodes);
  EXPECT_EQ(Adoptions(other), 1u);
  hk_heap_give_back(other);
  EXPECT_EQ(TakeOn(0), other) << "it is of this node now";
  EXPECT_EQ(Adoptions(other), 1u);
}

HK_NODES_TEST(NumaHeap, ManyHeapsOfAnotherNodeDoNotHideOne) {
  std::vector<hk_heap_t *> heaps;
  for (int i = 0; i < 100; i++) heaps.push_back(TakeOn(i == 90 ? 0 : 1));
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  EXPECT_EQ(TakeOn(0), heaps[90]) << "it is in a slot of its node";
  EXPECT_EQ(Adoptions(heaps[90]), 0u);
  EXPECT_EQ(TakeOn(0), heaps[99]) << "the last one beyond the slots";
  EXPECT_EQ(Adoptions(heaps[99]), 1u);
  EXPECT_EQ(HeapCount(), 100u);
  for (int i = 0; i < 98; i++) EXPECT_NE(TakeOn(1), nullptr);
  EXPECT_EQ(HeapCount(), 100u) << "none is lost on the way";
}

HK_NODES_TEST(NumaHeap, AChildOfForkKnowsWhoseHeapsAre) {
  std::vector<hk_heap_t *> heaps = LeaveHeapOnEach(nodes);
  ASSERT_EQ(TakeOn(1), heaps[1]); /* a thread has it when the process forks, and is gone in the child */
  EXPECT_EQ(hk_test::InChild([nodes, &heaps] {
              hk_heap_repair();
              const hk_forker_t forker = {nullptr, HK_EMPTY_HEAP, HK_EMPTY_HEAP};
              hk_orphan_settle_all(&forker);
              for (unsigned node = nodes; node-- > 0;) HK_CHILD_CHECK(TakeOn(node) == heaps[node]);
              return 0;
            }),
            0);
}

// Both heaps are of one class's blocks; the idle one has a span with room.
HK_NODES_TEST(NumaHeap, SpansAreTakenFromIdleHeapsOfTheOwnNodeOnly) {
  constexpr unsigned kClass = 20;
  hk_heap_t *mine = TakeOn(1);
  hk_heap_t *theirs = TakeOn(0);
  hk_block_t *block = hk_test::Alloc(theirs, kClass);
  hk_heap_give_back(theirs);
  fake_os_move_to_node(1);
  EXPECT_FALSE(hk_steal_span(mine, kClass));
  fake_os_move_to_node(0);
  EXPECT_TRUE(hk_steal_span(mine, kClass)) << "the thread is there now, whatever heap it has";
  EXPECT_EQ(hk_load_relaxed(&hk_slab_of(block)->owner), mine);
}

}  // namespace
