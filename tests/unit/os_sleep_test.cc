// os/os_sleep: which threads sleep outside the library, on the kernel at hand.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include "support/scale.h"

extern "C" {
#include "os/os.h"
}

namespace {

std::atomic<hk_os_thread_t *> started{nullptr};

hk_os_thread_t seen;
int pipe_in[2];

void WaitInPipe() {
  char byte;
  while (read(pipe_in[0], &byte, 1) < 0 && errno == EINTR) continue;
}

__attribute__((noinline)) void Descend(size_t bytes) {
  volatile char frame[1024];
  std::memset(const_cast<char *>(frame), 0, sizeof frame);
  if (bytes > sizeof frame) {
    Descend(bytes - sizeof frame);
  } else {
    WaitInPipe();
  }
  frame[0] = 1;
}

// A thread that waits somewhere until the test is over.
class Sleep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (HAKMEM_TEST_SANITIZER)
      GTEST_SKIP() << "sanitizers have signal stacks of their own, and know no order by the kernel";
    alarm(60);
    started = nullptr;
    ASSERT_EQ(pipe(pipe_in), 0);
  }
  void TearDown() override {
    if (HAKMEM_TEST_SANITIZER) return;
    close(pipe_in[1]);
    if (thread_.joinable()) thread_.join();
    close(pipe_in[0]);
    alarm(0);
  }

  void Start(std::function<void()> body) {
    thread_ = std::thread([body] {
      seen = hk_os_thread_self();
      started = &seen;
      body();
    });
    while (started == nullptr) std::this_thread::yield();
  }

  // Asks until the answer is yes, or so often that it will not be.
  bool SleepsAtLast() {
    for (int i = 0; i < 100000; i++) {
      if (hk_os_thread_sleeps(&seen)) return true;
      usleep(100);
    }
    return false;
  }
  bool NeverSleeps() {
    for (int i = 0; i < 300; i++) {
      if (hk_os_thread_sleeps(&seen)) return false;
      usleep(100);
    }
    return true;
  }

  std::thread thread_;
};

TEST_F(Sleep, AThreadThatReadsFromAPipe) {
  Start(WaitInPipe);
  EXPECT_NE(seen.number, 0u);
  EXPECT_TRUE(SleepsAtLast());
}

TEST_F(Sleep, AThreadThatRunsDoesNot) {
  static std::atomic<bool> is_over;
  is_over = false;
  Start([] {
    while (!is_over) continue;
  });
  EXPECT_TRUE(NeverSleeps());
  is_over = true;
}

TEST_F(Sleep, AThreadThatWaitsInTheLibraryDoesNot) {
  static std::atomic<uint32_t> word;
  word = 0;
  Start([] {
    while (word == 0) hk_os_wait(reinterpret_cast<uint32_t *>(&word), 0);
  });
  EXPECT_TRUE(NeverSleeps());
  word = 1;
  hk_os_wake_one(reinterpret_cast<uint32_t *>(&word));
}

TEST_F(Sleep, AThreadThatHasEndedDoesNot) {
  Start([] {});
  thread_.join();
  EXPECT_FALSE(hk_os_thread_sleeps(&seen));
}

TEST_F(Sleep, OnlyAThreadThatIsGoneHasEnded) {
  static std::atomic<bool> is_over;
  is_over = false;
  Start([] {
    while (!is_over) usleep(100);
  });
  EXPECT_FALSE(hk_os_thread_has_ended(&seen));
  is_over = true;
  thread_.join();
  for (int i = 0; i < 100000 && !hk_os_thread_has_ended(&seen); i++) usleep(100); /* the kernel comes after the join */
  EXPECT_TRUE(hk_os_thread_has_ended(&seen));
  hk_os_thread_t self = hk_os_thread_self();
  EXPECT_FALSE(hk_os_thread_has_ended(&self));
}

// A child that shares all memory may run with the thread's thread-local memory.
TEST_F(Sleep, AThreadThatWaitsForAChildDoesNot) {
  static int stop[2];
  ASSERT_EQ(pipe(stop), 0);
  Start([] {
    pid_t child = fork();
    if (child == 0) {
      char byte;
      close(stop[1]);
      (void)!read(stop[0], &byte, 1);
      _exit(0);
    }
    (void)waitpid(child, nullptr, 0);
  });
  EXPECT_TRUE(NeverSleeps());
  close(stop[1]);
  thread_.join();
  close(stop[0]);
}

TEST_F(Sleep, TheCallerDoesNot) {
  hk_os_thread_t self = hk_os_thread_self();
  EXPECT_FALSE(hk_os_thread_sleeps(&self));
}

TEST_F(Sleep, NoThreadWithoutANumberDoes) {
  hk_os_thread_t none = {};
  EXPECT_FALSE(hk_os_thread_sleeps(&none));
}

TEST_F(Sleep, AThreadFarDownItsStackIsNotLookedAt) {
  Start([] { Descend(size_t{300} * 1024); });
  EXPECT_TRUE(NeverSleeps());
}

TEST_F(Sleep, AThreadSomeWayDownItsStack) {
  Start([] { Descend(size_t{6} * 1024); });
  EXPECT_TRUE(SleepsAtLast());
}

// ---- Signal handlers: what they have interrupted is not known.

void WaitInHandler(int) { WaitInPipe(); }

void CatchOn(int flags) {
  struct sigaction action = {};
  action.sa_handler = WaitInHandler;
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, nullptr);
}

TEST_F(Sleep, AThreadInASignalHandlerDoesNot) {
  CatchOn(0);
  Start([] { raise(SIGUSR1); });
  EXPECT_TRUE(NeverSleeps());
}

TEST_F(Sleep, NorAThreadInAHandlerFarBelowIt) {
  struct sigaction action = {};
  action.sa_handler = [](int) { Descend(size_t{3} * 1024); };
  sigaction(SIGUSR1, &action, nullptr);
  Start([] { raise(SIGUSR1); });
  EXPECT_TRUE(NeverSleeps());
}

TEST_F(Sleep, NorAThreadInAHandlerWithAStackOfItsOwn) {
  static char stack[64 * 1024];
  CatchOn(SA_ONSTACK);
  Start([] {
    stack_t other = {};
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);
    raise(SIGUSR1);
  });
  EXPECT_TRUE(NeverSleeps());
}

TEST_F(Sleep, AThreadWhoseHandlerIsOverSleepsAgain) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, nullptr);
  Start([] {
    raise(SIGUSR1);
    WaitInPipe();
  });
  EXPECT_TRUE(SleepsAtLast());
}

// An array of small numbers holds what may be flags, and 0x33 behind them, in many places.
TEST_F(Sleep, AThreadWithSmallNumbersOnItsStackSleeps) {
  Start([] {
    volatile size_t numbers[256];
    for (size_t i = 0; i < 256; i++) numbers[i] = i % 2 == 0 ? 0x246 : 0x33;
    WaitInPipe();
    numbers[0] = numbers[1];
  });
  EXPECT_TRUE(SleepsAtLast());
}

// So do a pointer, a count and a length, as in many records; behind them lies no address of the stack.
TEST_F(Sleep, AThreadWithAPointerAndNumbersOnItsStackSleeps) {
  Start([] {
    volatile uintptr_t words[64];
    for (size_t i = 0; i < 64; i++) words[i] = reinterpret_cast<uintptr_t>(&started);
    words[1] = 0x246;
    words[2] = 0x33;
    WaitInPipe();
    words[0] = words[1];
  });
  EXPECT_TRUE(SleepsAtLast());
}

// ---- A child that shares the thread's memory.

TEST_F(Sleep, AThreadThatWaitsForItsVforkDoesNot) {
  Start([] {
    pid_t child = vfork();
    if (child == 0) {
      char byte;
      (void)!read(pipe_in[0], &byte, 1);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  });
  EXPECT_TRUE(NeverSleeps());
  (void)!write(pipe_in[1], "x", 1);
}

}  // namespace
