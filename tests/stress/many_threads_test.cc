/* tests/stress/many_threads_test.cc - ten thousand threads that are alive at once, and the memory that is left when
 * they are gone. */
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "hakmem/hakmem.h"
#include "stress/labelled_blocks.h"
#include "stress/stress_threads.h"
#include "support/collected.h"
#include "support/malloc_report.h"
#include "support/process_memory.h"
#include "support/scale.h"

using namespace hk_test;

namespace {

/* A sanitizer has its own idea of how many threads there may be. */
constexpr size_t kThreads = HAKMEM_TEST_SANITIZER ? 200 : 10'000;
constexpr size_t kSizes[] = {16, 100, 500, 3000};
constexpr size_t kBlocks = 16;
constexpr size_t kLiveBytes = kBlocks / 4 * (16 + 100 + 500 + 3000); /* of a thread */

/* The cost of a thread beside its blocks: a page more for each class that is in use, and the records of its heap, if no
 * thread that sleeps lends it one. */
constexpr size_t kClasses = 4, kPageBytes = 4 * kKiB;
size_t RecordBytes() {
  bool is_sampled = std::getenv("HAKMEM_GUARD") != nullptr;          /* then a heap has its countdowns too */
  bool is_hardened = std::getenv("HAKMEM_TEST_HARDENED") != nullptr; /* and then a quarantine (docs/hardened.md) */
  constexpr size_t kLiveBits = 1;                                    /* KiB of a slab; a slab for each class */
  return ((is_sampled ? 13 : 8) + (is_hardened ? 14 + kClasses * kLiveBits : 0)) * kKiB;
}
/* What may stay when all have ended: the records, and what the C library keeps of the threads. */
size_t MostLeft() { return kThreads * RecordBytes() + 4 * kMiB; }

/* The stages that all threads pass together; between them the main thread looks at the resident bytes. */
enum Stage { kExist, kAllocate, kFreeOthers, kCalledOff };

class Stages {
 public:
  /* For a thread: false when it is called off. */
  bool Await(Stage stage) {
    std::unique_lock<std::mutex> lock(mutex_);
    waiting_++;
    one_more_.notify_one();
    begun_.wait(lock, [this, stage] { return stage_ >= stage; });
    return stage_ == stage;
  }

  /* For the main thread alone: lets the threads go when `count` wait. */
  void AwaitAll(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    one_more_.wait(lock, [this, count] { return waiting_ == count; });
  }
  void Begin(Stage stage) {
    std::lock_guard<std::mutex> lock(mutex_);
    stage_ = stage;
    waiting_ = 0;
    begun_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable one_more_, begun_;
  Stage stage_ = kExist;
  size_t waiting_ = 0;
};

Stages stages;
void *blocks[kThreads][kBlocks];

void *Live(void *argument) {
  size_t self = static_cast<size_t>(static_cast<void *(*)[kBlocks]>(argument) - blocks);
  if (!stages.Await(kAllocate)) return nullptr;
  for (size_t i = 0; i < kBlocks; i++) blocks[self][i] = MakeLabelled(kSizes[i % 4]);
  if (!stages.Await(kFreeOthers)) return nullptr;
  /* Of one that may be ending already, or may not have been woken yet. */
  for (void *block : blocks[(self + kThreads / 2) % kThreads]) DropLabelled(block, kSizes[3]);
  return nullptr;
}

struct Result {
  size_t threads;                                        /* that could be started */
  size_t before, existing, with_blocks, gone, collected; /* resident */
  size_t in_use_bytes; /* when all is freed: a block that its owner never collected keeps its slab in use */
};

/* Stacks of the test's own, so that it knows when they are gone. */
class Stacks {
 public:
  explicit Stacks(size_t each) : each_(each) {
    start_ =
        mmap(nullptr, each_ * kThreads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~Stacks() {
    if (start_ != MAP_FAILED) munmap(start_, each_ * kThreads);
  }

  bool Start(size_t index, pthread_t *thread) {
    pthread_attr_t attributes;
    if (start_ == MAP_FAILED || pthread_attr_init(&attributes) != 0) return false;
    bool started = pthread_attr_setstack(&attributes, static_cast<char *>(start_) + index * each_, each_) == 0 &&
                   pthread_create(thread, &attributes, Live, &blocks[index]) == 0;
    pthread_attr_destroy(&attributes);
    return started;
  }

 private:
  const size_t each_;
  void *start_;
};

void LiveAndDie(Result *result) {
  static pthread_t threads[kThreads];
  std::memset(blocks, 1, sizeof blocks); /* resident before the first look */
  std::memset(threads, 1, sizeof threads);
  result->before = ResidentBytes();
  {
    Stacks stacks(HAKMEM_TEST_SANITIZER ? kMiB : 64 * kKiB);
    while (result->threads < kThreads && stacks.Start(result->threads, &threads[result->threads])) result->threads++;
    stages.AwaitAll(result->threads);
    if (result->threads == kThreads) {
      result->existing = ResidentBytes();
      stages.Begin(kAllocate);
      stages.AwaitAll(kThreads);
      result->with_blocks = ResidentBytes();
      stages.Begin(kFreeOthers);
    } else {
      stages.Begin(kCalledOff);
    }
    for (size_t i = 0; i < result->threads; i++) pthread_join(threads[i], nullptr);
  }
  result->gone = ResidentBytes();
  result->in_use_bytes = InUseAfterCollecting();
  result->collected = ResidentBytes();
  if (!HAKMEM_TEST_SANITIZER && result->collected > result->before + MostLeft()) {
    std::printf("%s", MallocInfoText().c_str()); /* where it is */
  }
}

TEST_F(Stress, TenThousandThreadsAtOnce) {
  hk_test::Shared<Result> result;
  ASSERT_EQ(InFreshProcess([&result] { LiveAndDie(&*result); }), 0);
  if (result->threads < kThreads) {
    GTEST_SKIP() << "the system lets a process have " << result->threads << " threads, not " << kThreads;
  }
  EXPECT_EQ(result->in_use_bytes, 0u);
  if (HAKMEM_TEST_SANITIZER) return;
  std::printf(
      "of each of %zu threads: live %zu bytes, resident %zu; when all have ended %zu, when that was collected %zu\n",
      kThreads, kLiveBytes, (result->with_blocks - result->existing) / kThreads,
      (result->gone - result->before) / kThreads, (result->collected - result->before) / kThreads);
  EXPECT_LE(result->with_blocks, result->existing + kThreads * (kLiveBytes + kClasses * kPageBytes + RecordBytes()));
  EXPECT_LE(result->collected, result->before + MostLeft()) << "only records stay";
}

} /* namespace */
