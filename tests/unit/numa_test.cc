// Several memory nodes, over the fake machine: superslabs belong to one, a thread takes from its own first, and what it
// could not is counted. The thread of a test is moved from node to node, as a scheduler might.
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "nodes_test.h"
#include "scale.h"
#include "test_random.h"
#include "unit/heap_driver.h"

using namespace hk_test;

namespace {

constexpr unsigned kAll = HK_SUPERSLAB_SLABS;

HK_NODES_SUITE(Numa);

hk_slab_t *AcquireOn(unsigned node, unsigned count) {
  fake_os_move_to_node(node);
  return hk_superslab_acquire(count, 1, hk_from_bottom);
}

void Release(hk_slab_t *first, unsigned count) {
  hk_slab_retire(first, count);
  hk_superslab_release(first, count);
}
void Release(hk_slab_t *first) { Release(first, first->slab_count); }

unsigned NodeOf(const hk_slab_t *slab) { return slab->superslab->shard; }

uint64_t Misses() { return hk_load_relaxed(&hk_stat_process.value[hk_stat_numa_miss]); }
size_t SuperslabCount() { return hk_superslab_usage().superslab_count; }

void RetainEverything() { hk_option.retain = HK_TIB; }

// Whether the system has address space to give. What there is can be given back in any case.
// Where they are granted again, the shortage is over.
void RefuseMappings(bool refuse) {
  fake_os_fail_all(fake_os_reserve, refuse);
  if (!refuse) fake_os_advance(uint64_t{1000000000});
}

uint64_t *WordOf(const hk_slab_t *slab) { return reinterpret_cast<uint64_t *>(hk_slab_start(slab)); }

// One slab of a superslab of each node.
std::vector<hk_slab_t *> AcquireOnEach(unsigned nodes, unsigned count = 1) {
  std::vector<hk_slab_t *> slabs;
  for (unsigned node = 0; node < nodes; node++) slabs.push_back(AcquireOn(node, count));
  return slabs;
}

// ---- One's own first.

HK_NODES_TEST(Numa, EachNodeHasSuperslabsOfItsOwn) {
  std::vector<hk_slab_t *> first = AcquireOnEach(nodes);
  EXPECT_EQ(SuperslabCount(), nodes) << "the others' have room, and are not one's own";
  std::vector<hk_slab_t *> second = AcquireOnEach(nodes);
  EXPECT_EQ(SuperslabCount(), nodes);
  for (unsigned node = 0; node < nodes; node++) {
    EXPECT_EQ(NodeOf(first[node]), node);
    EXPECT_EQ(second[node], first[node] + 1);
  }
  EXPECT_EQ(Misses(), 0u);
}

HK_NODES_TEST(Numa, WhatOthersHaveIdleIsNotTakenEither) {
  RetainEverything();
  Release(AcquireOn(0, kAll));
  hk_slab_t *own = AcquireOn(1, kAll);
  EXPECT_EQ(NodeOf(own), 1u);
  EXPECT_TRUE(own->is_zero) << "new";
  EXPECT_EQ(SuperslabCount(), 2u);
  EXPECT_EQ(Misses(), 0u);
}

HK_NODES_TEST(Numa, SlabsGoBackToTheirNodeFromAnyThread) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireOnEach(nodes, kAll);
  fake_os_move_to_node(nodes - 1);
  for (hk_slab_t *slab : slabs) Release(slab);
  for (unsigned node = nodes; node-- > 0;) EXPECT_EQ(AcquireOn(node, kAll), slabs[node]);
  EXPECT_EQ(SuperslabCount(), nodes);
}

HK_NODES_TEST(Numa, ASuperslabIsOfTheNodeWhereItIsMadeNotOfTheRecordsLast) {
  hk_slab_t *gone = AcquireOn(0, 1);
  hk_superslab_t *record = gone->superslab;
  Release(gone);
  (void)hk_purge_down_to(0);
  ASSERT_EQ(SuperslabCount(), 0u);
  hk_slab_t *slab = AcquireOn(nodes - 1, 1);
  EXPECT_EQ(slab->superslab, record) << "records are used again";
  EXPECT_EQ(NodeOf(slab), nodes - 1);
  EXPECT_NE(AcquireOn(0, 1)->superslab, record);
  EXPECT_EQ(Misses(), 0u);
}

// ---- Others' where the system refuses.

HK_NODES_TEST(Numa, OthersServeWhereTheSystemRefuses) {
  hk_slab_t *theirs = AcquireOn(0, 1);
  RefuseMappings(true);
  EXPECT_EQ(AcquireOn(nodes - 1, 2), theirs + 1);
  EXPECT_EQ(Misses(), 1u);
  EXPECT_EQ(AcquireOn(0, 1), theirs + 3) << "its own";
  EXPECT_EQ(Misses(), 1u);
  EXPECT_EQ(AcquireOn(nodes - 1, kAll), nullptr) << "no node has all in a row";
  EXPECT_EQ(Misses(), 1u) << "a request that no node could serve is no miss";
  RefuseMappings(false);
  EXPECT_EQ(NodeOf(AcquireOn(nodes - 1, 2)), nodes - 1);
  EXPECT_EQ(Misses(), 1u);
}

HK_NODES_TEST(Numa, AllThatOthersHaveIsFound) {
  (void)AcquireOnEach(nodes);
  RefuseMappings(true);
  std::map<unsigned, unsigned> taken;
  for (hk_slab_t *slab; (slab = AcquireOn(1, 1)) != nullptr;) {
    if (taken.empty()) EXPECT_EQ(NodeOf(slab), 1u) << "its own first";
    if (taken.size() > 1) EXPECT_EQ(taken[1], kAll - 1) << "all of its own before theirs";
    taken[NodeOf(slab)]++;
  }
  for (unsigned node = 0; node < nodes; node++) EXPECT_EQ(taken[node], kAll - 1) << node;
  EXPECT_EQ(Misses(), (nodes - 1) * (kAll - 1));
}

// ---- Memory that large blocks left.

// A range of free addresses that holds memory, where a superslab can be.
uintptr_t LeaveBigBlock() {
  RetainEverything();
  bool is_zero;
  void *big = hk_large_alloc(HK_SUPERSLAB_BYTES, HK_BLOCK_ALIGNMENT, &is_zero);
  memset(big, 0xff, HK_SUPERSLAB_BYTES);
  EXPECT_TRUE(hk_large_free(hk_slab_of(big), big));
  return reinterpret_cast<uintptr_t>(big);
}

HK_NODES_TEST(Numa, WhatALargeBlockLeftIsTakenFromItsNodeFirst) {
  uintptr_t start = LeaveBigBlock();
  hk_slab_t *slab = AcquireOn(1, kAll);
  EXPECT_EQ(hk_slab_start(slab), start);
  EXPECT_EQ(fake_os_calls(fake_os_purge), 1u);
  EXPECT_TRUE(slab->is_zero);
  EXPECT_EQ(*WordOf(slab), 0u);
  EXPECT_EQ(NodeOf(slab), 1u);
}

HK_NODES_TEST(Numa, WhereThatIsRefusedTheMemoryServesAllTheSame) {
  uintptr_t start = LeaveBigBlock();
  fake_os_fail_all(fake_os_purge, true);
  hk_slab_t *slab = AcquireOn(1, kAll);
  EXPECT_EQ(hk_slab_start(slab), start);
  EXPECT_FALSE(slab->is_zero);
}

HK_NODES_TEST(Numa, FreeSuperslabsOfAllNodesBecomeLargeBlocks) {
  RetainEverything();
  for (hk_slab_t *slab : AcquireOnEach(nodes, kAll)) Release(slab);
  EXPECT_TRUE(hk_superslab_dissolve_free(nodes * HK_SUPERSLAB_BYTES));
  EXPECT_EQ(SuperslabCount(), 0u);
  EXPECT_EQ(hk_large_usage().cached_bytes, nodes * HK_SUPERSLAB_BYTES);
}

// ---- Giving back.

HK_NODES_TEST(Numa, WhatIsIdleLongestGoesFirstOnWhicheverNode) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireOnEach(nodes, kAll);
  for (unsigned node = nodes; node-- > 0;) {
    fake_os_advance(1000000); /* within a ms, the order between nodes is not kept */
    Release(slabs[node]);
  }
  for (unsigned left = nodes; left-- > 0;) {
    uintptr_t start = hk_slab_start(slabs[left]);
    EXPECT_EQ(hk_purge_down_to(left * HK_SUPERSLAB_BYTES), HK_SUPERSLAB_BYTES);
    EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start), 1)) << left;
    EXPECT_EQ(SuperslabCount(), left);
  }
  EXPECT_EQ(fake_os_calls(fake_os_unmap), nodes);
}

// ---- Fork.

HK_NODES_TEST(Numa, AChildOfForkKnowsWhoseSuperslabsAre) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireOnEach(nodes, kAll);
  for (hk_slab_t *slab : slabs) Release(slab, 3);
  fake_os_move_to_node(0);
  EXPECT_EQ(hk_test::InChild([nodes, &slabs] {
              /* The links as vanished threads may leave them, and worse. */
              for (hk_slab_t *slab : slabs) {
                memset(&slab->superslab->link, 0xdb, sizeof(hk_list_t));
                memset(&slab->superslab->dirty_link, 0xdb, sizeof(hk_list_t));
              }
              for (hk_superslab_index_t &index : hk_superslab_index) memset(index.bucket, 0xdb, sizeof index.bucket);
              hk_superslab_index_repair();
              for (unsigned node = nodes; node-- > 0;) HK_CHILD_CHECK(AcquireOn(node, 3) == slabs[node]);
              HK_CHILD_CHECK(SuperslabCount() == nodes);
              HK_CHILD_CHECK(NodeOf(AcquireOn(1, 1)) == 1 && SuperslabCount() == nodes + 1);
              HK_CHILD_CHECK(Misses() == 0);
              return 0;
            }),
            0);
}

// ---- Against a model.

struct Held {
  hk_slab_t *first;
  uint64_t stamp;
};

void TakeAsModel(TestRandom *random, unsigned nodes, bool refused, std::vector<Held> *held) {
  unsigned node = static_cast<unsigned>(random->Below(nodes));
  uint64_t misses = Misses();
  hk_slab_t *slab = AcquireOn(node, static_cast<unsigned>(random->LogBetween(1, kAll)));
  if (slab == nullptr) {
    ASSERT_TRUE(refused);
    ASSERT_EQ(Misses(), misses);
    return;
  }
  ASSERT_EQ(Misses(), misses + (NodeOf(slab) != node)) << "each slab of another node is a miss, and nothing else";
  ASSERT_TRUE(refused || NodeOf(slab) == node);
  held->push_back({slab, random->Next()});
  for (unsigned i = 0; i < slab->slab_count; i++) *WordOf(slab + i) = held->back().stamp;
}

void GiveBackAsModel(TestRandom *random, unsigned nodes, std::vector<Held> *held) {
  if (held->empty()) return;
  std::swap((*held)[random->Below(held->size())], held->back());
  Held one = held->back();
  held->pop_back();
  for (unsigned i = 0; i < one.first->slab_count; i++) ASSERT_EQ(*WordOf(one.first + i), one.stamp);
  fake_os_move_to_node(static_cast<unsigned>(random->Below(nodes)));
  Release(one.first);
}

HK_NODES_TEST(Numa, RandomRangesAreOfTheOwnNodeOrCounted) {
  hk_option.retain = 2 * HK_MIB;
  TestRandom random(nodes);
  std::vector<Held> held;
  bool refused = false;
  const size_t steps = Scaled(80000, 8000);
  for (size_t i = 0; i < steps && !testing::Test::HasFailure(); i++) {
    if (i % 500 == 0) RefuseMappings(refused = random.OneIn(2));
    if (random.Below(100) < 52 && held.size() < 200) {
      TakeAsModel(&random, nodes, refused, &held);
    } else {
      GiveBackAsModel(&random, nodes, &held);
    }
    if (i % 1000 == 999) hk_superslab_index_repair(); /* changes nothing */
  }
  EXPECT_GT(Misses(), 100u) << "or nothing was tried";
  while (!held.empty() && !testing::Test::HasFailure()) GiveBackAsModel(&random, nodes, &held);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  (void)hk_purge_down_to(0);
  EXPECT_EQ(SuperslabCount(), 0u);
}

HK_NODES_TEST(Numa, ThreadsOfAllNodesAtOnceKeepToTheirOwn) {
  hk_option.retain = 0; /* ways back to the system all the time */
  (void)hk_node_current();
  const size_t turns = Scaled(4000, 250);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned node = 0; node < nodes; node++) {
    threads.emplace_back([&failures, node, turns] {
      TestRandom random(node);
      for (size_t i = 0; i < turns; i++) {
        hk_slab_t *slabs[3];
        for (hk_slab_t *&slab : slabs) {
          slab = AcquireOn(node, static_cast<unsigned>(random.LogBetween(1, kAll)));
          failures += slab == nullptr || NodeOf(slab) != node;
        }
        for (hk_slab_t *slab : slabs) Release(slab);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(Misses(), 0u);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
}

// ---- A heap.

HK_NODES_TEST(Numa, AHeapGrowsOnItsThreadsNode) {
  std::vector<hk_heap_t *> heaps;
  for (unsigned node = 0; node < nodes; node++) {
    fake_os_move_to_node(node);
    hk_heap_t *heap = heaps.emplace_back(hk_heap_take());
    for (unsigned class_index : {1u, 40u, static_cast<unsigned>(HK_CLASS_COUNT - 1)}) {
      hk_block_t *block = hk_test::Alloc(heap, class_index);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(NodeOf(hk_slab_of(block)), node);
    }
  }
  EXPECT_EQ(Misses(), 0u);
  RefuseMappings(true);
  fake_os_move_to_node(0);
  std::vector<hk_block_t *> blocks;
  for (hk_block_t *block; (block = hk_test::Alloc(heaps[0], HK_CLASS_COUNT - 1)) != nullptr;) blocks.push_back(block);
  std::set<unsigned> from;
  for (hk_block_t *block : blocks) from.insert(NodeOf(hk_slab_of(block)));
  EXPECT_EQ(from.size(), nodes) << "no request fails while another node has room";
  EXPECT_GE(Misses(), nodes - 1);
}

// ---- One node.

HK_FRESH_TEST(NumaOfOneNode, NothingIsAskedForAndNothingElseTouched) {
  RetainEverything();
  uintptr_t start = LeaveBigBlock();
  hk_heap_t *heap = hk_heap_take();
  for (int i = 0; i < 1000; i++) ASSERT_NE(hk_test::Alloc(heap, HK_CLASS_COUNT - 1), nullptr);
  hk_heap_give_back(heap);
  EXPECT_EQ(hk_heap_take(), heap);
  EXPECT_EQ(fake_os_node_questions(), 1u) << "how many there are";
  EXPECT_EQ(fake_os_calls(fake_os_purge), 0u);
  EXPECT_EQ(hk_slab_of(reinterpret_cast<void *>(start))->superslab->shard, 0u);
  for (unsigned node = 1; node < HK_SHARD_MAX; node++) EXPECT_FALSE(hk_superslab_index[node].is_ready);
  RefuseMappings(true);
  while (hk_superslab_acquire(1, 1, hk_from_bottom) != nullptr) continue;
  EXPECT_EQ(Misses(), 0u);
}

}  // namespace
