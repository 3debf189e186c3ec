// Tests that find the core as it is at the start of a process: each runs in a child of fork, and the parent never uses
// the core itself. So every test may count from zero, and no test sees what another one leaves behind.
#ifndef HK_TESTS_UNIT_FRESH_TEST_H
#define HK_TESTS_UNIT_FRESH_TEST_H

#include <gtest/gtest.h>

#include "in_child.h"

namespace hk_test {
inline namespace fresh_test {

// 0 when every expectation of `body` held; the child prints those that did not.
inline int RunFresh(void (*body)()) {
  return InChild([body] {
    body();
    return testing::Test::HasFailure() ? 1 : 0;
  });
}

}  // namespace fresh_test
}  // namespace hk_test

#define HK_FRESH_TEST(suite, name)                                                 \
  static void suite##_##name##_InChild();                                          \
  TEST(suite, name) { EXPECT_EQ(hk_test::RunFresh(suite##_##name##_InChild), 0); } \
  static void suite##_##name##_InChild()

#endif  // HK_TESTS_UNIT_FRESH_TEST_H
