/* tests/stress/stress_test.cc - many threads: blocks that change hands, threads that come and go, forks in between.
 *
 * Each block carries the stamp of its contents in its first word and is filled with the pattern that follows from it, so
 * whoever gets hold of a block can check it. An alarm ends a test that hangs. No test looks at the clock: what they do is
 * counted, so a run is as long under a debugger as it is alone.
 */
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/shadow_model.h"
#include "support/test_random.h"

using namespace hakmem_test;

namespace {

/* ---- Blocks that prove themselves. */

struct Header {
  size_t size;
  uint64_t stamp;
};

/* From any thread; the first thing wrong is kept, the others may be its consequences. */
std::atomic<int> wrong_count;

void Wrong(const char *what, const void *block, size_t detail) {
  if (wrong_count++ < 5) std::fprintf(stderr, "wrong: %s: block %p, 0x%zx\n", what, block, detail);
}

void Stamp(void *block, size_t size, uint64_t stamp) {
  Header header = {size, stamp};
  FillPattern(static_cast<char *>(block) + sizeof header, size - sizeof header, stamp);
  std::memcpy(block, &header, sizeof header);
}

/* Its size, or 0 when something is wrong. */
size_t Verify(const void *block) {
  Header header;
  std::memcpy(&header, block, sizeof header);
  if (header.size < sizeof header || header.size > 64 * kMiB) {
    Wrong("header is damaged", block, header.size);
    return 0;
  }
  size_t body = header.size - sizeof header;
  size_t offset = FindBrokenPattern(static_cast<const char *>(block) + sizeof header, body, body, header.stamp);
  if (offset == kIntact) return header.size;
  Wrong("contents are damaged", block, offset);
  return 0;
}

size_t DrawSize(TestRandom *random) {
  size_t kind = random->Below(1000);
  if (kind < 800) return random->LogBetween(sizeof(Header), kTinyMax);
  if (kind < 985) return random->LogBetween(kTinyMax, kMidMax);
  if (kind < 998) return random->LogBetween(kMidMax, kRunMax);
  return random->LogBetween(kRunMax, 4 * kMiB);
}

void *MakeOfSize(TestRandom *random, size_t size) {
  void *block = nullptr;
  switch (random->Below(10)) {
    case 0:
      block = hakmem_calloc(1, size);
      if (block != nullptr && FindNonZero(block, size) != kIntact)
        Wrong("calloc is not zero", block, FindNonZero(block, size));
      break;
    case 1:
      block = hakmem_aligned_alloc(size_t{16} << random->Below(6), size);
      break;
    default:
      block = hakmem_malloc(size);
  }
  if (block == nullptr) {
    Wrong("out of memory", nullptr, size);
    std::abort(); /* the tests stay far below any limit */
  }
  Stamp(block, size, random->Next());
  return block;
}

void *Make(TestRandom *random) { return MakeOfSize(random, DrawSize(random)); }

void Drop(void *block) {
  if (block == nullptr) return;
  if (Verify(block) > 0) std::memset(block, 0xdd, sizeof(Header)); /* a second owner of it would notice */
  hakmem_free(block);
}

void *Resize(TestRandom *random, void *block) {
  size_t old = Verify(block);
  if (old == 0) return block;
  size_t size = DrawSize(random);
  if (random->OneIn(3)) size = old + random->Below(old) + 1;
  if (size > 8 * kMiB) size = old;
  Header header;
  std::memcpy(&header, block, sizeof header);
  char *moved = static_cast<char *>(hakmem_realloc(block, size));
  if (moved == nullptr) {
    Wrong("out of memory in realloc", block, size);
    return block;
  }
  size_t body = old - sizeof header, kept = (size < old ? size : old) - sizeof header;
  size_t offset = FindBrokenPattern(moved + sizeof header, body, kept, header.stamp);
  if (offset != kIntact) Wrong("contents lost in realloc", moved, offset);
  Stamp(moved, size, random->Next());
  return moved;
}

/* ---- Threads. */

class Stress : public testing::Test {
 protected:
  void SetUp() override {
    wrong_count = 0;
    alarm(600);
  }
  void TearDown() override {
    alarm(0);
    EXPECT_EQ(wrong_count, 0);
  }
};

template <typename Body>
void RunThreads(size_t count, Body body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; i++) threads.emplace_back([body, i] { body(i); });
  for (std::thread &thread : threads) thread.join();
}

/* A place where threads leave blocks for others: any may put, any may take. */
class Mailbox {
 public:
  void Put(std::vector<void *> blocks) {
    std::lock_guard<std::mutex> lock(mutex_);
    blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
  }

  std::vector<void *> TakeAll() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<void *> taken;
    taken.swap(blocks_);
    return taken;
  }

 private:
  std::mutex mutex_;
  std::vector<void *> blocks_;
};

/* ---- Blocks freed by whoever has them. */

void CrossThreadFrees(size_t thread_count, size_t operations) {
  std::vector<Mailbox> boxes(thread_count);
  RunThreads(thread_count, [&boxes, thread_count, operations](size_t self) {
    TestRandom random(SeedFor("CrossThreadFrees", thread_count * 100 + self));
    std::vector<void *> own;
    std::vector<std::vector<void *>> outgoing(thread_count);
    for (size_t i = 0; i < operations; i++) {
      size_t draw = random.Below(100);
      if (own.size() < 20 || (draw < 45 && own.size() < 200)) {
        own.push_back(Make(&random));
      } else {
        size_t victim = random.Below(own.size());
        void *block = own[victim];
        own[victim] = own.back();
        own.pop_back();
        if (draw % 2 == 0) {
          Drop(block);
        } else {
          size_t target = random.Below(thread_count);
          outgoing[target].push_back(block);
          if (outgoing[target].size() >= 32) {
            boxes[target].Put(std::move(outgoing[target]));
            outgoing[target].clear();
          }
        }
      }
      if (i % 64 == 0) {
        for (void *block : boxes[self].TakeAll()) Drop(block);
      }
    }
    for (size_t target = 0; target < thread_count; target++) boxes[target].Put(std::move(outgoing[target]));
    for (void *block : own) Drop(block);
  });
  for (Mailbox &box : boxes) {
    for (void *block : box.TakeAll()) Drop(block);
  }
}

TEST_F(Stress, CrossThreadFreesBy2) { CrossThreadFrees(2, Scaled(250000, 1000)); }
TEST_F(Stress, CrossThreadFreesBy4) { CrossThreadFrees(4, Scaled(120000, 1000)); }
TEST_F(Stress, CrossThreadFreesBy16) { CrossThreadFrees(16, Scaled(25000, 500)); }

TEST_F(Stress, OneClassHandedAround) {
  /* All threads work on the same slabs: every free is remote, every slab has many visitors. */
  for (size_t size : {size_t{32}, size_t{512}, size_t{9000}}) {
    constexpr size_t kThreads = 4;
    Mailbox ring[kThreads];
    RunThreads(kThreads, [&ring, size](size_t self) {
      TestRandom random(SeedFor("OneClassHandedAround", size * 10 + self));
      size_t rounds = Scaled(1500, 50);
      for (size_t round = 0; round < rounds; round++) {
        std::vector<void *> batch;
        for (int i = 0; i < 50; i++) batch.push_back(MakeOfSize(&random, size));
        ring[(self + 1) % kThreads].Put(std::move(batch));
        for (void *block : ring[self].TakeAll()) Drop(block);
      }
    });
    for (Mailbox &box : ring) {
      for (void *block : box.TakeAll()) Drop(block);
    }
  }
}

/* ---- Producers and consumers. */

TEST_F(Stress, ProducersAndConsumers) {
  constexpr size_t kPairs = 3, kBatch = 100;
  const size_t batches = Scaled(6000, 30);
  struct Pipe {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::vector<void *>> batches;
    size_t taken = 0;
  };
  Pipe pipes[kPairs];
  size_t early = 0;
  std::atomic<size_t> produced{0};
  RunThreads(2 * kPairs, [&](size_t self) {
    Pipe &pipe = pipes[self / 2];
    TestRandom random(SeedFor("ProducersAndConsumers", self));
    for (size_t i = 0; i < batches; i++) {
      if (self % 2 == 0) {
        std::vector<void *> batch;
        for (size_t k = 0; k < kBatch; k++)
          batch.push_back(MakeOfSize(&random, random.LogBetween(sizeof(Header), 8000)));
        std::unique_lock<std::mutex> lock(pipe.mutex);
        pipe.changed.wait(lock, [&pipe] { return pipe.batches.size() < 16; });
        pipe.batches.push_back(std::move(batch));
        pipe.changed.notify_all();
        if (++produced == batches * kPairs / 5) early = ResidentBytes();
      } else {
        std::unique_lock<std::mutex> lock(pipe.mutex);
        pipe.changed.wait(lock, [&pipe] { return !pipe.batches.empty(); });
        std::vector<void *> batch = std::move(pipe.batches.back());
        pipe.batches.pop_back();
        pipe.changed.notify_all();
        lock.unlock();
        for (void *block : batch) Drop(block);
      }
    }
  });
  if (HAKMEM_TEST_SANITIZER || Scale() < 1) return;
  EXPECT_LE(ResidentBytes(), early + 24 * kMiB) << "what is in flight is bounded, so must be what is resident";
}

/* ---- Threads that come and go, with destructors that allocate. */

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

TEST_F(Stress, ThreadsComeAndGo) {
  ASSERT_TRUE(keys_made);
  const size_t thread_count = Scaled(6000, 60);
  Mailbox left_behind;
  size_t started = 0, at_quarter = 0;
  destructor_runs = 0;
  while (started < thread_count) {
    RunThreads(4, [&left_behind, started](size_t self) {
      TestRandom random(SeedFor("ThreadsComeAndGo", started + self));
      std::vector<void *> own;
      for (int i = 0; i < 60; i++) own.push_back(MakeOfSize(&random, random.LogBetween(sizeof(Header), 20000)));
      for (void *block : left_behind.TakeAll()) Drop(block); /* their owners have ended */
      for (size_t i = 0; i < 40; i++) Drop(own[i]);
      left_behind.Put({own.begin() + 40, own.end()});
      thread_local_object.block = MakeOfSize(&random, 300);
      SetValue(early_key, &random, static_cast<int>(random.Below(3)));
      SetValue(late_key, &random, static_cast<int>(random.Below(3)));
    });
    started += 4;
    if (at_quarter == 0 && started >= thread_count / 4) at_quarter = ResidentBytes();
  }
  for (void *block : left_behind.TakeAll()) Drop(block);
  EXPECT_GE(destructor_runs, 2 * thread_count);
  if (HAKMEM_TEST_SANITIZER) return;
  EXPECT_LE(ResidentBytes(), at_quarter + 2 * kMiB)
      << thread_count << " threads in turn must not cost more than a quarter";
}

TEST_F(Stress, ThreadsThatOnlyAllocateWhileEnding) {
  /* The thread itself never allocates: its first use is in a destructor, when our own hook's round may be over. */
  ASSERT_TRUE(keys_made);
  const size_t rounds = Scaled(800, 20);
  size_t at_quarter = 0;
  for (size_t round = 0; round < rounds; round++) {
    static KeyValue values[8];
    RunThreads(8, [](size_t self) {
      values[self] = {self % 2 == 0 ? early_key : late_key, 1, nullptr};
      struct Own {
        static void Destroy(void *argument) { /* stands in for DestroyValue: the value is not hakmem's */
          KeyValue *value = static_cast<KeyValue *>(argument);
          TestRandom random(static_cast<uint64_t>(value->rounds_left));
          for (int i = 0; i < 8; i++) Drop(Make(&random));
          void *kept = MakeOfSize(&random, 100);
          Drop(kept);
        }
      };
      static pthread_key_t key = [] {
        pthread_key_t made;
        pthread_key_create(&made, Own::Destroy);
        return made;
      }();
      pthread_setspecific(key, &values[self]);
    });
    if (round == rounds / 4) at_quarter = ResidentBytes();
  }
  if (HAKMEM_TEST_SANITIZER) return;
  EXPECT_LE(ResidentBytes(), at_quarter + 2 * kMiB);
}

/* ---- realloc by many, also of blocks of others. */

std::atomic<size_t> signals_seen;

TEST_F(Stress, ReallocStorm) {
  Mailbox exchange;
  /* A signal each millisecond: handlers call nothing of ours, but every loop and lock is interrupted somewhere. */
  struct sigaction action = {}, old_action;
  action.sa_handler = [](int) { signals_seen++; };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGPROF, &action, &old_action), 0);
  itimerval timer = {{0, 1000}, {0, 1000}}, none = {};
  ASSERT_EQ(setitimer(ITIMER_PROF, &timer, nullptr), 0);
  RunThreads(4, [&exchange](size_t self) {
    TestRandom random(SeedFor("ReallocStorm", self));
    std::vector<void *> own;
    for (int i = 0; i < 40; i++) own.push_back(Make(&random));
    size_t operations = Scaled(60000, 300);
    for (size_t i = 0; i < operations; i++) {
      size_t index = random.Below(own.size());
      own[index] = Resize(&random, own[index]);
      if (random.OneIn(20)) {
        exchange.Put({own[index]});
        own[index] = own.back();
        own.pop_back();
        for (void *block : exchange.TakeAll()) own.push_back(Resize(&random, block));
        while (own.size() < 30) own.push_back(Make(&random));
        while (own.size() > 60) {
          Drop(own.back());
          own.pop_back();
        }
      }
    }
    for (void *block : own) Drop(block);
  });
  setitimer(ITIMER_PROF, &none, nullptr);
  sigaction(SIGPROF, &old_action, nullptr);
  for (void *block : exchange.TakeAll()) Drop(block);
}

/* ---- Questions and trims while others work. */

TEST_F(Stress, CollectAndReportsMeanwhile) {
  std::atomic<bool> done{false};
  Mailbox exchange;
  RunThreads(4, [&done, &exchange](size_t self) {
    TestRandom random(SeedFor("CollectAndReports", self));
    if (self == 3) {
      size_t rounds = Scaled(2000, 10);
      for (size_t i = 0; i < rounds; i++) {
        hakmem_collect();
        hakmem_malloc_trim(kMiB);
        struct mallinfo2 info = hakmem_mallinfo2();
        if (info.uordblks > size_t{1} << 40) Wrong("in use is absurd", nullptr, info.uordblks);
        for (int k = 0; k < 200; k++) hakmem_check_owned(reinterpret_cast<void *>(random.Next() >> random.Below(64)));
        for (void *block : exchange.TakeAll()) {
          if (!hakmem_check_owned(block)) Wrong("a live block is not owned", block, 0);
          Drop(block);
        }
      }
      done = true;
      return;
    }
    std::vector<void *> own;
    while (!done) {
      for (int i = 0; i < 100; i++) own.push_back(Make(&random));
      exchange.Put({own.begin() + 80, own.end()});
      own.resize(80);
      for (void *block : own) Drop(block);
      own.clear();
      /* The collector is slower than three producers: what it does not take in time they take back. */
      if (random.OneIn(4)) {
        for (void *block : exchange.TakeAll()) Drop(block);
      }
    }
  });
  for (void *block : exchange.TakeAll()) Drop(block);
}

/* ---- fork while threads work. */

/* What the child does: allocates in every band, frees what it inherited, starts a thread. Async-signal-safe it is not: that
 * is the point. Its exit status is the number of the step that went wrong. */
int ForkedChild(const std::vector<void *> &inherited) {
  TestRandom random(42);
  void *blocks[200];
  for (void *&block : blocks) block = Make(&random);
  for (void *block : blocks) Drop(block);
  if (wrong_count != 0) return 2;
  for (void *block : inherited) Drop(block); /* of the forking thread, and of threads that are not here */
  if (wrong_count != 0) return 3;
  if (!HAKMEM_TEST_SANITIZER) { /* its own locks may be held in the child, and TSan follows no thread there */
    pthread_t thread;
    if (pthread_create(
            &thread, nullptr,
            [](void *) -> void * {
              TestRandom own(43);
              for (int i = 0; i < 100; i++) Drop(Make(&own));
              return nullptr;
            },
            nullptr) != 0) {
      return 4;
    }
    if (pthread_join(thread, nullptr) != 0) return 5;
  }
  hakmem_collect();
  for (int i = 0; i < 100; i++) Drop(Make(&random));
  return wrong_count == 0 ? 0 : 6;
}

void ForkWhile(size_t thread_count, size_t forks, void (*work)(TestRandom *random, Mailbox *exchange)) {
  std::atomic<bool> done{false};
  Mailbox exchange;
  /* Blocks that nobody touches between the fork and the child's free, half of them of a thread that has ended. */
  TestRandom random(SeedFor("ForkWhile", thread_count));
  std::vector<void *> inherited;
  for (int i = 0; i < 100; i++) inherited.push_back(Make(&random));
  std::thread([&inherited, &random] {
    for (int i = 0; i < 100; i++) inherited.push_back(Make(&random));
  }).join();
  std::mutex mutex;
  std::vector<void *> of_workers;
  std::vector<std::thread> workers;
  for (size_t i = 0; i < thread_count; i++) {
    workers.emplace_back([&, i] {
      TestRandom own(SeedFor("ForkWhile", thread_count * 100 + i));
      {
        std::lock_guard<std::mutex> lock(mutex);
        for (int k = 0; k < 50; k++) of_workers.push_back(Make(&own));
      }
      while (!done) work(&own, &exchange);
    });
  }
  int failed = 0;
  for (size_t i = 0; i < forks && failed < 3; i++) {
    std::vector<void *> given;
    {
      std::lock_guard<std::mutex> lock(mutex);
      given = inherited;
      given.insert(given.end(), of_workers.begin(), of_workers.end());
    }
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(ForkedChild(given));
    }
    ASSERT_GT(child, 0) << std::strerror(errno);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      ADD_FAILURE() << "fork " << i << ": the child "
                    << (WTERMSIG(status) == SIGALRM ? std::string("hangs")
                                                    : "died of signal " + std::to_string(WTERMSIG(status)));
      failed++;
    } else if (WEXITSTATUS(status) != 0) {
      ADD_FAILURE() << "fork " << i << ": the child failed in step " << WEXITSTATUS(status);
      failed++;
    }
    /* The parent goes on meanwhile as if nothing had been. */
    Drop(Make(&random));
  }
  done = true;
  for (std::thread &worker : workers) worker.join();
  for (void *block : exchange.TakeAll()) Drop(block);
  for (void *block : inherited) Drop(block);
  for (void *block : of_workers) Drop(block);
}

void Churn(TestRandom *random, Mailbox *exchange) {
  std::vector<void *> own;
  for (int i = 0; i < 50; i++) own.push_back(Make(random));
  for (void *block : exchange->TakeAll()) Drop(block);
  for (int i = 0; i < 10; i++) own[i] = Resize(random, own[i]);
  exchange->Put({own.begin() + 25, own.end()});
  own.resize(25);
  for (void *block : own) Drop(block);
}

/* The slow paths alone: whole slabs, runs, big blocks, so that the locks are held often. */
void ChurnLarge(TestRandom *random, Mailbox *exchange) {
  std::vector<void *> own;
  for (int i = 0; i < 6; i++) own.push_back(MakeOfSize(random, random->LogBetween(20000, 2 * kMiB)));
  for (void *block : exchange->TakeAll()) Drop(block);
  exchange->Put({own.begin() + 4, own.end()});
  own.resize(4);
  for (void *block : own) Drop(block);
  if (random->OneIn(10)) hakmem_collect();
}

/* Threads are born and die while the fork happens. */
void ChurnThreads(TestRandom *random, Mailbox *exchange) {
  std::thread([random, exchange] { Churn(random, exchange); }).join();
}

TEST_F(Stress, ForkWhileThreadsChurn) { ForkWhile(4, Scaled(80, 4), Churn); }
TEST_F(Stress, ForkWhileThreadsUseTheSlowPaths) { ForkWhile(3, Scaled(80, 4), ChurnLarge); }
TEST_F(Stress, ForkWhileThreadsComeAndGo) { ForkWhile(4, Scaled(80, 4), ChurnThreads); }

TEST_F(Stress, ForkOfForkOfFork) {
  std::atomic<bool> done{false};
  Mailbox exchange;
  std::thread worker([&done, &exchange] {
    TestRandom random(SeedFor("ForkOfFork"));
    while (!done) Churn(&random, &exchange);
  });
  TestRandom random(SeedFor("ForkOfForkMain"));
  for (size_t i = 0; i < Scaled(20, 1); i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      for (int depth = 0; depth < 4; depth++) {
        for (int k = 0; k < 100; k++) Drop(Make(&random));
        pid_t grandchild = fork();
        if (grandchild > 0) {
          int status = 0;
          if (waitpid(grandchild, &status, 0) != grandchild) _exit(10);
          _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 11);
        }
      }
      _exit(wrong_count == 0 ? 0 : 12);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  done = true;
  worker.join();
  for (void *block : exchange.TakeAll()) Drop(block);
}

} /* namespace */
