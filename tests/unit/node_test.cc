// os/node: which node a thread is on, and that knowing it costs nothing where there is one.
#include <thread>

#include "fake_os.h"
#include "fresh_test.h"
#include "os/node.h"

namespace {

unsigned Known() { return hk_load_relaxed(&hk_node_count); }

HK_FRESH_TEST(Node, NoNodeIsAskedForBeforeItMatters) {
  EXPECT_EQ(Known(), 0u);
  EXPECT_FALSE(hk_node_is_only_one());
  EXPECT_EQ(fake_os_node_questions(), 0u);
}

HK_FRESH_TEST(Node, OneNodeIsAskedForOnce) {
  fake_os_move_to_node(5); /* what the system calls the only one makes no difference */
  for (int i = 0; i < 100; i++) EXPECT_EQ(hk_node_current(), 0u);
  EXPECT_TRUE(hk_node_is_only_one());
  EXPECT_EQ(Known(), 1u);
  EXPECT_EQ(fake_os_node_questions(), 1u);
}

HK_FRESH_TEST(Node, EachThreadIsWhereItIs) {
  fake_os_set_node_count(4);
  for (unsigned node : {2u, 0u, 3u, 3u, 1u}) {
    fake_os_move_to_node(node);
    EXPECT_EQ(hk_node_current(), node);
  }
  std::thread([] {
    EXPECT_EQ(hk_node_current(), 0u);
    fake_os_move_to_node(2);
    EXPECT_EQ(hk_node_current(), 2u);
  }).join();
  EXPECT_EQ(hk_node_current(), 1u);
  EXPECT_EQ(Known(), 4u);
  EXPECT_FALSE(hk_node_is_only_one());
}

HK_FRESH_TEST(Node, ANodeThatCameLaterSharesWithAnother) {
  fake_os_set_node_count(2);
  EXPECT_EQ(hk_node_current(), 0u);
  fake_os_set_node_count(3); /* the count is read once */
  fake_os_move_to_node(2);
  EXPECT_LT(hk_node_current(), 2u);
  EXPECT_EQ(Known(), 2u);
}

HK_FRESH_TEST(Node, MoreThanAreToldApartShare) {
  fake_os_set_node_count(1024);
  for (unsigned node : {0u, 63u, 64u, 500u, 1023u}) {
    fake_os_move_to_node(node);
    EXPECT_LT(hk_node_current(), HK_NODE_MAX);
  }
  EXPECT_EQ(Known(), HK_NODE_MAX);
}

}  // namespace
