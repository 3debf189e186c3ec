/* tests/api/heap_figures_test.cc - hakmem_stats_get_heaps: whose blocks they are, and what each heap did for them. */
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "api/figures_driver.h"
#include "hakmem/hakmem.h"
#include "support/process_memory.h"
#include "support/scale.h"

using namespace hk_test;

namespace {

TEST(Figures, RefillsAddUpByStage) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++) {
    threads.emplace_back([] {
      Blocks blocks = AllocMany(100, 5000), more = AllocMany(2000, 500);
      FreeSome(blocks);
      FreeSome(more);
      FreeAll(blocks);
      FreeAll(more);
    });
  }
  for (std::thread &thread : threads) thread.join();
  uint64_t used = 0;
  for (const hakmem_stats_heap_t &heap : Heaps()) {
    EXPECT_EQ(heap.refill, heap.refill_remote + heap.refill_used + heap.refill_carve + heap.slab_move +
                               heap.slab_acquire + heap.refill_failed);
    EXPECT_LE(heap.slab_reuse + heap.slab_reserve, heap.slab_acquire);
    used += heap.refill_carve;
  }
  EXPECT_GT(used, 0u);
}

/* One thread more than there are heaps, all alive at once. */
TEST(Figures, HeapsAreOldestFirst) {
  hakmem_free(hakmem_malloc(100)); /* this thread has one */
  auto before = Heaps();
  ASSERT_GE(before.size(), 1u);
  if (before.size() > 200) GTEST_SKIP() << "this number of threads takes long";
  std::atomic<size_t> ready{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (size_t i = 0; i <= before.size(); i++) {
    threads.emplace_back([&ready, &done] {
      hakmem_free(hakmem_malloc(100));
      ready++;
      while (!done) std::this_thread::yield();
    });
  }
  while (ready < threads.size()) std::this_thread::yield();
  auto after = Heaps();
  EXPECT_EQ(Stats().memory_heaps, after.size());
  done = true;
  for (std::thread &thread : threads) thread.join();
  ASSERT_GT(after.size(), before.size());
  for (size_t i = 0; i < before.size(); i++) {
    EXPECT_GE(after[i].refill, before[i].refill) << i;
    if (before[i].state == HAKMEM_HEAP_ATTACHED) EXPECT_EQ(after[i].refill, before[i].refill) << "this thread's";
  }
  for (size_t i = before.size(); i < after.size(); i++) {
    EXPECT_EQ(after[i].state, unsigned{HAKMEM_HEAP_ATTACHED}) << i;
    EXPECT_EQ(after[i].refill, 1u) << "a new one";
  }
}

/* The heaps' sums are those of tiny and mid; runs and large blocks belong to no heap. */
void ExpectHeapsToAddUp() {
  auto bands = Bands();
  hakmem_stats_band_t sum = {};
  for (const hakmem_stats_heap_t &heap : Heaps()) {
    sum.live_blocks += heap.live_blocks, sum.live_bytes += heap.live_bytes, sum.slabs += heap.slabs;
    sum.free_bytes += heap.free_bytes, sum.resident += heap.resident;
  }
  const hakmem_stats_band_t &tiny = bands[HAKMEM_BAND_TINY], &mid = bands[HAKMEM_BAND_MID];
  EXPECT_EQ(sum.live_blocks, tiny.live_blocks + mid.live_blocks);
  EXPECT_EQ(sum.live_bytes, tiny.live_bytes + mid.live_bytes);
  EXPECT_EQ(sum.free_bytes, tiny.free_bytes + mid.free_bytes);
  EXPECT_EQ(sum.slabs, tiny.slabs + mid.slabs);
  EXPECT_EQ(sum.resident, tiny.resident + mid.resident);
}

uint64_t FreeBlocksOfClasses() {
  uint64_t sum = 0;
  for (const auto &[bytes, one] : Classes()) sum += one.free_blocks;
  return sum;
}

/* Threads that hold what they have while this one looks. */
class Holders {
 public:
  /* Thread i has what `fill(i)` gives. */
  Holders(size_t count, Blocks (*fill)(size_t)) : blocks(count), ready_(count) {
    for (size_t i = 0; i < count; i++) {
      threads_.emplace_back([this, i, fill] {
        blocks[i] = fill(i);
        ready_[i].set_value();
        WaitDeep();
      });
    }
    for (std::promise<void> &one : ready_) one.get_future().wait();
  }
  ~Holders() {
    is_over_.set_value();
    for (std::thread &thread : threads_) thread.join();
  }

  std::vector<Blocks> blocks;

 private:
  /* A thread with this much on its stack does not count as asleep: no other thread takes its heap. */
  __attribute__((noinline)) void WaitDeep() {
    volatile char deep[80 * 1024];
    deep[0] = 1;
    end_.wait();
    deep[1] = deep[0];
  }

  std::vector<std::promise<void>> ready_;
  std::promise<void> is_over_;
  std::shared_future<void> end_ = is_over_.get_future().share();
  std::vector<std::thread> threads_;
};

uint64_t BytesOf(const Blocks &blocks) {
  uint64_t bytes = 0;
  for (void *block : blocks) bytes += hakmem_malloc_usable_size(block);
  return bytes;
}

/* A different number in each thread, some freed by their thread; and larger blocks, which belong to no heap. */
Blocks Pattern(size_t i) {
  Blocks blocks;
  for (size_t size : {size_t{16}, size_t{208}, size_t{1024}, size_t{2560}, 32 * kKiB}) {
    Blocks more = AllocMany(size, size > kTinyMax ? 7 + i : 700 + 90 * i);
    FreeSome(more);
    blocks.insert(blocks.end(), more.begin(), more.end());
  }
  return blocks;
}

using Held = std::multiset<std::pair<uint64_t, uint64_t>>;

/* Blocks and bytes, of each heap that has more than `before`. */
Held HeldSince(const std::vector<hakmem_stats_heap_t> &before) {
  Held held;
  for (const hakmem_stats_heap_t &heap : Heaps()) {
    hakmem_stats_heap_t then = heap.number <= before.size() ? before[heap.number - 1] : hakmem_stats_heap_t{};
    if (heap.live_blocks == then.live_blocks) continue;
    EXPECT_EQ(heap.state, unsigned{HAKMEM_HEAP_ATTACHED});
    held.emplace(heap.live_blocks - then.live_blocks, heap.live_bytes - then.live_bytes);
  }
  return held;
}

TEST(Figures, EachHeapHasItsThreadsBlocks) {
  hakmem_collect();
  auto before = Heaps();
  for (size_t i = 0; i < before.size(); i++) ASSERT_EQ(before[i].number, i + 1);
  Holders holders(4, Pattern);
  Blocks large = AllocMany(100 * kKiB, 3), big = AllocMany(2 * kMiB, 2);
  Held expected;
  for (const Blocks &blocks : holders.blocks) expected.emplace(blocks.size(), BytesOf(blocks));
  EXPECT_EQ(HeldSince(before), expected);
  ExpectHeapsToAddUp();
  uint64_t free_blocks = 0;
  for (const hakmem_stats_heap_t &heap : Heaps()) free_blocks += heap.free_blocks;
  EXPECT_EQ(free_blocks, FreeBlocksOfClasses());
  for (Blocks &blocks : holders.blocks) FreeAll(blocks); /* another thread's */
  FreeAll(large);
  FreeAll(big);
}

TEST(Figures, WhatAnotherThreadFreedIsTheOwnersUntilItIsHome) {
  hakmem_collect();
  auto before = Heaps();
  /* The span of a mid class does not tell how many of its blocks are in batches. */
  Holders holders(3, [](size_t i) { return AllocMany(2560, 50 + i); });
  for (Blocks &blocks : holders.blocks) {
    for (int i = 0; i < 10; i++) hakmem_free(blocks[static_cast<size_t>(i)]);
  }
  hakmem_stats_t stats = Stats();
  EXPECT_EQ(stats.live_blocks_freed_remotely, 30u);
  Held expected = {{50, 50 * 2560}, {51, 51 * 2560}, {52, 52 * 2560}};
  EXPECT_EQ(HeldSince(before), expected);
  ExpectHeapsToAddUp();
  for (Blocks &blocks : holders.blocks) {
    blocks.erase(blocks.begin(), blocks.begin() + 10);
    FreeAll(blocks);
  }
}

TEST(Figures, ThousandsOfHeaps) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "its threads are dear";
  constexpr size_t kMany = 2000;
  hakmem_collect();
  auto before = Heaps();
  Holders holders(kMany, [](size_t i) {
    Blocks first = AllocMany(64, 100); /* after this number of calls a thread shares no heap with others */
    FreeAll(first);
    return AllocMany(64, 1 + i % 7);
  });
  auto with = Heaps();
  EXPECT_GE(with.size(), kMany);
  size_t of[8] = {};
  for (const auto &[blocks, bytes] : HeldSince(before)) {
    ASSERT_LE(blocks, 7u);
    EXPECT_EQ(bytes, 64 * blocks);
    of[blocks]++;
  }
  for (size_t i = 1; i <= 7; i++) EXPECT_EQ(of[i], (kMany - i) / 7 + 1) << i;
  ExpectHeapsToAddUp();
  for (Blocks &blocks : holders.blocks) FreeAll(blocks);
}

}  // namespace
