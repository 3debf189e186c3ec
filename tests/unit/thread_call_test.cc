// os/thread_call: which threads there are, and what those that wait in the kernel have given it.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "in_child.h"

extern "C" {
#include "os/thread_call.h"
}

namespace {

std::vector<uintptr_t> Words(const hk_thread_call_t &call) { return {call.word, call.word + hk_thread_words}; }

void Insert(void *context, uint64_t thread) { static_cast<std::set<uint64_t> *>(context)->insert(thread); }

std::set<uint64_t> Threads() {
  std::set<uint64_t> threads;
  EXPECT_TRUE(hk_thread_call_each(Insert, &threads));
  return threads;
}

// Asks until the thread does as it should; its steps before that take an unknown time.
hk_thread_call_t WaitFor(uint64_t thread, hk_thread_state_t state) {
  hk_thread_call_t call;
  do call = hk_thread_call_of(thread);
  while (call.state != state);
  return call;
}

// Threads that read from a pipe in which nothing comes, until the end.
class ThreadCall : public ::testing::Test {
 protected:
  void SetUp() override {
    alarm(hk_test::kChildSeconds);
    ASSERT_EQ(pipe(quiet_), 0);
  }
  void TearDown() override {
    close(quiet_[1]);
    for (std::thread &thread : threads_) thread.join();
    close(quiet_[0]);
    alarm(0);
  }

  // Its number.
  uint64_t Start(void *buffer) {
    std::promise<uint64_t> number;
    std::future<uint64_t> known = number.get_future();
    threads_.emplace_back([this, buffer, number = std::move(number)]() mutable {
      number.set_value(hk_thread_call_own());
      (void)syscall(SYS_read, quiet_[0], buffer, 24);
    });
    return known.get();
  }

  int quiet_[2];
  std::vector<std::thread> threads_;
};

TEST_F(ThreadCall, WhatAWaitingThreadGaveToTheKernel) {
  char buffer[24];
  hk_thread_call_t call;
  uint64_t thread = Start(buffer);
  do call = WaitFor(thread, hk_thread_calls);
  while (call.word[1] != reinterpret_cast<uintptr_t>(buffer));  // it may have waited for memory, or a lock
  EXPECT_EQ(call.word[0], static_cast<uintptr_t>(quiet_[0]));
  EXPECT_EQ(call.word[2], sizeof buffer);
  EXPECT_NE(call.word[hk_thread_stack_pointer], 0u);
  EXPECT_NE(call.word[hk_thread_code_pointer], 0u);
}

TEST_F(ThreadCall, AThreadThatRunsSaysNothing) {
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> number{0};
  std::thread runner([&] {
    number = hk_thread_call_own();
    while (!is_over) continue;
  });
  while (number == 0) std::this_thread::yield();
  hk_thread_call_t call = WaitFor(number, hk_thread_runs);
  is_over = true;
  runner.join();
  EXPECT_EQ(Words(call), std::vector<uintptr_t>(hk_thread_words));
}

TEST_F(ThreadCall, TheCallerWaitsInItsOwnCall) {
  hk_thread_call_t call = hk_thread_call_of(hk_thread_call_own());
  EXPECT_EQ(call.state, hk_thread_calls);
  uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)), sp = call.word[hk_thread_stack_pointer];
  EXPECT_LT(here > sp ? here - sp : sp - here, 64u * 1024);
}

TEST_F(ThreadCall, AllThreadsOfMany) {
  std::set<uint64_t> wanted = {hk_thread_call_own()};
  std::vector<char> buffer(24);
  for (int i = 0; i < 100; i++) wanted.insert(Start(buffer.data()));  // more than one reading has room for
  std::set<uint64_t> threads = Threads();
  for (uint64_t thread : wanted) EXPECT_EQ(threads.count(thread), 1u) << thread;
  size_t all = 0;
  for (auto &entry : std::filesystem::directory_iterator("/proc/self/task")) all += !entry.path().empty();
  EXPECT_EQ(threads.size(), all);
}

TEST_F(ThreadCall, ErrnoStaysAsItIs) {
  errno = 77;
  EXPECT_EQ(hk_thread_call_of(UINT64_MAX).state, hk_thread_runs) << "there is no such thread";
  (void)hk_thread_call_of(hk_thread_call_own());
  (void)Threads();
  EXPECT_EQ(errno, 77);
}

TEST(ThreadCallWords, OfACall) {
  hk_thread_call_t call =
      hk_thread_call_parse("232 0x5 0x7feb1c7d4e00 0x1 0xffffffff 0x0 0xa 0x7feb1c7d4db0 0x7feb1d0e2f36");
  EXPECT_EQ(call.state, hk_thread_calls);
  EXPECT_EQ(Words(call),
            (std::vector<uintptr_t>{5, 0x7feb1c7d4e00, 1, 0xffffffff, 0, 10, 0x7feb1c7d4db0, 0x7feb1d0e2f36}));
}

TEST(ThreadCallWords, OutsideACall) {
  hk_thread_call_t call = hk_thread_call_parse("-1 0x7ffc00 0x401000");
  EXPECT_EQ(call.state, hk_thread_pauses);
  EXPECT_EQ(Words(call), (std::vector<uintptr_t>{0, 0, 0, 0, 0, 0, 0x7ffc00, 0x401000}));
}

TEST(ThreadCallWords, OfOneThatHasEnded) { EXPECT_EQ(hk_thread_call_parse("-1 0x0 0x0").state, hk_thread_is_over); }

TEST(ThreadCallWords, AnythingElseIsUnknown) {
  for (const char *line :
       {"", "running", "-1", "-1 0x7ffc00", "7", "7 0x1 0x2 0x3 0x4 0x5 0x6 0x7", "7 1 2 3 4 5 6 7 8", "x"}) {
    hk_thread_call_t call = hk_thread_call_parse(line);
    EXPECT_EQ(call.state, hk_thread_runs) << line;
    EXPECT_EQ(Words(call), std::vector<uintptr_t>(hk_thread_words)) << line;
  }
}

}  // namespace
