/* tests/stress/asymmetry_test.cc - memory where some threads only allocate and others only free.
 *
 * Each test runs in a process of its own and looks at its resident bytes at fixed counts of its work. Two bounds: the
 * peak is at most twice the live bytes and kSlack, and the most that was resident in the first hundredth of the work is
 * never exceeded by more than kNoise for each thread that allocates. Live bytes count what waits between the threads,
 * not what they have in their hands.
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "hakmem/hakmem.h"
#include "stress/labelled_blocks.h"
#include "stress/stress_pipe.h"
#include "stress/stress_threads.h"
#include "support/collected.h"
#include "support/malloc_report.h"
#include "support/memory_course.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

/* Four threads' lists of mid blocks, their batches, and the memory that stays dirty. */
constexpr size_t kSlack = 12 * kMiB;
/* The highest count of a class's blocks is passed now and then, each time by less: by 1.3 MiB once in 70 runs, by
 * 2.2 MiB beside many other programs. */
constexpr size_t kNoise = 4 * kMiB;
constexpr size_t kLooks = 100;
/* Of malloc and free together, after which each class has had its share of the memory. In short runs that is more than
 * the first hundredth. */
constexpr size_t kSettled = 3'000'000;

/* The child's message to its parent. */
struct Result {
  MemoryCourse course;
  size_t live_bytes;
  size_t in_use_bytes; /* when all is freed: a block that its owner never collected keeps its slab in use */
};

/* Once all is freed and all threads have ended. */
void TakeStock(Result *result) { result->in_use_bytes = InUseAfterCollecting(); }

void ExpectBounded(const char *name, const Result &result, size_t operations_each_look, size_t noise) {
  size_t early = (kSettled - 1) / operations_each_look;
  result.course.Print(name, result.live_bytes, early);
  if (HAKMEM_TEST_SANITIZER || Scale() < 1) return; /* a shadow is resident; a short run settles nothing */
  ASSERT_GT(result.course.look_count(), early + 1);
  EXPECT_LE(result.course.peak(), 2 * result.live_bytes + kSlack);
  EXPECT_LE(result.course.HighestAfter(early), result.course.HighestTo(early) + noise)
      << "after this much work nothing new may be needed, but in KiB there was: " << result.course.AllLooks();
}

/* ---- Producers that never free, and consumers. */

struct Shape {
  const char *name;
  size_t producers, consumers;
  bool consumers_allocate; /* else they only free */
};

void PrintTo(const Shape &shape, std::ostream *out) { *out << shape.name; }

const Shape kShapes[] = {{"OneToOne", 1, 1, false},
                         {"ManyToOne", 3, 1, false},
                         {"OneToMany", 1, 3, false},
                         {"TwoToTwo", 2, 2, false},
                         {"TwoToTwoThatAllocate", 2, 2, true}};
const SizeRange kSizes[] = {{"OneTiny", 64, 64}, {"MixedTiny", 16, kTinyMax}, {"MixedTo8KiB", 16, 8 * kKiB}};

/* Of each producer. A heap of which all classes are used has a slab or more for each, however little is in it: some 5
 * MiB. */
constexpr size_t kShareBytes = 2 * kMiB;

void Produce(Pipe *pipe, size_t self, const SizeRange &sizes, size_t parcels, TestRandom random) {
  for (size_t i = 0; i < parcels; i++) {
    Parcel parcel;
    for (void *&block : parcel.blocks) {
      size_t size = sizes.Draw(&random);
      block = MakeLabelled(size);
      parcel.bytes += size;
    }
    pipe->Put(self, parcel);
  }
  pipe->Close(self);
}

/* `own_count` blocks of its own, which are replaced in turn by as many as it takes. */
void Consume(Pipe *pipe, const SizeRange &sizes, size_t own_count, TestRandom random) {
  void *own[Parcel::kBlocks];
  for (size_t i = 0; i < own_count; i++) own[i] = MakeLabelled(sizes.Draw(&random));
  for (Parcel parcel; pipe->Take(&parcel);) {
    for (void *block : parcel.blocks) DropLabelled(block, sizes.most);
    for (size_t i = 0; i < own_count; i++) {
      DropLabelled(own[i], sizes.most);
      own[i] = MakeLabelled(sizes.Draw(&random));
    }
  }
  for (size_t i = 0; i < own_count; i++) DropLabelled(own[i], sizes.most);
}

/* An operation is one malloc or one free. */
void RunPipe(const Shape &shape, const SizeRange &sizes, size_t operations, uint64_t seed, Result *result) {
  size_t each_block = shape.consumers_allocate ? 4 : 2;
  size_t parcels = std::max(operations / each_block / Parcel::kBlocks / shape.producers, kLooks);
  Pipe pipe(shape.producers, kShareBytes);
  pipe.LookEach(parcels * shape.producers / kLooks, [result] { result->course.Look(); });
  result->course.Begin();
  RunThreads(shape.producers + shape.consumers, [&](size_t self) {
    TestRandom random(seed + self);
    if (self < shape.producers) {
      Produce(&pipe, self, sizes, parcels, random);
    } else {
      Consume(&pipe, sizes, shape.consumers_allocate ? Parcel::kBlocks : 0, random);
    }
  });
  result->live_bytes = pipe.peak_bytes();
  result->course.End();
}

class Asymmetry : public Stress, public testing::WithParamInterface<std::tuple<Shape, SizeRange>> {};

TEST_P(Asymmetry, Pipe) {
  const Shape &shape = std::get<Shape>(GetParam());
  const SizeRange &sizes = std::get<SizeRange>(GetParam());
  std::string name = std::string(shape.name) + "_" + sizes.name;
  uint64_t seed = SeedFor(name.c_str());
  const size_t operations = Scaled(10'000'000, 500'000);
  hk_test::Shared<Result> result;
  ASSERT_EQ(InFreshProcess([&] {
              RunPipe(shape, sizes, operations, seed, &*result);
              TakeStock(&*result);
            }),
            0);
  EXPECT_GE(result->live_bytes, shape.producers * kShareBytes) << "the pipe was never full: this measures nothing";
  EXPECT_EQ(result->in_use_bytes, 0u) << "all was freed";
  size_t allocating_threads = shape.producers + (shape.consumers_allocate ? shape.consumers : 0);
  ExpectBounded(name.c_str(), *result, operations / kLooks, allocating_threads * kNoise);
}

INSTANTIATE_TEST_SUITE_P(Stress, Asymmetry, testing::Combine(testing::ValuesIn(kShapes), testing::ValuesIn(kSizes)),
                         [](const testing::TestParamInfo<Asymmetry::ParamType> &combination) {
                           return std::string(std::get<0>(combination.param).name) + "_" +
                                  std::get<1>(combination.param).name;
                         });

/* ---- A thread that frees everything another allocated, and then sleeps. */

constexpr size_t kRoundBytes = 16 * kMiB;
/* All of it, freed at once, is more than may stay idle; how much does, to a whole superslab, depends on the clock. */
constexpr size_t kIdleStep = 2 * kMiB;
constexpr size_t kRoundOperations = 2 * kRoundBytes / (2 * kKiB); /* at least: blocks have half that on average */

/* Does one piece of work each time that it is woken, and sleeps. */
class Sleeper {
 public:
  Sleeper() : thread_([this] { Live(); }) {}
  ~Sleeper() {
    Wake(nullptr);
    thread_.join();
  }

  /* Frees the blocks, and is asleep when this returns. */
  void Free(std::vector<void *> *blocks) {
    Wake(blocks);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !is_awake_; });
  }

 private:
  void Wake(std::vector<void *> *blocks) {
    std::lock_guard<std::mutex> lock(mutex_);
    work_ = blocks;
    is_awake_ = true;
    changed_.notify_all();
  }

  void Live() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_awake_; });
      if (work_ == nullptr) return;
      for (void *block : *work_) DropLabelled(block, kSizes[2].most);
      work_->clear();
      is_awake_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<void *> *work_ = nullptr;
  bool is_awake_ = false;
  std::thread thread_;
};

/* Allocates blocks of all sizes up to 8 KiB. Returns their bytes. */
size_t Fill(std::vector<void *> *blocks, TestRandom *random) {
  size_t bytes = 0;
  while (bytes < kRoundBytes) {
    size_t size = kSizes[2].Draw(random);
    blocks->push_back(MakeLabelled(size));
    bytes += size;
  }
  return bytes;
}

/* The number of rounds between two looks. */
size_t EachRounds(size_t rounds) { return std::max(rounds / kLooks, size_t{1}); }

/* A list that need not grow while memory is watched, touched. */
std::vector<void *> ListForARound() {
  std::vector<void *> blocks(kRoundBytes / 256);
  blocks.clear();
  return blocks;
}

TEST_F(Stress, OneFreesAllOfAnotherAndSleeps) {
  uint64_t seed = SeedFor("OneFreesAllOfAnotherAndSleeps");
  hk_test::Shared<Result> result;
  const size_t rounds = Scaled(400, 4);
  ASSERT_EQ(InFreshProcess([&result, seed, rounds] {
              TestRandom random(seed);
              std::vector<void *> blocks = ListForARound();
              Sleeper sleeper;
              result->course.Begin();
              for (size_t round = 0; round < rounds; round++) {
                result->live_bytes = std::max(result->live_bytes, Fill(&blocks, &random));
                if ((round + 1) % EachRounds(rounds) == 0) result->course.Look();
                sleeper.Free(&blocks);
              }
              result->course.End();
            }),
            0);
  ExpectBounded("sleeper", *result, kRoundOperations * EachRounds(rounds), kNoise + kIdleStep);
}

TEST_F(Stress, EachFreesAllOfAnotherAndSleepsForEver) {
  /* A sleeper holds back at most these blocks and bytes, which it has not sent to their owners. */
  constexpr size_t kSleepers = 50, kHeldBlocks = 256, kHeldBytes = 32 * kKiB;
  uint64_t seed = SeedFor("EachFreesAllOfAnotherAndSleepsForEver");
  struct Held : Result {
    size_t held_blocks;
  };
  hk_test::Shared<Held> result;
  ASSERT_EQ(InFreshProcess([&result, seed] {
              TestRandom random(seed);
              std::vector<void *> blocks = ListForARound();
              {
                std::vector<Sleeper> sleepers(kSleepers);
                result->course.Begin();
                for (Sleeper &sleeper : sleepers) {
                  result->live_bytes = std::max(result->live_bytes, Fill(&blocks, &random));
                  result->course.Look();
                  sleeper.Free(&blocks);
                }
                result->course.End();
                hakmem_collect();
                result->held_blocks = *ReadCounter("remote_free") - *ReadCounter("remote_drain");
              }
              TakeStock(&*result);
            }),
            0);
  result->course.Print("sleepers", result->live_bytes, 0);
  EXPECT_LE(result->held_blocks, kSleepers * kHeldBlocks);
  EXPECT_EQ(result->in_use_bytes, 0u) << "all was freed";
  if (HAKMEM_TEST_SANITIZER) return;
  EXPECT_LE(result->course.peak(), 2 * result->live_bytes + kSlack);
  EXPECT_LE(result->course.end(), result->course.look(0) + kSleepers * kHeldBytes + kSlack);
}

TEST_F(Stress, AThirdAllocatesWhileBothSleep) {
  /* The freed blocks belong to threads that sleep: their memory may be held back once, not once for each thread that
   * comes. */
  uint64_t seed = SeedFor("AThirdAllocatesWhileBothSleep");
  hk_test::Shared<Result> result;
  const size_t rounds = Scaled(400, 4);
  ASSERT_EQ(InFreshProcess([&result, seed, rounds] {
              TestRandom random(seed);
              std::vector<void *> blocks = ListForARound();
              Sleeper sleeper;
              result->course.Begin();
              Fill(&blocks, &random);
              sleeper.Free(&blocks); /* this thread, the allocator, now only waits for others */
              for (size_t round = 0; round < rounds; round++) {
                std::thread([&] {
                  result->live_bytes = std::max(result->live_bytes, Fill(&blocks, &random));
                  if ((round + 1) % EachRounds(rounds) == 0) result->course.Look();
                  for (void *block : blocks) DropLabelled(block, kSizes[2].most);
                  blocks.clear();
                }).join();
              }
              result->course.End();
            }),
            0);
  ExpectBounded("third", *result, kRoundOperations * EachRounds(rounds), kNoise + kIdleStep);
}

} /* namespace */
