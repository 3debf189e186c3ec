/* tests/api/quiet_threads_test.cc - what threads keep that live and do nothing goes back when the program asks. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/process_memory.h"
#include "support/scale.h"

using namespace hakmem_test;

namespace {

constexpr int kThreads = 20;

// Each thread frees what it took, of every size, and waits while `body` runs. Then it takes and frees the same again.
void WhileThreadsAreQuiet(const std::function<void()> &body) {
  std::barrier all_quiet(kThreads + 1), may_end(kThreads + 1);
  std::vector<std::thread> threads;
  auto work = [] {
    std::vector<void *> blocks;
    for (size_t bytes = 16; bytes <= 256 * kKiB; bytes += bytes / 8 + 16) {
      blocks.push_back(hakmem_malloc(bytes));
      std::memset(blocks.back(), 1, bytes);
    }
    for (void *block : blocks) hakmem_free(block);
  };
  for (int i = 0; i < kThreads; i++) {
    threads.emplace_back([&] {
      work();
      all_quiet.arrive_and_wait();
      may_end.arrive_and_wait();
      work();
    });
  }
  all_quiet.arrive_and_wait();
  body();
  may_end.arrive_and_wait();
  for (std::thread &thread : threads) thread.join();
}

// The kernel says only of some threads at once that they sleep: the test calls again for those that just fall asleep.
TEST(QuietThreads, MallocTrimReachesWhatTheyKeep) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's shadow counts as resident";
  alarm(60);
  size_t before = ResidentBytes();
  WhileThreadsAreQuiet([before] {
    do (void)hakmem_malloc_trim(0);
    while (ResidentBytes() > before + 4 * kMiB);
  });
  alarm(0);
}

}  // namespace
