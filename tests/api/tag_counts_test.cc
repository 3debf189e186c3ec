/* tests/api/tag_counts_test.cc - counts of tags: by one thread and by many, of resizes, of blocks that were never
 * written or that other threads freed; children of fork. */
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/in_child.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

hakmem_tag_counts_t CountsOf(const hakmem_tag_t *tag) {
  hakmem_tag_counts_t counts;
  hakmem_tag_counts(tag, &counts, sizeof counts);
  return counts;
}

/* What a test knows of its tag. */
struct Known {
  std::atomic<uint64_t> blocks_in{0}, bytes_in{0}, blocks_out{0}, bytes_out{0};
  void In(void *block) {
    blocks_in++;
    bytes_in += hakmem_malloc_usable_size(block);
  }
  void Out(void *block) {
    blocks_out++;
    bytes_out += hakmem_malloc_usable_size(block);
  }
  void Expect(const hakmem_tag_t *tag, const std::string &what) const {
    hakmem_tag_counts_t counts = CountsOf(tag);
    EXPECT_EQ(counts.allocated_blocks, blocks_in) << what;
    EXPECT_EQ(counts.allocated_bytes, bytes_in) << what;
    EXPECT_EQ(counts.freed_blocks, blocks_out) << what;
    EXPECT_EQ(counts.freed_bytes, bytes_out) << what;
    EXPECT_EQ(counts.live_blocks, blocks_in - blocks_out) << what;
    EXPECT_EQ(counts.live_bytes, bytes_in - bytes_out) << what;
  }
};

TEST(TagCounts, AreExact) {
  for (size_t size : {size_t{1}, size_t{16}, size_t{100}, size_t{1000}, size_t{1024}, size_t{1025}, size_t{5000},
                      size_t{32768}, size_t{40000}, size_t{2} << 20}) {
    hakmem_tag_t *tag = hakmem_tag_create(("counted " + std::to_string(size)).c_str());
    Known known;
    std::vector<void *> blocks;
    known.Expect(tag, "nothing");
    for (int round = 0; round < 4; round++) {
      const size_t count = size > 30000 ? 5 : 700;
      hakmem_tag_push(tag);
      for (size_t i = 0; i < count; i++) {
        blocks.push_back(hakmem_malloc(size));
        known.In(blocks.back());
      }
      hakmem_tag_pop();
      known.Expect(tag, "allocated " + std::to_string(size));
      for (size_t i = 0; i < count * 2 / 3; i++) {
        known.Out(blocks.back());
        hakmem_free(blocks.back());
        blocks.pop_back();
      }
      known.Expect(tag, "freed " + std::to_string(size));
      hakmem_tag_push(tag);
      for (int i = 0; i < 1000; i++) {
        void *block = hakmem_malloc(size);
        known.In(block);
        known.Out(block);
        hakmem_free(block);
      }
      hakmem_tag_pop();
      known.Expect(tag, "pairs " + std::to_string(size));
      (void)hakmem_collect();
      known.Expect(tag, "collected " + std::to_string(size));
    }
    for (void *block : blocks) {
      known.Out(block);
      hakmem_free(block);
    }
    known.Expect(tag, "all freed " + std::to_string(size));
  }
}

/* Threads that allocate with a tag and free each other's blocks, in phases: between two all of them are at rest. */
class TaggedExchange {
 public:
  explicit TaggedExchange(hakmem_tag_t *tag) : tag_(tag) {
    for (unsigned i = 0; i < kThreads; i++) threads_.emplace_back([this, i] { Run(i); });
  }

  /* Runs a phase. In the phase kEndsAfter the first thread ends at its end. */
  void RunPhase(unsigned phase) {
    at_rest_ = 0;
    phase_ = phase;
    while (at_rest_ < (phase > kEndsAfter ? kThreads - 1 : kThreads)) std::this_thread::yield();
    if (phase == kEndsAfter) threads_[0].join();
  }

  void End() {
    phase_ = kPhases + 1;
    for (unsigned i = 1; i < kThreads; i++) threads_[i].join();
  }

  void FreeAll() {
    for (auto &slot : slots_) {
      if (void *block = slot.exchange(nullptr)) Free(block);
    }
  }

  const Known &known() const { return known_; }

  static constexpr unsigned kPhases = 6, kEndsAfter = 3;

 private:
  static constexpr unsigned kThreads = 5;

  void Run(unsigned thread) {
    TestRandom random(seed_ + thread);
    for (unsigned phase = 1; phase <= kPhases; phase++) {
      while (phase_ < phase) std::this_thread::yield();
      for (size_t i = 0; i < Scaled(4000); i++) ExchangeOne(&random);
      at_rest_++;
      if (phase == kEndsAfter && thread == 0) return; /* its part goes to no thread */
      while (phase_ <= phase) std::this_thread::yield();
    }
  }

  void ExchangeOne(TestRandom *random) {
    void *old = slots_[random->Below(256)].exchange(Allocate(random));
    if (old == nullptr) return;
    Free(random->Below(4) == 0 ? Resize(random, old) : old);
  }

  void *Allocate(TestRandom *random) {
    size_t size = random->Below(40) == 0 ? random->Below(200000) : random->Below(4000);
    hakmem_tag_push(tag_);
    void *block = random->Below(5) == 0 ? hakmem_calloc(1, size) : hakmem_malloc(size);
    hakmem_tag_pop();
    known_.In(block);
    return block;
  }

  /* A block that moves keeps its tag: one goes, and another comes. */
  void *Resize(TestRandom *random, void *block) {
    size_t before = hakmem_malloc_usable_size(block);
    void *moved = hakmem_realloc(block, random->Below(6000) + 1);
    if (moved == block) return block;
    known_.blocks_out++;
    known_.bytes_out += before;
    known_.In(moved);
    return moved;
  }

  void Free(void *block) {
    known_.Out(block);
    hakmem_free(block);
  }

  hakmem_tag_t *tag_;
  Known known_;
  const uint64_t seed_ = TestSeed();
  std::atomic<void *> slots_[256] = {};
  std::atomic<unsigned> at_rest_{0};
  std::atomic<unsigned> phase_{0};
  std::vector<std::thread> threads_;
};

TEST(TagCounts, AreExactAcrossThreads) {
  hakmem_tag_t *tag = hakmem_tag_create("counted by threads");
  TaggedExchange exchange(tag);
  for (unsigned phase = 1; phase <= TaggedExchange::kPhases; phase++) {
    exchange.RunPhase(phase);
    exchange.known().Expect(tag, "phase " + std::to_string(phase));
  }
  exchange.End();
  exchange.known().Expect(tag, "threads have ended");
  exchange.FreeAll();
  exchange.known().Expect(tag, "all is free");
}

TEST(TagCounts, AResizeInPlaceCountsTheDifference) {
  hakmem_tag_t *tag = hakmem_tag_create("counted resize");
  hakmem_tag_push(tag);
  void *block = hakmem_malloc(200000);
  hakmem_tag_pop();
  size_t first = hakmem_malloc_usable_size(block);
  EXPECT_EQ(hakmem_realloc(block, 100000), block);
  size_t second = hakmem_malloc_usable_size(block);
  hakmem_tag_counts_t counts = CountsOf(tag);
  EXPECT_EQ(counts.allocated_blocks, 1u);
  EXPECT_EQ(counts.allocated_bytes, first);
  EXPECT_EQ(counts.freed_bytes, first - second);
  EXPECT_EQ(counts.live_bytes, second);
  hakmem_free(block);
  counts = CountsOf(tag);
  EXPECT_EQ(counts.live_blocks, 0u);
  EXPECT_EQ(counts.freed_blocks, 1u);
  EXPECT_EQ(counts.freed_bytes, first);
}

TEST(TagCounts, EachBlockThatAnotherThreadFreed) {
  const size_t count = 1200000, bytes = 16;
  hakmem_tag_t *tag = hakmem_tag_create("many remote frees");
  std::vector<void *> blocks(count);
  hakmem_tag_push(tag);
  for (void *&block : blocks) block = hakmem_malloc(bytes);
  hakmem_tag_pop();
  const uint64_t all_bytes = count * hakmem_malloc_usable_size(blocks[0]);
  std::thread([&] {
    for (void *block : blocks) hakmem_free(block);
  }).join();
  hakmem_tag_counts_t counts = CountsOf(tag);
  EXPECT_EQ(counts.allocated_blocks, count);
  EXPECT_EQ(counts.allocated_bytes, all_bytes);
  EXPECT_EQ(counts.freed_blocks, count);
  EXPECT_EQ(counts.live_blocks, 0u);
  EXPECT_EQ(counts.live_bytes, 0u);
}

/* The kernel moves the pages of a large block that has no room to grow. */
TEST(TagCounts, AResizeThatMovesABlockAllocatesAndFrees) {
  const size_t bytes = 4 << 20;
  hakmem_tag_t *tag = hakmem_tag_create("moved pages");
  std::vector<void *> blocks;
  uint64_t allocated = 0, allocated_bytes = 0;
  for (size_t i = 0; i < 8; i++) {
    hakmem_tag_push(tag);
    blocks.push_back(hakmem_malloc(bytes));
    hakmem_tag_pop();
    allocated++;
    allocated_bytes += hakmem_malloc_usable_size(blocks.back());
  }
  for (size_t times = 2; times <= 16; times *= 2) {
    for (void *&block : blocks) {
      const uintptr_t before = reinterpret_cast<uintptr_t>(block);
      const size_t bytes_before = hakmem_malloc_usable_size(block);
      block = hakmem_realloc(block, bytes * times);
      ASSERT_NE(block, nullptr);
      const bool has_moved = reinterpret_cast<uintptr_t>(block) != before;
      allocated += has_moved;
      allocated_bytes += hakmem_malloc_usable_size(block) - (has_moved ? 0 : bytes_before);
    }
  }
  EXPECT_EQ(CountsOf(tag).allocated_blocks, allocated);
  EXPECT_EQ(CountsOf(tag).allocated_bytes, allocated_bytes);
  EXPECT_EQ(CountsOf(tag).live_blocks, blocks.size());
  for (void *block : blocks) hakmem_free(block);
  EXPECT_EQ(CountsOf(tag).freed_blocks, allocated);
  EXPECT_EQ(CountsOf(tag).freed_bytes, allocated_bytes);
  EXPECT_EQ(CountsOf(tag).live_bytes, 0u);
}

/* A run may begin with the words of an earlier free block. A resize copies them, unless the program has written. */
TEST(TagCounts, ABlockThatTheProgramHasNotWritten) {
  const size_t count = 20;
  hakmem_tag_t *tag = hakmem_tag_create("not written");
  std::vector<void *> blocks;
  for (size_t round = 0; round < 5; round++) {
    hakmem_tag_push(tag);
    for (size_t i = 0; i < 40000; i++) blocks.push_back(hakmem_malloc(100));
    for (void *block : blocks) hakmem_free(block);
    blocks.clear();
    for (size_t i = 0; i < count; i++) blocks.push_back(hakmem_malloc(40000));
    uint64_t bytes = 0;
    for (void *&block : blocks) {
      block = hakmem_realloc(block, 1 + 50 * round);
      bytes += hakmem_malloc_usable_size(block);
    }
    hakmem_tag_pop();
    EXPECT_EQ(CountsOf(tag).live_blocks, count) << round;
    EXPECT_EQ(CountsOf(tag).live_bytes, bytes) << round;
    for (void *block : blocks) hakmem_free(block);
    blocks.clear();
    EXPECT_EQ(CountsOf(tag).live_blocks, 0u) << round;
  }
}

/* Allocates and frees under the tag. Leaves the blocks in `left`. Returns how many it has allocated. */
uint64_t Work(hakmem_tag_t *tag, std::vector<void *> *left) {
  const size_t count = 2000;
  hakmem_tag_push(tag);
  for (size_t i = 0; i < count; i++) {
    left->push_back(hakmem_malloc(i % 7 == 0 ? 1100 + i : 16 + i % 900));
    if (i % 3 == 0) continue;
    hakmem_free(left->back());
    left->pop_back();
  }
  hakmem_tag_pop();
  return count;
}

int CheckInChild(hakmem_tag_t *tag, uint64_t allocated, std::vector<void *> *left) {
  HK_CHILD_CHECK(CountsOf(tag).allocated_blocks == allocated);
  HK_CHILD_CHECK(CountsOf(tag).live_blocks == left->size());
  for (int i = 0; i < 3; i++) {
    const size_t kept = left->size() / 2;
    for (; left->size() > kept; left->pop_back()) hakmem_free(left->back()); /* also of threads that are not here */
    HK_CHILD_CHECK(CountsOf(tag).allocated_blocks == allocated);
    HK_CHILD_CHECK(CountsOf(tag).live_blocks == left->size());
    allocated += Work(tag, left);
    HK_CHILD_CHECK(CountsOf(tag).allocated_blocks == allocated);
    HK_CHILD_CHECK(CountsOf(tag).live_blocks == left->size());
  }
  for (void *block : *left) hakmem_free(block);
  HK_CHILD_CHECK(CountsOf(tag).allocated_blocks == allocated);
  HK_CHILD_CHECK(CountsOf(tag).live_blocks == 0);
  return 0;
}

void CheckFork(const std::string &name) {
  const size_t thread_count = 4;
  hakmem_tag_t *tag = hakmem_tag_create(name.c_str());
  std::atomic<uint64_t> allocated = 0;
  std::atomic<size_t> at_rest = 0;
  std::atomic<bool> may_end = false;
  std::vector<void *> lists[thread_count], left;
  std::vector<std::thread> threads;
  for (auto &list : lists) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; i++) allocated += Work(tag, &list);
      at_rest++;
      while (!may_end) std::this_thread::yield();
    });
  }
  while (at_rest < thread_count) std::this_thread::yield();
  for (const auto &list : lists) left.insert(left.end(), list.begin(), list.end());
  EXPECT_EQ(hk_test::InChild([&] { return CheckInChild(tag, allocated, &left); }), 0);
  EXPECT_EQ(CountsOf(tag).allocated_blocks, allocated);
  EXPECT_EQ(CountsOf(tag).live_blocks, left.size());
  may_end = true;
  for (std::thread &thread : threads) thread.join();
  for (void *block : left) hakmem_free(block);
  EXPECT_EQ(CountsOf(tag).live_blocks, 0u);
}

TEST(TagCounts, AChildOfForkGoesOnToCount) {
  CheckFork("counted in a child");
  for (size_t rate : {500, 20000}) {
    const bool is_on = hakmem_profile_start(rate);
    CheckFork("counted in a child, profile " + std::to_string(rate));
    if (is_on) (void)hakmem_profile_stop();
  }
}

}  // namespace
