/* tests/stress/thread_lifetime_test.cc - threads that come and go: with destructors that allocate, while others free
 * into them, after they have gone, and very many at once.
 */
#include <gtest/gtest.h>
#include <limits.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "stress/labelled_blocks.h"
#include "stress/stress_blocks.h"
#include "stress/stress_pipe.h"
#include "stress/stress_threads.h"
#include "support/collected.h"
#include "support/memory_course.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

/* ---- Destructors that allocate. */

/* Keys made before hakmem's first use in this program, and after: their destructors run before and after its own. */
pthread_key_t early_key, late_key;
std::atomic<size_t> destructor_runs;

struct KeyValue {
  pthread_key_t key;
  int rounds_left;
  void *block;
};

void DestroyValue(void *argument) {
  KeyValue *value = static_cast<KeyValue *>(argument);
  TestRandom random(reinterpret_cast<uintptr_t>(value) + static_cast<uint64_t>(value->rounds_left));
  destructor_runs++;
  Drop(value->block);
  std::vector<void *> blocks;
  for (int i = 0; i < 5; i++) blocks.push_back(MakeOfSize(&random, random.LogBetween(sizeof(Header), 50000)));
  blocks[0] = Resize(&random, blocks[0]);
  value->block = blocks[0];
  for (size_t i = 1; i < blocks.size(); i++) Drop(blocks[i]);
  if (value->rounds_left-- > 0) {
    pthread_setspecific(value->key, value); /* comes again in the next round */
  } else {
    Drop(value->block);
    hakmem_free(value);
  }
}

const bool keys_made = [] {
  bool good = pthread_key_create(&early_key, DestroyValue) == 0;
  hakmem_free(hakmem_malloc(1));
  return good && pthread_key_create(&late_key, DestroyValue) == 0;
}();

void SetValue(pthread_key_t key, TestRandom *random, int rounds) {
  KeyValue *value = static_cast<KeyValue *>(hakmem_malloc(sizeof(KeyValue)));
  *value = {key, rounds, MakeOfSize(random, random->LogBetween(sizeof(Header), 5000))};
  pthread_setspecific(key, value);
}

/* C++'s own way to run code at a thread's end. */
struct ThreadLocalObject {
  void *block = nullptr;
  ~ThreadLocalObject() {
    Drop(block);
    TestRandom random(7);
    for (int i = 0; i < 10; i++) Drop(Make(&random));
  }
};
thread_local ThreadLocalObject thread_local_object;

/* Four threads; what the ones before left behind they free. */
void RunATurn(Mailbox *left_behind, size_t turn) {
  RunThreads(4, [left_behind, turn](size_t self) {
    TestRandom random(SeedFor("ThreadsComeAndGo", 4 * turn + self));
    std::vector<void *> own;
    for (int i = 0; i < 60; i++) own.push_back(MakeOfSize(&random, random.LogBetween(sizeof(Header), 20000)));
    for (void *block : left_behind->TakeAll()) Drop(block); /* their owners have ended */
    for (size_t i = 0; i < 40; i++) Drop(own[i]);
    left_behind->Put({own.begin() + 40, own.end()});
    thread_local_object.block = MakeOfSize(&random, 300);
    SetValue(early_key, &random, static_cast<int>(random.Below(3)));
    SetValue(late_key, &random, static_cast<int>(random.Below(3)));
  });
}

/* The resident bytes when all is freed, and nothing is kept for threads to come. */
size_t ResidentAtRest(Mailbox *left_behind) {
  for (void *block : left_behind->TakeAll()) Drop(block);
  (void)InUseAfterCollecting();
  return ResidentBytes();
}

TEST_F(Stress, ThreadsComeAndGo) {
  ASSERT_TRUE(keys_made);
  EXPECT_EQ(InFreshProcess([] {
              const size_t turns = Scaled(1500, 16);
              Mailbox left_behind;
              size_t at_quarter = 0;
              destructor_runs = 0;
              for (size_t turn = 0; turn < turns; turn++) {
                RunATurn(&left_behind, turn);
                if (turn == turns / 4) at_quarter = ResidentAtRest(&left_behind);
              }
              EXPECT_GE(destructor_runs, 2 * 4 * turns);
              size_t at_end = ResidentAtRest(&left_behind);
              EXPECT_EQ(hakmem_mallinfo2().uordblks, 0u) << "all is freed and all threads have ended";
              if (!HAKMEM_TEST_SANITIZER) {
                EXPECT_LE(at_end, at_quarter + kMiB)
                    << 4 * turns << " threads must not cost more than a quarter of them";
              }
            }),
            0);
}

/* Stands in for DestroyValue where the value is not hakmem's. */
void AllocateAtEnd(void *argument) {
  TestRandom random(*static_cast<uint64_t *>(argument));
  for (int i = 0; i < 8; i++) Drop(Make(&random));
  Drop(MakeOfSize(&random, 100));
  destructor_runs++;
}

TEST_F(Stress, ThreadsThatOnlyAllocateWhileEnding) {
  /* The thread itself never allocates: its first use is in a destructor, when our own hook's round may be over. */
  EXPECT_EQ(InFreshProcess([] {
              static pthread_key_t before, after; /* hakmem's own */
              static uint64_t seeds[8];
              const size_t turns = Scaled(800, 20);
              size_t at_quarter = 0;
              ASSERT_EQ(pthread_key_create(&before, AllocateAtEnd), 0);
              hakmem_free(hakmem_malloc(1));
              ASSERT_EQ(pthread_key_create(&after, AllocateAtEnd), 0);
              destructor_runs = 0;
              for (size_t turn = 0; turn < turns; turn++) {
                RunThreads(8, [turn](size_t self) {
                  seeds[self] = SeedFor("ThreadsThatOnlyAllocateWhileEnding", turn * 8 + self);
                  pthread_setspecific(self % 2 == 0 ? before : after, &seeds[self]);
                });
                if (turn != turns / 4) continue;
                hakmem_collect();
                at_quarter = ResidentBytes();
              }
              EXPECT_EQ(destructor_runs, 8 * turns);
              EXPECT_EQ(InUseAfterCollecting(), 0u) << "all is freed and all threads have ended";
              if (!HAKMEM_TEST_SANITIZER) {
                EXPECT_LE(ResidentBytes(), at_quarter + kMiB);
              }
            }),
            0);
}

/* ---- As many short threads as there is time for. */

constexpr size_t kLooks = 100;
constexpr size_t kGrowth = kMiB; /* after the first quarter */

/* A key's value that is a list of blocks: each round of destructors frees it and makes a shorter one. */
struct ShortList {
  static constexpr int kMost = 4;

  pthread_key_t key;
  int length;
  void *blocks[kMost];

  static void Make(pthread_key_t key, int length) {
    ShortList *list = static_cast<ShortList *>(hakmem_malloc(sizeof(ShortList)));
    *list = {key, length, {}};
    for (int i = 0; i < length; i++) list->blocks[i] = MakeLabelled(size_t{40} << (3 * i));
    pthread_setspecific(key, list);
  }

  static void Destroy(void *argument) {
    ShortList *list = static_cast<ShortList *>(argument);
    for (int i = 0; i < list->length; i++) DropLabelled(list->blocks[i], kMiB);
    if (list->length > 1) Make(list->key, list->length - 1);
    hakmem_free(list);
    destructor_runs++;
  }
};

TEST_F(Stress, ShortThreadsWhoseDestructorsAllocate) {
  /* Every round that POSIX grants, but ThreadSanitizer leaves a thread in the last one. */
  constexpr int kRounds = HAKMEM_TEST_SANITIZER ? 2 : PTHREAD_DESTRUCTOR_ITERATIONS;
  constexpr size_t kAtOnce = 4, kRuns = kRounds + kRounds - 1; /* of destructors, for each thread */
  static_assert(kRounds <= ShortList::kMost);
  const size_t turns = Scaled(10'000, 400) / kAtOnce;
  struct Result {
    MemoryCourse course;
    size_t destructor_runs;
  };
  hk_test::Shared<Result> result;
  ASSERT_EQ(InFreshProcess([&result, turns] {
              static pthread_key_t before, after; /* hakmem's own */
              pthread_key_create(&before, ShortList::Destroy);
              hakmem_free(hakmem_malloc(1));
              pthread_key_create(&after, ShortList::Destroy);
              destructor_runs = 0;
              result->course.Begin();
              for (size_t turn = 1; turn <= turns; turn++) {
                RunThreads(kAtOnce, [](size_t) {
                  ShortList::Make(before, kRounds);
                  ShortList::Make(after, kRounds - 1);
                });
                if (turn % (turns / kLooks) == 0) result->course.Look();
              }
              result->course.End();
              result->destructor_runs = destructor_runs;
            }),
            0);
  result->course.Print("short threads", 0, kLooks / 4);
  EXPECT_EQ(result->destructor_runs, turns * kAtOnce * kRuns);
  ASSERT_GE(result->course.look_count(), kLooks);
  if (HAKMEM_TEST_SANITIZER) return;
  EXPECT_LE(result->course.HighestAfter(kLooks / 4), result->course.HighestTo(kLooks / 4) + kGrowth);
}

/* ---- Owners that end while others free what they allocated, and before. */

/* When all is freed and all threads have ended. A block that its owner never collected keeps its slab in use. */
void ExpectNothingLost() { EXPECT_EQ(InUseAfterCollecting(), 0u); }

constexpr size_t kMostBytes = 20000;

/* A thread that ends as soon as its blocks are on their way to others. */
void PutAndEnd(Pipe *pipe, size_t putter, uint64_t seed) {
  std::thread([pipe, putter, seed] {
    TestRandom random(seed);
    SizeRange sizes = {"", 16, random.OneIn(2) ? size_t{200} : kMostBytes};
    for (int i = 0; i < 3; i++) {
      Parcel parcel;
      for (void *&block : parcel.blocks) block = MakeLabelled(sizes.Draw(&random));
      parcel.bytes = Parcel::kBlocks * sizes.most;
      pipe->Put(putter, parcel);
    }
  }).join();
}

TEST_F(Stress, OwnersEndWhileOthersFreeIntoThem) {
  constexpr size_t kOwners = 2, kFreers = 2;
  EXPECT_EQ(InFreshProcess([] {
              const size_t lives = Scaled(4000, 40);
              Pipe pipe(kOwners, 32 * kKiB); /* short: what comes out was put in just now */
              std::atomic<size_t> freed{0};
              RunThreads(kOwners + kFreers, [&pipe, &freed, lives](size_t self) {
                if (self >= kOwners) {
                  for (Parcel parcel; pipe.Take(&parcel); freed += Parcel::kBlocks) {
                    for (void *block : parcel.blocks) DropLabelled(block, kMostBytes);
                  }
                  return;
                }
                for (size_t life = 0; life < lives; life++) {
                  PutAndEnd(&pipe, self, SeedFor("OwnersEndWhileOthersFreeIntoThem", life * kOwners + self));
                }
                pipe.Close(self);
              });
              EXPECT_EQ(freed, kOwners * lives * 3 * Parcel::kBlocks);
              ExpectNothingLost();
            }),
            0);
}

/* The blocks of one of several threads at a time. */
struct Estate {
  static constexpr size_t kMost = 100'000;

  void *blocks[6000];
  size_t bytes;

  void Make(uint64_t seed) {
    TestRandom random(seed);
    bytes = 0;
    for (void *&block : blocks) {
      size_t size = random.LogBetween(16, random.OneIn(50) ? kMost : 8000);
      block = MakeLabelled(size);
      bytes += size;
    }
  }
  void Free() {
    for (void *block : blocks) DropLabelled(block, kMost);
  }
};

TEST_F(Stress, BlocksOutliveTheirOwners) {
  /* All that is freed is freed into heaps whose threads have ended, or that others have adopted since. */
  EXPECT_EQ(InFreshProcess([] {
              constexpr size_t kThreads = 4;
              static Estate estates[kThreads];
              std::memset(estates, 1, sizeof estates);
              const size_t turns = Scaled(50, 8);
              size_t live_bytes = 0;
              MemoryCourse course;
              course.Begin();
              for (size_t turn = 0; turn < turns; turn++) {
                RunThreads(kThreads, [turn](size_t self) {
                  estates[self].Make(SeedFor("BlocksOutliveTheirOwners", turn * kThreads + self));
                });
                size_t bytes = 0;
                for (const Estate &estate : estates) bytes += estate.bytes;
                live_bytes = std::max(live_bytes, bytes);
                if (turn % 2 == 0) RunThreads(kThreads, [](size_t self) { estates[self].Free(); });
                if (turn % 2 == 1) {
                  for (Estate &estate : estates) estate.Free(); /* by a thread that never ends */
                }
              }
              course.End();
              std::printf("heirs: live %zu KiB, peak %zu\n", live_bytes / kKiB, course.peak() / kKiB);
              ExpectNothingLost();
              if (!HAKMEM_TEST_SANITIZER) {
                EXPECT_LE(course.peak(), 2 * live_bytes + 8 * kMiB);
              }
            }),
            0);
}

} /* namespace */
