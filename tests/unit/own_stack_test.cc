// os/own_stack: a function on a stack of its own, and how little of the stack of its caller it takes.
#include <gtest/gtest.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <vector>

#include "os_linux_driver.h"

extern "C" {
#include "os/own_stack.h"
}

namespace {

using hk_test::os_linux_driver::MappedBytes;

struct Seen {
  uintptr_t frame = 0;
  bool is_aligned = false;
};

// A store of a vector register to the stack faults where the stack is not aligned to 16 bytes.
void Look(void *context) {
  auto *seen = static_cast<Seen *>(context);
  alignas(16) volatile char local = 1;
  seen->frame = reinterpret_cast<uintptr_t>(&local);
  seen->is_aligned = seen->frame % 16 == 0;
}

void UseMuch(void *context) {
  volatile char frame[32 * 1024];
  for (volatile char &byte : frame) byte = 1;
  *static_cast<bool *>(context) = frame[0] == 1;
}

TEST(OwnStack, RunsFarFromTheCallersFrameAndReturns) {
  Seen seen;
  volatile char here = 1;
  ASSERT_TRUE(hk_own_stack_run(Look, &seen));
  auto own = reinterpret_cast<uintptr_t>(&here);
  EXPECT_TRUE(seen.is_aligned);
  EXPECT_GT(std::max(seen.frame, own) - std::min(seen.frame, own), 64u * 1024);
}

// A handler of the program may need a stack as large as the program's own.
std::atomic<bool> has_handled{false};
void NoteSignal(int) { has_handled = true; }

void RaiseAndLook(void *context) {
  raise(SIGUSR1);
  *static_cast<bool *>(context) = has_handled;
}

TEST(OwnStack, SignalsOfTheProgramWait) {
  sighandler_t before = signal(SIGUSR1, NoteSignal);
  bool was_handled_inside = true;
  ASSERT_TRUE(hk_own_stack_run(RaiseAndLook, &was_handled_inside));
  EXPECT_FALSE(was_handled_inside);
  EXPECT_TRUE(has_handled);
  signal(SIGUSR1, before);
}

TEST(OwnStack, HasRoomForDeepCalls) {
  bool is_done = false;
  ASSERT_TRUE(hk_own_stack_run(UseMuch, &is_done));
  EXPECT_TRUE(is_done);
}

TEST(OwnStack, LeavesNoMappingBehind) {
  bool is_done;
  (void)hk_own_stack_run(UseMuch, &is_done);
  size_t before = MappedBytes();
  for (int i = 0; i < 100; i++) (void)hk_own_stack_run(UseMuch, &is_done);
  // Half of the stacks: qemu maps memory of its own meanwhile.
  EXPECT_LT(MappedBytes(), before + 100 * 64 * 1024 / 2);
}

// Exceptions leave a frame by the call frame information that profiles use too.
void ThrowAndCatch(void *context) {
  try {
    throw 1;
  } catch (int value) {
    *static_cast<int *>(context) = value;
  }
}

TEST(OwnStack, ExceptionsWorkOnIt) {
  int caught = 0;
  ASSERT_TRUE(hk_own_stack_run(ThrowAndCatch, &caught));
  EXPECT_EQ(caught, 1);
}

#if !HK_SANITIZED

void Throw(void *context) { throw context; }

TEST(OwnStack, AnUnwinderFindsTheCallersFrames) {
  int mark = 0;
  try {
    (void)hk_own_stack_run(Throw, &mark);
    FAIL() << "the exception ended in the call";
  } catch (void *thrown) {
    EXPECT_EQ(thrown, &mark);
  }
}

// Chosen: the frames of a start and of a look at the limits, without the work.
constexpr size_t kMostOfCaller = 512;
constexpr unsigned char kPaint = 0xcd;

std::function<void()> next_call;
void RunNextCall() { next_call(); }

// Returns how much of a painted stack the call uses, in bytes.
size_t StackUsedBy(const std::function<void()> &call) {
  std::vector<unsigned char> stack(64 * 1024, kPaint);
  ucontext_t caller, callee;
  getcontext(&callee);
  callee.uc_stack.ss_sp = stack.data();
  callee.uc_stack.ss_size = stack.size();
  callee.uc_link = &caller;
  next_call = call;
  makecontext(&callee, RunNextCall, 0);
  swapcontext(&caller, &callee);
  return stack.end() - std::find_if(stack.begin(), stack.end(), [](unsigned char byte) { return byte != kPaint; });
}

std::atomic<bool> has_run{false};
void NoteRun() { has_run = true; }

TEST(OwnStack, AThreadsStartLeavesTheCallersStackAlone) {
  bool is_started = false;
  EXPECT_LE(StackUsedBy([&] { is_started = hk_os_thread_start("test", NoteRun); }), kMostOfCaller);
  ASSERT_TRUE(is_started);
  while (!has_run) hk_os_pause(1);
}

TEST(OwnStack, ALookAtTheMemoryLimitLeavesTheCallersStackAlone) {
  hk_os_memory_limit_t limit;
  EXPECT_LE(StackUsedBy([&] { (void)hk_os_memory_limit(&limit); }), kMostOfCaller);
}

#endif

}  // namespace
