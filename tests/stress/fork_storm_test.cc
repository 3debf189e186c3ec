/* tests/stress/fork_storm_test.cc - forks while other threads allocate, free, come and go. */
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "stress/stress_blocks.h"
#include "stress/stress_threads.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

/* What the child does: allocates in every band, frees what it inherited, starts a thread. Async-signal-safe it is not:
 * that is the point. Its exit status is the number of the step that went wrong. */
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
  /* Blocks that no thread touches between the fork and the child's free, half of them of a thread that has ended. */
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
      alarm(HangSeconds() / 2);
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

/* The slow paths alone: whole slabs, runs, large blocks, so that the locks are held often. */
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
      alarm(HangSeconds() / 2);
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
