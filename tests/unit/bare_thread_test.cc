// os_bare_thread.c and rights.c on the real system: a thread that the C library does not know.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

extern "C" {
#include "heap/thread.h"
}
#include "os/os.h"
#include "os/rights.h"
#include "scale.h"

namespace {

std::atomic<int> begun, ended;
std::atomic<bool> may_end, has_heap;
std::atomic<uint64_t> mask;
std::atomic<hk_rights_t> rights;
std::atomic<bool> looks_at_rights;

void RunBare() {
  uint64_t found = 0;
  (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &found, sizeof found);
  mask = found;
  hk_thread_go_without_heap();
  has_heap = hk_thread_heap != HK_EMPTY_HEAP || !hk_thread_is_leaving();
  begun++;
  while (!may_end) {
    if (looks_at_rights) rights = hk_rights_compare();
    sched_yield();
  }
  hk_os_bare_thread_give_up();
  ended++;
}

size_t Mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

size_t Tasks() {
  size_t count = 0;
  for (auto &entry : std::filesystem::directory_iterator("/proc/self/task")) count += !entry.path().empty();
  return count;
}

class BareThread : public ::testing::Test {
 protected:
  void SetUp() override {
    if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer must know every thread";
    alarm(60);
    begun = ended = 0;
    may_end = false;
    looks_at_rights = false;
  }
  void TearDown() override { alarm(0); }

  static void Start() {
    int before = begun;
    ASSERT_TRUE(hk_os_bare_thread_claim());
    ASSERT_TRUE(hk_os_bare_thread_start("bare", RunBare));
    while (begun == before) sched_yield();
  }
  static void End() {
    may_end = true;
    while (Tasks() > 1) sched_yield();
    may_end = false;
  }
};

TEST_F(BareThread, IsOneAndIsNotCounted) {
  EXPECT_EQ(hk_os_thread_count(), 1u);
  Start();
  EXPECT_EQ(Tasks(), 2u);
  EXPECT_EQ(hk_os_thread_count(), 1u);
  EXPECT_TRUE(hk_os_bare_thread_is_claimed());
  EXPECT_FALSE(hk_os_bare_thread_claim());
  End();
  EXPECT_FALSE(hk_os_bare_thread_is_claimed());
  EXPECT_EQ(ended, 1);
}

TEST_F(BareThread, HandlesNothingThatOthersSend) {
  uint64_t before = 0, after = 0;
  (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &before, sizeof before);
  Start();
  (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &after, sizeof after);
  EXPECT_EQ(before, after);
  auto blocks = [](int number) { return (mask.load() >> (number - 1) & 1) != 0; };
  for (int number : {SIGUSR2, SIGTERM, SIGALRM, 32, 33, 58, 64}) EXPECT_TRUE(blocks(number)) << number;
  for (int number : {SIGSEGV, SIGBUS, SIGSYS}) EXPECT_FALSE(blocks(number)) << number;
  End();
}

TEST_F(BareThread, HasNoHeapAndLeavesErrnoOfOthersAlone) {
  errno = 4711;
  Start();
  EXPECT_EQ(errno, 4711);
  EXPECT_FALSE(has_heap);
  End();
}

TEST_F(BareThread, LeavesNothingBehind) {
  Start();
  End();
  size_t before = Mappings();
  for (int i = 0; i < 100; i++) {
    Start();
    End();
  }
  EXPECT_EQ(Mappings(), before);
  EXPECT_EQ(ended, 101);
}

TEST_F(BareThread, KnowsWhenTheProgramHasGivenUpRights) {
  if (geteuid() != 0) GTEST_SKIP() << "only root has something to give up";
  EXPECT_EQ(hk_rights_compare(), hk_rights_same);
  looks_at_rights = true;
  rights = hk_rights_unknown;
  Start();
  while (rights == hk_rights_unknown) sched_yield();
  EXPECT_EQ(rights, hk_rights_same);
  ASSERT_EQ(setresgid(static_cast<gid_t>(-1), 65534, static_cast<gid_t>(-1)), 0);
  while (rights != hk_rights_differ) sched_yield();
  ASSERT_EQ(setresgid(static_cast<gid_t>(-1), 0, static_cast<gid_t>(-1)), 0);
  End();
}

}  // namespace
