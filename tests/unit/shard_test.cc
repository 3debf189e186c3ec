// os/shard: how many shards a machine has, and which one a thread is on.
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "os/lock.h"
#include "unit/shards_test.h"

using namespace hk_test;

namespace {

unsigned AtOnce() { return hk_load_relaxed(&hk_shard_at_once); }
unsigned Known() { return hk_load_relaxed(&hk_shard_count); }

HK_FRESH_TEST(Shard, NothingIsAskedForBeforeItMatters) {
  EXPECT_EQ(Known(), 0u);
  EXPECT_EQ(fake_os_node_questions(), 0u);
}

void Divide() { hk_shard_note_threads(2); }

HK_FRESH_TEST(Shard, OneThreadUsesTheFirst) {
  fake_os_set_cpu_count(8);
  for (unsigned cpu : {0u, 7u, 8u, 500u}) {
    fake_os_move_to_cpu(cpu);
    EXPECT_EQ(hk_shard_current(), 0u);
  }
  EXPECT_EQ(Known(), 8u) << "what looks at all of them never misses one";
  EXPECT_EQ(fake_os_node_questions(), 1u) << "where the thread is makes no difference";
  Divide();
  EXPECT_EQ(hk_shard_current(), (500u + 500 / 8) % 8);
}

HK_FRESH_TEST(Shard, EachProcessorHasOne) {
  fake_os_set_cpu_count(24);
  Divide();
  for (unsigned cpu = 0; cpu < 24; cpu++) {
    fake_os_move_to_cpu(cpu);
    EXPECT_EQ(hk_shard_current(), cpu);
  }
  EXPECT_EQ(Known(), 24u);
  fake_os_move_to_cpu(24); /* it came later, or some numbers are left out */
  EXPECT_LT(hk_shard_current(), 24u);
}

HK_FRESH_TEST(Shard, OneProcessorHasOneForAllThreads) {
  fake_os_set_cpu_count(1);
  Divide();
  fake_os_move_to_cpu(3);
  EXPECT_EQ(hk_shard_current(), 0u);
  EXPECT_EQ(hk_load_relaxed(&hk_shard_used), 1u) << "so that it is known without a look at the processor";
}

HK_FRESH_TEST(Shard, ALargerMachineHasAsManyAsThereAreLocks) {
  fake_os_set_cpu_count(1024);
  Divide();
  std::vector<unsigned> processors(HK_SHARD_MAX);
  for (unsigned cpu = 0; cpu < 1024; cpu++) {
    fake_os_move_to_cpu(cpu);
    ASSERT_LT(hk_shard_current(), HK_SHARD_MAX);
    processors[hk_shard_current()]++;
  }
  for (unsigned count : processors) EXPECT_EQ(count, 1024 / HK_SHARD_MAX);
  EXPECT_EQ(Known(), HK_SHARD_MAX);
  EXPECT_LT(hk_shard_lock(HK_SHARD_MAX - 1), hk_lock_space);
}

HK_FRESH_TEST(Shard, EachNodeHasItsOwnAlsoForOneThread) {
  fake_os_set_node_count(2);
  fake_os_set_cpu_count(40);
  for (unsigned node : {0u, 1u}) {
    fake_os_move_to_node(node);
    for (unsigned cpu : {0u, 8u, 16u, 39u}) {
      fake_os_move_to_cpu(cpu);
      EXPECT_EQ(hk_shard_node(hk_shard_current()), node);
    }
  }
  EXPECT_EQ(Known(), 32u) << "20 processors of a node share 16";
}

// The numbers of a node's processors are in a row, or the nodes take turns.
HK_FRESH_TEST(Shard, TheProcessorsOfANodeUseAllOfItsShards) {
  fake_os_set_node_count(2);
  fake_os_set_cpu_count(16);
  fake_os_move_to_node(1);
  std::set<unsigned> in_a_row, in_turn;
  for (unsigned i = 0; i < 8; i++) {
    fake_os_move_to_cpu(8 + i);
    in_a_row.insert(hk_shard_current());
    fake_os_move_to_cpu(2 * i + 1);
    in_turn.insert(hk_shard_current());
  }
  EXPECT_EQ(in_a_row, (std::set<unsigned>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(in_turn, in_a_row);
}

HK_FRESH_TEST(Shard, ANodeWithoutManyProcessorsHasOne) {
  fake_os_set_node_count(8);
  fake_os_set_cpu_count(5);
  fake_os_move_to_node(5);
  EXPECT_EQ(hk_shard_current(), 5u);
  EXPECT_EQ(hk_shard_node(5), 5u);
  EXPECT_EQ(Known(), 8u);
}

HK_FRESH_TEST(Shard, AsManyAreInUseAtOnceAsThereAreThreads) {
  fake_os_set_cpu_count(4);
  (void)hk_shard_current();
  EXPECT_EQ(AtOnce(), 1u);
  for (unsigned threads = 2; threads <= 6; threads++) {
    hk_shard_note_threads(threads);
    EXPECT_EQ(AtOnce(), threads < 4 ? threads : 4u);
  }
}

// What asks the system may come back to malloc, which then waits for the lock that the caller holds.
HK_FRESH_TEST(Shard, ThreadsAreNotedWithoutAQuestion) {
  fake_os_set_node_count(2);
  fake_os_set_cpu_count(4);
  (void)hk_shard_current();
  uint64_t questions = fake_os_node_questions();
  Divide();
  hk_shard_note_threads(3);
  EXPECT_EQ(fake_os_node_questions(), questions);
}

HK_FRESH_TEST(Shard, ThereAreWaysRoundANodeAndRoundTheNodes) {
  fake_os_set_node_count(2);
  fake_os_set_cpu_count(6);
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

HK_FRESH_TEST(Shard, MoreOrFewerCanBeSetAndAreUsedAtOnce) {
  fake_os_set_cpu_count(2);
  hk_shard_set_each(3);
  EXPECT_EQ(Known(), 3u);
  for (unsigned cpu = 0; cpu < 16; cpu++) {
    fake_os_move_to_cpu(cpu);
    EXPECT_EQ(hk_shard_current(), (cpu + cpu / 3) % 3);
  }
  hk_shard_set_each(1);
  EXPECT_EQ(Known(), 3u) << "the number never falls, but only the first is used";
  EXPECT_EQ(hk_shard_current(), 0u);
  hk_shard_set_each(1000);
  EXPECT_EQ(Known(), HK_SHARD_MAX);
  hk_shard_set_each(1);
  hk_shard_note_threads(9);
  fake_os_move_to_cpu(1);
  EXPECT_EQ(hk_shard_current(), 0u) << "as set, also with several threads";
  EXPECT_EQ(AtOnce(), 1u);
}

// A library's constructor may have started threads before the option is read.
HK_FRESH_TEST(Shard, TheNumberDoesNotChangeWhileAThreadHasTheFirstLock) {
  fake_os_set_cpu_count(2);
  (void)hk_shard_current();
  hk_lock_acquire(hk_shard_lock(0));
  std::thread thread([] { hk_shard_set_each(3); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(Known(), 2u);
  hk_lock_release(hk_shard_lock(0));
  thread.join();
  EXPECT_EQ(Known(), 3u);
}

HK_FRESH_TEST(Shard, TheLimitHoldsForAllNodesTogether) {
  fake_os_set_node_count(5);
  hk_shard_set_each(HK_SHARD_MAX);
  EXPECT_EQ(Known(), HK_SHARD_MAX / 5 * 5);
}

}  // namespace
