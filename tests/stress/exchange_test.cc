/* tests/stress/exchange_test.cc - blocks that many threads hand around, resize and free, while others ask questions
 * and trim. */
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "hakmem/hakmem.h"
#include "stress/stress_blocks.h"
#include "stress/stress_pipe.h"
#include "stress/stress_threads.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

/* ---- Blocks freed by the thread that has them. */

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
  /* With contents that are checked to the last byte; asymmetry_test.cc has the memory that this takes. */
  constexpr size_t kPairs = 3;
  const size_t parcels = Scaled(9000, 50);
  std::vector<std::unique_ptr<Pipe>> pipes;
  for (size_t i = 0; i < kPairs; i++) pipes.push_back(std::make_unique<Pipe>(1, 2 * kMiB));
  RunThreads(2 * kPairs, [&pipes, parcels](size_t self) {
    Pipe *pipe = pipes[self / 2].get();
    TestRandom random(SeedFor("ProducersAndConsumers", self));
    for (size_t i = 0; i < parcels; i++) {
      Parcel parcel;
      if (self % 2 == 0) {
        for (void *&block : parcel.blocks) block = MakeOfSize(&random, random.LogBetween(sizeof(Header), 8000));
        parcel.bytes = Parcel::kBlocks * kKiB;
        pipe->Put(0, parcel);
      } else {
        if (!pipe->Take(&parcel)) Wrong("a parcel is missing", nullptr, i);
        for (void *block : parcel.blocks) Drop(block);
      }
    }
    if (self % 2 == 0) pipe->Close(0);
  });
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

} /* namespace */
