// os/lock where the system cannot wipe pages on fork, or has no page left: the at-fork hook does what the kernel does
// not.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "fake_os.h"
#include "in_child.h"
#include "os/lock.h"

namespace {

int repairs;

void CountRepair() {
  repairs++;
  hk_lock_acquire(hk_lock_space);
  hk_lock_release(hk_lock_space);
}

// In a grandchild whose parent's other thread holds a lock, which no thread there will release: the hook frees it and
// repairs.
int HookFreesAndRepairs() {
  std::atomic<bool> holds{false};
  std::atomic<bool> leave{false};
  std::thread holder([&] {
    hk_lock_acquire(hk_lock_meta);
    holds = true;
    while (!leave) std::this_thread::yield();
    hk_lock_release(hk_lock_meta);
  });
  while (!holds) std::this_thread::yield();
  int result = hk_test::InChild([] {
    hk_lock_after_fork(false); /* no call said that this is a child */
    hk_lock_wait_for_repair(); /* so there is nothing to wait for */
    HK_CHILD_CHECK(repairs == 0);
    HK_CHILD_CHECK(hk_lock_take_count(hk_lock_meta) > 0); /* its parent's */
    hk_lock_after_fork(true);
    HK_CHILD_CHECK(repairs == 1);
    HK_CHILD_CHECK(hk_lock_take_count(hk_lock_meta) == 0);
    hk_lock_wait_for_repair();
    for (int id = 0; id < hk_lock_count; id++) {
      hk_lock_acquire(static_cast<hk_lock_id_t>(id));
      hk_lock_release(static_cast<hk_lock_id_t>(id));
    }
    HK_CHILD_CHECK(repairs == 1);
    return 0;
  });
  leave = true;
  holder.join();
  HK_CHILD_CHECK(result == 0);
  HK_CHILD_CHECK(repairs == 0);
  return 0;
}

TEST(LockFallback, KernelWithoutWipeOnFork) {
  EXPECT_EQ(hk_test::InChild([] {
              fake_os_fail_all(fake_os_wipe_on_fork, true);
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              HK_CHILD_CHECK(fake_os_calls(fake_os_wipe_on_fork) == 1);
              HK_CHILD_CHECK(fake_os_mapped_bytes() == 0);
              return HookFreesAndRepairs();
            }),
            0);
}

TEST(LockFallback, NoPageForTheLocks) {
  EXPECT_EQ(hk_test::InChild([] {
              fake_os_fail_nth(fake_os_reserve, 1);
              HK_CHILD_CHECK(!hk_lock_init(CountRepair));
              return HookFreesAndRepairs();
            }),
            0);
}

TEST(LockFallback, ThePageStaysWhenItCannotBeGivenBackEither) {
  EXPECT_EQ(hk_test::InChild([] {
              fake_os_fail_all(fake_os_wipe_on_fork, true);
              fake_os_fail_all(fake_os_unmap, true);
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              return HookFreesAndRepairs();
            }),
            0);
}

TEST(LockFallback, OnePageWhateverItsSize) {
  for (size_t page_size : {size_t{4096}, size_t{16384}, size_t{65536}}) {
    EXPECT_EQ(hk_test::InChild([=] {
                fake_os_set_page_size(page_size);
                HK_CHILD_CHECK(hk_lock_init(CountRepair));
                HK_CHILD_CHECK(fake_os_mapped_bytes() == page_size);
                hk_lock_acquire(hk_lock_meta);
                hk_lock_release(hk_lock_meta);
                return 0;
              }),
              0);
  }
}

TEST(LockFallback, WithoutInitLocksWorkAndAForkIsNoEvent) {
  EXPECT_EQ(hk_test::InChild([] {
              hk_lock_acquire(hk_lock_space);
              hk_lock_release(hk_lock_space);
              hk_lock_after_fork(false);
              hk_lock_wait_for_repair();
              hk_lock_acquire(hk_lock_space);
              hk_lock_release(hk_lock_space);
              HK_CHILD_CHECK(fake_os_calls(fake_os_reserve) == 0);
              return 0;
            }),
            0);
}

}  // namespace
