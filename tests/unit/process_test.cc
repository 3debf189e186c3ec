// os/process: processes that share a number, as the first of a pid namespace and the first of one nested in it do, are
// told apart; and so they are wherever something is one process's alone.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "folder.h"
#include "fresh_test.h"
#include "os/lock.h"
#include "os/process.h"

extern "C" {
#include "report/output_file.h"
#include "space/purge_wakeup.h"
}

using namespace hk_test;

namespace {

// From here on all processes have the number 1.
void Begin() {
  fake_os_reset();
  fake_os_set_process_id(1);
  ASSERT_TRUE(hk_lock_init(nullptr));
}

HK_FRESH_TEST(Process, HasOneMark) {
  Begin();
  uint64_t mark = hk_process_mark();
  EXPECT_NE(mark, 0u);
  std::thread([mark] { EXPECT_EQ(hk_process_mark(), mark); }).join();
  EXPECT_EQ(hk_process_mark(), mark);
}

HK_FRESH_TEST(Process, KeepsTheMarkThatItHadBeforeTheLocks) {
  uint64_t mark = hk_process_mark();
  ASSERT_TRUE(hk_lock_init(nullptr));
  EXPECT_EQ(hk_process_mark(), mark);
}

HK_FRESH_TEST(Process, EachGenerationHasAnother) {
  Begin();
  static uint64_t first, second;
  first = hk_process_mark();
  EXPECT_EQ(InChild([] {
              second = hk_process_mark();
              HK_CHILD_CHECK(second != first && second == hk_process_mark());
              return InChild([] {
                HK_CHILD_CHECK(hk_process_mark() != first && hk_process_mark() != second);
                return 0;
              });
            }),
            0);
  EXPECT_EQ(hk_process_mark(), first);
}

// A child of vfork has its parent's generation and another number.
HK_FRESH_TEST(Process, AChildOfVforkBorrowsTheMemory) {
  Begin();
  EXPECT_FALSE(hk_process_borrows_memory()) << "nothing is noted";
  hk_process_note();
  EXPECT_FALSE(hk_process_borrows_memory());
  EXPECT_EQ(InChild([] {
              fake_os_set_process_id(2);
              HK_CHILD_CHECK(!hk_process_borrows_memory()); /* before its note, as after a bare clone */
              hk_process_note();
              HK_CHILD_CHECK(!hk_process_borrows_memory());
              return 0;
            }),
            0);
  fake_os_set_process_id(2);
  EXPECT_TRUE(hk_process_borrows_memory());
  fake_os_set_process_id(1);
  EXPECT_FALSE(hk_process_borrows_memory());
}

HK_FRESH_TEST(Process, AChildWithoutAtForkHandlersHasAnother) {
  Begin();
  uint64_t mark = hk_process_mark();
  pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) _exit(hk_process_mark() == mark);
  EXPECT_EQ(WaitForChild(child), 0);
}

HK_FRESH_TEST(Process, WhereTheKernelCannotWipeTheHandlerTells) {
  fake_os_reset();
  fake_os_set_process_id(1);
  fake_os_fail_all(fake_os_wipe_on_fork, true);
  ASSERT_TRUE(hk_lock_init(nullptr));
  static uint64_t mark;
  mark = hk_process_mark();
  EXPECT_EQ(InChild([] {
              (void)hk_lock_after_fork(true);
              HK_CHILD_CHECK(hk_process_mark() != mark);
              return 0;
            }),
            0);
}

HK_FRESH_TEST(Process, ThreadsOfAChildThatAskTogetherAgree) {
  Begin();
  static uint64_t mark;
  mark = hk_process_mark();
  for (int round = 0; round < 50; round++) {
    ASSERT_EQ(InChild([] {
                std::atomic<int> ready{0};
                std::vector<uint64_t> found(4);
                std::vector<std::thread> threads;
                for (size_t i = 0; i < found.size(); i++) {
                  threads.emplace_back([&, i] {
                    ready++;
                    while (ready < 4) sched_yield();
                    found[i] = hk_process_mark();
                  });
                }
                for (std::thread &one : threads) one.join();
                for (uint64_t one : found) HK_CHILD_CHECK(one == found[0] && one != mark);
                return 0;
              }),
              0);
  }
}

uint64_t mark_in_shared_memory;

int LeaveMark(void *) {
  fake_os_set_process_id(2);
  mark_in_shared_memory = hk_process_mark();
  return 0;
}

HK_FRESH_TEST(Process, AChildOfVforkIsToldByItsNumber) {
  Begin();
  alignas(64) static char stack[256 * 1024];
  pid_t child = clone(LeaveMark, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
  ASSERT_EQ(WaitForChild(child), 0);
  fake_os_set_process_id(1);
  EXPECT_NE(mark_in_shared_memory, hk_process_mark());
}

HK_FRESH_TEST(Process, APurgeThreadIsAllowedToTheProcessAndNoOtherOfItsNumber) {
  Begin();
  hk_purge_wakeup_allow();
  EXPECT_TRUE(hk_purge_wakeup_is_allowed());
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(!hk_purge_wakeup_is_allowed());
              hk_purge_wakeup_allow();
              HK_CHILD_CHECK(hk_purge_wakeup_is_allowed());
              return 0;
            }),
            0);
}

HK_FRESH_TEST(Process, AFileIsTheProcesssAndNoOthersOfItsNumber) {
  Begin();
  Folder folder;
  static std::string name;
  static const char *value;
  static hk_output_file_t file;
  name = folder / "file";
  value = name.c_str();
  file = {"HAKMEM_TEST_FILE", &value, 0, false};
  hk_output_file_check(&file, nullptr);
  EXPECT_TRUE(hk_output_file_is_own(&file));
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(!hk_output_file_is_own(&file));
              return 0;
            }),
            0);
}

}  // namespace
