/* tests/stress/named_stress_test.cc - threads that come and go share named heaps and tags, while heaps end, the process
 * forks, also from a signal handler, and statistics are read. */
#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/in_child.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

/* A named heap that others replace: its users hold the lock shared. */
struct Place {
  std::shared_mutex lock;
  hakmem_heap_t *heap = hakmem_heap_create("stress", nullptr);
};

struct Shared {
  Place places[8];
  hakmem_tag_t *tags[4];
  std::atomic<void *> exchange[128] = {}; /* blocks of tags and of no heap */
  std::atomic<bool> stop{false};
  Shared() {
    for (int i = 0; i < 4; i++) tags[i] = hakmem_tag_create(("stress " + std::to_string(i)).c_str());
  }
};

void WorkInHeap(Shared &shared, TestRandom &random) {
  Place &place = shared.places[random.Below(8)];
  std::shared_lock<std::shared_mutex> lock(place.lock);
  unsigned char *blocks[20];
  for (unsigned char *&block : blocks) {
    size_t size = random.Below(60) == 0 ? random.Below(200000) : random.Below(3000);
    block = static_cast<unsigned char *>(hakmem_heap_malloc(place.heap, size + 1));
    ASSERT_NE(block, nullptr);
    block[0] = block[size] = static_cast<unsigned char>(size);
  }
  for (unsigned i = 0; i < 20; i++) {
    if (random.Below(4) == 0) continue; /* it ends with the heap */
    ASSERT_EQ(hakmem_heap_of(blocks[i]), place.heap);
    if (random.Below(5) == 0) {
      unsigned char first = blocks[i][0];
      blocks[i] = static_cast<unsigned char *>(hakmem_heap_realloc(place.heap, blocks[i], random.Below(5000) + 1));
      ASSERT_EQ(blocks[i][0], first);
    }
    hakmem_free(blocks[i]);
  }
}

void WorkUnderTag(Shared &shared, TestRandom &random) {
  hakmem_tag_t *tag = shared.tags[random.Below(4)];
  hakmem_tag_push(tag);
  for (int i = 0; i < 20; i++) {
    size_t size = random.Below(60) == 0 ? random.Below(200000) : random.Below(3000);
    auto *block = static_cast<hakmem_tag_t **>(hakmem_malloc(size + 16));
    ASSERT_NE(block, nullptr);
    *block = tag;
    auto *old = static_cast<hakmem_tag_t **>(shared.exchange[random.Below(128)].exchange(block));
    if (old == nullptr) continue;
    ASSERT_EQ(hakmem_tag_of(old), *old);
    hakmem_free(old);
  }
  hakmem_tag_pop();
}

void Work(Shared &shared, uint64_t seed) {
  TestRandom random(seed);
  for (size_t turn = 0; turn < 40 && !shared.stop; turn++) {
    WorkInHeap(shared, random);
    WorkUnderTag(shared, random);
  }
}

void EndHeaps(Shared &shared, TestRandom &random) {
  Place &place = shared.places[random.Below(8)];
  std::unique_lock<std::shared_mutex> lock(place.lock);
  hakmem_heap_destroy(place.heap);
  place.heap = hakmem_heap_create("stress", nullptr);
}

/* A new heap and new tags: those of the parent may be in use by threads that are not there. */
int InTheChild() {
  hakmem_heap_t *heap = hakmem_heap_create("child", nullptr);
  hakmem_tag_t *tag = hakmem_tag_create("child");
  hakmem_tag_push(tag);
  for (size_t i = 0; i < 300; i++) {
    void *charged = hakmem_malloc(i * 30 + 1), *block = hakmem_heap_malloc(heap, i * 70 + 1);
    if (charged == nullptr || block == nullptr || hakmem_tag_of(charged) != tag || hakmem_heap_of(block) != heap)
      return 1;
    hakmem_free(charged);
  }
  hakmem_tag_pop();
  hakmem_heap_destroy(heap);
  return 0;
}

TEST(NamedStress, ThreadsHeapsTagsAndForks) {
  auto shared = std::make_unique<Shared>();
  const uint64_t seed = TestSeed();
  TestRandom random(seed);
  for (size_t round = 0; round < Scaled(40); round++) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 5; t++)
      threads.emplace_back([&shared, seed, round, t] { Work(*shared, seed + round * 5 + t); });
    for (int i = 0; i < 10; i++) EndHeaps(*shared, random);
    EXPECT_EQ(hk_test::InChild(InTheChild), 0);
    hakmem_stats_t stats;
    EXPECT_EQ(hakmem_stats_get(&stats, sizeof stats), 0);
    hakmem_tag_counts_t counts;
    hakmem_tag_counts(shared->tags[0], &counts, sizeof counts);
    EXPECT_EQ(counts.allocated_blocks, counts.freed_blocks + counts.live_blocks);
    for (std::thread &thread : threads) thread.join();
  }
  for (auto &slot : shared->exchange) hakmem_free(slot.exchange(nullptr));
  for (Place &place : shared->places) hakmem_heap_destroy(place.heap);
  for (hakmem_tag_t *tag : shared->tags) {
    hakmem_tag_counts_t counts;
    hakmem_tag_counts(tag, &counts, sizeof counts);
    EXPECT_EQ(counts.live_blocks, 0u);
    EXPECT_EQ(counts.live_bytes, 0u);
  }
}

/* ---- Signals: the handler forks wherever the thread is, and the child goes on from there. */

std::atomic<int> forks_done, children_failed;
std::atomic<bool> is_child;

void ForkInHandler(int) {
  int saved_errno = errno;
  pid_t child = fork();
  if (child == 0) {
    is_child = true;
    errno = saved_errno;
    return;
  }
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child && status != 0) children_failed++;
  forks_done++;
  errno = saved_errno;
}

TEST(NamedStress, SignalHandlersFork) {
  struct sigaction action = {}, before = {};
  action.sa_handler = ForkInHandler;
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGPROF, &action, &before), 0);
  itimerval every = {{0, 3000}, {0, 3000}}, never = {};
  ASSERT_EQ(setitimer(ITIMER_PROF, &every, nullptr), 0);
  hakmem_tag_t *tag = hakmem_tag_create("signals");
  for (size_t turn = 0; forks_done < static_cast<int>(Scaled(60)) && turn < 2000000; turn++) {
    hakmem_heap_t *heap = hakmem_heap_create("signals", nullptr);
    hakmem_tag_push(tag);
    void *charged[10];
    for (void *&block : charged) block = hakmem_malloc(turn % 4000);
    for (int i = 0; i < 10; i++) memset(hakmem_heap_malloc(heap, 500), i, 500);
    void *large = hakmem_heap_malloc(heap, 100000);
    for (void *block : charged) hakmem_free(block);
    hakmem_tag_pop();
    hakmem_free(large);
    hakmem_heap_destroy(heap);
    if (is_child) _exit(InTheChild());
  }
  setitimer(ITIMER_PROF, &never, nullptr);
  sigaction(SIGPROF, &before, nullptr);
  EXPECT_GT(forks_done, 0);
  EXPECT_EQ(children_failed, 0);
  hakmem_tag_counts_t counts;
  hakmem_tag_counts(tag, &counts, sizeof counts);
  EXPECT_EQ(counts.live_blocks, 0u);
}

}  // namespace
