/* tests/api/quiet_threads_test.cc - what threads keep that live and do nothing serves others, and goes back when the
 * program asks. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
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

using namespace hk_test;

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

/* Threads that free what others allocated, and have next to nothing of their own. A block that waits to be sent keeps
 * its owner's span in use, and each of these threads has some of each owner's when it falls asleep. */
TEST(QuietThreads, TheySendBlocksOfOthersBeforeLong) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's shadow counts as resident";
  constexpr size_t kOwners = 4, kFreeing = 64, kBytes = 512, kBlocks = 16000;
  size_t before = ResidentBytes();
  alarm(60);
  std::vector<std::vector<void *>> blocks(kOwners);
  std::barrier all_allocated(kOwners + kFreeing);
  std::latch all_freed(kFreeing), may_end(1);
  std::vector<std::thread> threads;
  for (std::vector<void *> &own : blocks) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < kBlocks; i++) own.push_back(std::memset(hakmem_malloc(kBytes), 1, kBytes));
      all_allocated.arrive_and_wait();
      may_end.wait();
    });
  }
  for (size_t first = 0; first < kFreeing; first++) {
    threads.emplace_back([&, first] {
      all_allocated.arrive_and_wait();
      for (std::vector<void *> &own : blocks) {
        for (size_t i = first; i < kBlocks; i += kFreeing) hakmem_free(own[i]);
      }
      all_freed.count_down();
      may_end.wait();
    });
  }
  all_freed.wait();
  while (ResidentBytes() > before + kOwners * kBlocks * kBytes / 4)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  may_end.count_down();
  for (std::thread &thread : threads) thread.join();
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
