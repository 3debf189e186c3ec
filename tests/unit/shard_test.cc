// os/shard: how many shards a machine has, and which one a thread is on.
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "os/lock.h"
#include "unit/shards_test.h"

using namespace hk_test;

namespace {

unsigned Known() { return hk_load_relaxed(&hk_shard_count); }

HK_FRESH_TEST(Shard, NothingIsAskedForBeforeItMatters) {
  EXPECT_EQ(Known(), 0u);
  EXPECT_EQ(fake_os_node_questions(), 0u);
}

HK_FRESH_TEST(Shard, UpToEightProcessorsHaveOne) {
  fake_os_set_cpu_count(8);
  for (unsigned cpu : {0u, 7u, 8u, 500u}) { /* some numbers may be left out */
    fake_os_move_to_cpu(cpu);
    EXPECT_EQ(hk_shard_current(), 0u);
  }
  EXPECT_EQ(Known(), 1u);
  EXPECT_EQ(fake_os_node_questions(), 1u) << "where the thread is makes no difference";
}

HK_FRESH_TEST(Shard, EightProcessorsInARowShareOne) {
  fake_os_set_cpu_count(24);
  for (unsigned cpu = 0; cpu < 24; cpu++) {
    fake_os_move_to_cpu(cpu);
    EXPECT_EQ(hk_shard_current(), cpu / 8);
  }
  EXPECT_EQ(Known(), 3u);
  fake_os_move_to_cpu(24); /* it came later */
  EXPECT_LT(hk_shard_current(), 3u);
}

HK_FRESH_TEST(Shard, ALargerMachineHasAsManyAsThereAreLocks) {
  fake_os_set_cpu_count(1024);
  for (unsigned cpu = 0; cpu < 1024; cpu++) {
    fake_os_move_to_cpu(cpu);
    EXPECT_LT(hk_shard_current(), HK_SHARD_MAX);
  }
  EXPECT_EQ(Known(), HK_SHARD_MAX);
  EXPECT_LT(hk_shard_lock(HK_SHARD_MAX - 1), hk_lock_space);
}

HK_FRESH_TEST(Shard, EachNodeHasItsOwn) {
  fake_os_set_node_count(2);
  fake_os_set_cpu_count(40);
  for (unsigned node : {0u, 1u}) {
    fake_os_move_to_node(node);
    for (unsigned cpu : {0u, 8u, 16u, 39u}) {
      fake_os_move_to_cpu(cpu);
      EXPECT_EQ(hk_shard_node(hk_shard_current()), node);
    }
  }
  EXPECT_EQ(Known(), 6u) << "20 processors of a node have three";
}

HK_FRESH_TEST(Shard, ANodeWithoutManyProcessorsHasOne) {
  fake_os_set_node_count(8);
  fake_os_set_cpu_count(16);
  fake_os_move_to_node(5);
  EXPECT_EQ(hk_shard_current(), 5u);
  EXPECT_EQ(hk_shard_node(5), 5u);
  EXPECT_EQ(Known(), 8u);
}

HK_FRESH_TEST(Shard, ThereAreWaysRoundANodeAndRoundTheNodes) {
  fake_os_set_node_count(2);
  fake_os_set_cpu_count(48);
  (void)hk_shard_current();
  std::vector<unsigned> of_node, of_nodes;
  for (unsigned shard = 0; shard < 6; shard++) {
    of_node.push_back(hk_shard_next_of_node(shard));
    of_nodes.push_back(hk_shard_of_next_node(shard));
  }
  EXPECT_EQ(of_node, (std::vector<unsigned>{1, 2, 0, 4, 5, 3}));
  EXPECT_EQ(of_nodes, (std::vector<unsigned>{3, 4, 5, 0, 1, 2}));
}

HK_FRESH_TEST(Shard, WithOneOfEachTheWaysEndWhereTheyBegin) {
  (void)hk_shard_current();
  EXPECT_EQ(hk_shard_next_of_node(0), 0u);
  EXPECT_EQ(hk_shard_of_next_node(0), 0u);
}

HK_FRESH_TEST(Shard, MoreCanBeSetAndFewerChangeNothing) {
  fake_os_set_cpu_count(16);
  hk_shard_set_each(1);
  EXPECT_EQ(Known(), 2u);
  hk_shard_set_each(3);
  EXPECT_EQ(Known(), 3u);
  for (unsigned cpu = 0; cpu < 16; cpu++) {
    fake_os_move_to_cpu(cpu);
    EXPECT_EQ(hk_shard_current(), cpu % 3) << "so that few processors use all";
  }
  hk_shard_set_each(1000);
  EXPECT_EQ(Known(), HK_SHARD_MAX);
}

HK_FRESH_TEST(Shard, TheLimitHoldsForAllNodesTogether) {
  fake_os_set_node_count(5);
  hk_shard_set_each(HK_SHARD_MAX);
  EXPECT_EQ(Known(), HK_SHARD_MAX / 5 * 5);
}

}  // namespace
