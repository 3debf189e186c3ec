/* tests/api/quiet_threads_test.cc - what threads keep that live and do nothing serves others, and goes back when the
 * program asks. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "api/figures_driver.h"
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

/* Returns when the kernel says that the calling process's thread waits. */
void AwaitSleep(pid_t thread) {
  for (std::string state; state != "S"; std::this_thread::yield()) {
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string number, name;
    stat >> number >> name >> state;
  }
}

/* Threads that begin one after the other and then wait share heaps: each of the first 16 has its own. */
TEST(QuietThreads, ThreadsThatComeLaterUseTheirHeaps) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "ThreadSanitizer sees no thread asleep, and others take long";
  constexpr uint64_t kFew = 16, kSlack = 8;
  const uint64_t before = Stats().memory_heaps;
  alarm(60);
  std::latch may_end(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 100; i++) {
    std::promise<pid_t> has_worked;
    threads.emplace_back([&has_worked, &may_end, i] {
      std::vector<void *> blocks;
      for (size_t bytes = 16; bytes <= 2000; bytes += 16) blocks.push_back(std::memset(hakmem_malloc(bytes), i, bytes));
      for (size_t k = 0; k < blocks.size(); k++) {
        if (k % 8 != 0) hakmem_free(blocks[k]);
      }
      has_worked.set_value(gettid());
      may_end.wait();
      for (size_t k = 0; k < blocks.size(); k += 8) {
        EXPECT_EQ(*static_cast<unsigned char *>(blocks[k]), i);
        hakmem_free(blocks[k]);
      }
    });
    AwaitSleep(has_worked.get_future().get());
  }
  EXPECT_LE(Stats().memory_heaps, std::max(before, kFew) + kSlack);
  may_end.count_down();
  for (std::thread &thread : threads) thread.join();
  alarm(0);
}

}  // namespace
