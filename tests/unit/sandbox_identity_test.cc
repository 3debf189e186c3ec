// os: numbers of threads and processes, and signals, where a filter may kill for a query. On the real system.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

extern "C" {
#include "os/os.h"
#include "os/sandbox.h"
#include "os/thread_call.h"
}

namespace {

class SandboxIdentity : public testing::Test {
 protected:
  ~SandboxIdentity() override { hk_store_relaxed(&hk_sandbox_level, hk_sandbox_none); }
  static void Enter(hk_sandbox_t level) { hk_store_relaxed(&hk_sandbox_level, level); }
};

TEST_F(SandboxIdentity, TheProcessAndTheThreadAreKnownWithoutACall) {
  const uint64_t process = hk_os_process_id(), thread = hk_thread_call_own();
  Enter(hk_sandbox_inherited);
  EXPECT_EQ(hk_os_process_id(), process);
  EXPECT_EQ(hk_thread_call_own(), thread);
  EXPECT_TRUE(hk_thread_call_is_there(thread));
  EXPECT_FALSE(hk_thread_call_is_there(1u << 30));
  uint64_t of_other = 0;
  std::thread([&of_other] { of_other = hk_thread_call_own(); }).join();
  EXPECT_NE(of_other, thread);
  EXPECT_GT(of_other, 0u);
}

TEST_F(SandboxIdentity, AChildOfForkGetsItsOwnNumber) {
  (void)hk_os_process_id();
  Enter(hk_sandbox_inherited);
  const pid_t child = fork();
  if (child == 0) {
    hk_os_process_id_after_fork();
    _exit(hk_os_process_id() == static_cast<uint64_t>(syscall(SYS_getpid)) ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(SandboxIdentity, ASignalIsNotTakenWhereAFilterMayKill) {
  for (hk_sandbox_t level : {hk_sandbox_inherited, hk_sandbox_filtered}) {
    Enter(level);
    EXPECT_EQ(hk_os_signal_take(58, true, [] {}), hk_os_signal_unsafe);
  }
}

}  // namespace
