/* tests/stress/stress_threads.h - the fixture of the stress tests, and threads that pass blocks on.
 *
 * An alarm ends a test that hangs. No test looks at the clock: what they do is counted, so a run is as long under a
 * debugger as it is alone.
 */
#ifndef HK_TESTS_STRESS_STRESS_THREADS_H
#define HK_TESTS_STRESS_STRESS_THREADS_H

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "stress/stress_blocks.h"
#include "support/in_child.h"
#include "support/scale.h"
#include "support/test_random.h"

namespace hk_test {

/* After so long a test hangs; a longer run may take longer. */
inline unsigned HangSeconds() {
  constexpr double kAtScaleOne = 600, kDay = 86400;
  double seconds = kAtScaleOne * (Scale() > 1 ? Scale() : 1);
  return static_cast<unsigned>(seconds < kDay ? seconds : kDay);
}

class Stress : public testing::Test {
 protected:
  void SetUp() override {
    wrong_count = 0;
    TestSeed(); /* prints it: what hangs or dies says nothing any more */
    alarm(HangSeconds());
  }
  void TearDown() override {
    alarm(0);
    EXPECT_EQ(wrong_count, 0);
    if (!HasFailure()) return;
    const testing::TestInfo *info = testing::UnitTest::GetInstance()->current_test_info();
    std::printf("to repeat it: HAKMEM_TEST_SEED=0x%llx HAKMEM_TEST_SCALE=%g, --gtest_filter=%s.%s\n",
                static_cast<unsigned long long>(TestSeed()), Scale(), info->test_suite_name(), info->name());
  }
};

/* Runs `body` in a child process, so that what it leaves behind is gone with it. If all tests of a program do so,
 * hakmem has no history in any of them, and all that is resident is the body's doing. 0, or how it went wrong: 1 for
 * an expectation that failed there or a wrong block, minus the signal that ended it. */
template <typename Body>
int InFreshProcess(Body body) {
  return hk_test::InChild([&body] {
    alarm(HangSeconds() / 2); /* before the parent's */
    body();
    return wrong_count == 0 && !testing::Test::HasFailure() ? 0 : 1;
  });
}

template <typename Body>
void RunThreads(size_t count, Body body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; i++) threads.emplace_back([body, i] { body(i); });
  for (std::thread &thread : threads) thread.join();
}

/* A place where threads leave blocks for others: any may put, any may take. */
class Mailbox {
 public:
  void Put(std::vector<void *> blocks) {
    std::lock_guard<std::mutex> lock(mutex_);
    blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
  }

  std::vector<void *> TakeAll() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<void *> taken;
    taken.swap(blocks_);
    return taken;
  }

 private:
  std::mutex mutex_;
  std::vector<void *> blocks_;
};

} /* namespace hk_test */

#endif
