/* tests/api/profile_start_test.cc - a profile that starts brings all threads to a slow path: each keeps its heap. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "api/figures_driver.h"
#include "hakmem/hakmem.h"
#include "support/scale.h"

using namespace hk_test;

namespace {

constexpr size_t kRate = size_t{1} << 30; /* hardly a sample */

bool HasProfile() {
  bool has = hakmem_profile_start(kRate);
  hakmem_profile_stop();
  return has;
}

// The thread finds no heap when it switches to the named one, and takes its own up on the way to a run.
TEST(ProfileStart, AThreadInANamedHeapKeepsItsOwn) {
  if (!HasProfile()) GTEST_SKIP() << "this variant has no profile";
  const size_t count = Scaled(200);
  hakmem_heap_t *heap = hakmem_heap_create("named", nullptr);
  std::barrier turn(2);
  std::thread starter([&] {
    for (size_t i = 0; i < count; i++) {
      turn.arrive_and_wait();
      hakmem_profile_start(kRate);
      hakmem_profile_stop();
      turn.arrive_and_wait();
    }
  });
  hakmem_free(hakmem_malloc(10));
  hakmem_free(hakmem_heap_malloc(heap, 300000));
  size_t before = Heaps().size();
  for (size_t i = 0; i < count; i++) {
    void *block = hakmem_heap_malloc(heap, 1000);
    turn.arrive_and_wait();
    turn.arrive_and_wait();
    block = hakmem_heap_realloc(heap, block, 300000);
    hakmem_free(hakmem_malloc(100));
    hakmem_free(block);
  }
  starter.join();
  EXPECT_LE(Heaps().size(), before + 4);
  hakmem_heap_destroy(heap);
}

// Takes blocks, sleeps, and looks whether they are as they were.
bool KeepsBlocks(unsigned char mark) {
  std::vector<unsigned char *> blocks(200);
  bool are_intact = true;
  for (unsigned char *&block : blocks) {
    block = static_cast<unsigned char *>(hakmem_malloc(64));
    std::memset(block, mark, 64);
  }
  usleep(300);
  for (unsigned char *block : blocks) {
    are_intact = are_intact && std::all_of(block, block + 64, [mark](unsigned char byte) { return byte == mark; });
    hakmem_free(block);
  }
  return are_intact;
}

TEST(ProfileStart, NoTwoThreadsHaveOneHeap) {
  if (!HasProfile()) GTEST_SKIP() << "this variant has no profile";
  hakmem_heap_t *heap = hakmem_heap_create("named", nullptr);
  std::atomic<bool> stop{false}, are_intact{true};
  std::vector<std::thread> threads;
  for (unsigned char i = 1; i <= 4; i++) {
    threads.emplace_back([&, i] {
      while (!stop) {
        for (int k = 0; k < 20; k++) hakmem_free(hakmem_heap_malloc(heap, 3 << 20));
        if (!KeepsBlocks(i)) are_intact = false;
      }
    });
  }
  threads.emplace_back([&] {
    while (!stop) {
      hakmem_profile_start(kRate);
      hakmem_profile_stop();
    }
  });
  threads.emplace_back([&] {
    while (!stop) {
      hakmem_collect();
      usleep(100);
    }
  });
  for (size_t i = 0; i < Scaled(2000) && are_intact; i++) {
    std::thread([&] {
      if (!KeepsBlocks(200)) are_intact = false;
    }).join();
  }
  stop = true;
  for (std::thread &thread : threads) thread.join();
  EXPECT_TRUE(are_intact);
  hakmem_heap_destroy(heap);
}

}  // namespace
