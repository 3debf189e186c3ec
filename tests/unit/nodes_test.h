// Tests that run on machines of 2, 4 and 8 memory nodes, each time in a child that finds the core as it is at the start
// of a process (fresh_test.h).
#ifndef HK_TESTS_UNIT_NODES_TEST_H
#define HK_TESTS_UNIT_NODES_TEST_H

#include <gtest/gtest.h>

#include "fake_os.h"
#include "in_child.h"

namespace hk_test {
inline namespace nodes_test {

inline int RunOnMachine(unsigned nodes, void (*body)(unsigned nodes)) {
  return InChild([nodes, body] {
    fake_os_set_node_count(nodes);
    body(nodes);
    return testing::Test::HasFailure() ? 1 : 0;
  });
}

}  // namespace nodes_test
}  // namespace hk_test

// Once in a file; the body of each test has `nodes`.
#define HK_NODES_SUITE(suite)                               \
  class suite : public testing::TestWithParam<unsigned> {}; \
  INSTANTIATE_TEST_SUITE_P(Nodes, suite, testing::Values(2u, 4u, 8u), testing::PrintToStringParamName())

#define HK_NODES_TEST(suite, name)                                                                   \
  static void suite##_##name##_InChild(unsigned nodes);                                              \
  TEST_P(suite, name) { EXPECT_EQ(hk_test::RunOnMachine(GetParam(), suite##_##name##_InChild), 0); } \
  static void suite##_##name##_InChild([[maybe_unused]] unsigned nodes)

#endif  // HK_TESTS_UNIT_NODES_TEST_H
