// os/lock over the real system: children of every kind of fork, and the repair. Locks are set up once a process, so
// each case runs in a child.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "in_child.h"
#include "unit/lock_driver.h"

using namespace hk_test;

namespace {

using std::chrono::milliseconds;

TEST(LockFork, AChildFindsEveryLockFreeAndRepairsOnce) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              Holder space(hk_lock_space);
              Holder meta(hk_lock_meta);
              int result = InChild([] {
                HK_CHILD_CHECK(repairs == 0);
                AcquireAndRelease(hk_lock_meta);
                HK_CHILD_CHECK(repairs == 1);
                AcquireAllByRank();
                HK_CHILD_CHECK(repairs == 1);
                return 0;
              });
              HK_CHILD_CHECK(result == 0);
              HK_CHILD_CHECK(repairs == 0); /* the parent is as before */
              return 0;
            }),
            0);
}

TEST(LockFork, EveryGenerationRepairs) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              return InChild([] {
                AcquireAndRelease(hk_lock_space);
                HK_CHILD_CHECK(repairs == 1);
                int result = InChild([] {
                  AcquireAndRelease(hk_lock_space);
                  HK_CHILD_CHECK(repairs == 2);
                  return 0;
                });
                HK_CHILD_CHECK(repairs == 1);
                return result;
              });
            }),
            0);
}

TEST(LockFork, TheHookAndTheFirstLockRepairOnceTogether) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              hk_lock_after_fork(false);
              HK_CHILD_CHECK(repairs == 0);
              int hook_first = InChild([] {
                hk_lock_after_fork(true);
                HK_CHILD_CHECK(repairs == 1);
                hk_lock_after_fork(true);
                AcquireAllByRank();
                HK_CHILD_CHECK(repairs == 1);
                return 0;
              });
              HK_CHILD_CHECK(hook_first == 0);
              return InChild([] {
                AcquireAndRelease(hk_lock_meta);
                hk_lock_after_fork(true);
                hk_lock_after_fork(false);
                HK_CHILD_CHECK(repairs == 1);
                return 0;
              });
            }),
            0);
}

void RepairThatLocks() {
  AcquireAllByRank();
  repairs++;
}

TEST(LockFork, TheRepairHoldsNoLockAndMayTakeAny) {
  for (int id = 0; id < hk_lock_count; id++) {
    EXPECT_EQ(InChild([id] {
                HK_CHILD_CHECK(hk_lock_init(RepairThatLocks));
                return InChild([id] {
                  AcquireAndRelease(static_cast<hk_lock_id_t>(id));
                  HK_CHILD_CHECK(repairs == 1);
                  return 0;
                });
              }),
              0);
  }
}

TEST(LockFork, WithoutARepairChildrenStillGetTheirLocks) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(nullptr));
              Holder space(hk_lock_space);
              return InChild([] {
                AcquireAllByRank();
                return 0;
              });
            }),
            0);
}

std::atomic<bool> repair_is_over;

void SlowRepair() {
  std::this_thread::sleep_for(milliseconds(100));
  AcquireAllByRank();
  repairs++;
  repair_is_over = true;
}

TEST(LockFork, TheChildsThreadsWaitForItsRepair) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(SlowRepair));
              return InChild([] {
                std::atomic<int> too_early{0};
                std::vector<std::thread> threads;
                for (int i = 0; i < 4; i++) {
                  threads.emplace_back([&, i] {
                    hk_lock_acquire(static_cast<hk_lock_id_t>(i % hk_lock_count));
                    if (!repair_is_over) too_early++;
                    hk_lock_release(static_cast<hk_lock_id_t>(i % hk_lock_count));
                  });
                }
                for (std::thread &thread : threads) thread.join();
                HK_CHILD_CHECK(too_early == 0);
                HK_CHILD_CHECK(repairs == 1);
                return 0;
              });
            }),
            0);
}

// The repair makes data anew that no lock guards: a thread that needs them waits, and takes no lock.
TEST(LockFork, AWaitForTheRepairRunsItOnceAndHoldsNothing) {
  EXPECT_EQ(InChild([] {
              hk_lock_wait_for_repair(); /* before init */
              HK_CHILD_CHECK(hk_lock_init(RepairThatLocks));
              hk_lock_wait_for_repair();
              HK_CHILD_CHECK(repairs == 0);
              Holder pool(hk_lock_heap_pool);
              Holder meta(hk_lock_meta);
              int result = InChild([] {
                HK_CHILD_CHECK(repairs == 0);
                hk_lock_wait_for_repair();
                HK_CHILD_CHECK(repairs == 1);
                hk_lock_wait_for_repair();
                AcquireAllByRank();
                hk_lock_after_fork(true);
                HK_CHILD_CHECK(repairs == 1);
                return InChild([] {
                  hk_lock_wait_for_repair();
                  return repairs == 2 ? 0 : 1;
                });
              });
              HK_CHILD_CHECK(result == 0);
              hk_lock_wait_for_repair();
              HK_CHILD_CHECK(repairs == 0); /* the parent is as before */
              return 0;
            }),
            0);
}

void RepairThatWaits() {
  hk_lock_wait_for_repair();
  repairs++;
}

TEST(LockFork, TheRepairItselfDoesNotWaitForIt) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(RepairThatWaits));
              return InChild([] {
                hk_lock_wait_for_repair();
                HK_CHILD_CHECK(repairs == 1);
                return 0;
              });
            }),
            0);
}

// Some take locks and some only wait: no thread goes on before the repair is over, and all do then.
TEST(LockFork, AllWaitsForTheRepairSeeItsEnd) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(SlowRepair));
              return InChild([] {
                std::atomic<int> too_early{0};
                std::vector<std::thread> threads;
                for (int i = 0; i < 6; i++) {
                  threads.emplace_back([&, i] {
                    if (i % 3 == 0) {
                      AcquireAndRelease(hk_lock_space);
                    } else {
                      hk_lock_wait_for_repair();
                    }
                    if (!repair_is_over) too_early++;
                  });
                }
                for (std::thread &thread : threads) thread.join();
                HK_CHILD_CHECK(too_early == 0);
                HK_CHILD_CHECK(repairs == 1);
                return 0;
              });
            }),
            0);
}

TEST(LockFork, TheHolderOfALockWaitsForTheRepairToo) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(RepairThatLocks));
              hk_lock_acquire(hk_lock_space); /* a signal handler's fork interrupts it */
              int result = InChild([] {
                hk_lock_wait_for_repair();
                HK_CHILD_CHECK(repairs == 1);
                hk_lock_release(hk_lock_space);
                AcquireAllByRank();
                return 0;
              });
              hk_lock_release(hk_lock_space);
              return result;
            }),
            0);
}

// The repair takes that lock too, and others of a lower rank.
TEST(LockFork, TheHolderOfAShardsLockWaitsForTheRepairToo) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(RepairThatLocks));
              auto shard = static_cast<hk_lock_id_t>(hk_lock_shard + 3);
              hk_lock_acquire(shard);
              int result = InChild([shard] {
                hk_lock_wait_for_repair();
                HK_CHILD_CHECK(repairs == 1);
                hk_lock_release(shard);
                AcquireAllByRank();
                return 0;
              });
              hk_lock_release(shard);
              return result;
            }),
            0);
}

TEST(LockFork, ABareCloneIsAChildToo) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              Holder space(hk_lock_space);
              pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
              if (child == 0) {
                alarm(kChildSeconds);
                AcquireAndRelease(hk_lock_space);
                _exit(repairs == 1 ? 0 : 1);
              }
              return WaitForChild(child) == 0 ? 0 : 1;
            }),
            0);
}

int LockInSharedMemory(void *) {
  AcquireAllByRank();
  return 0;
}

TEST(LockFork, AChildThatSharesTheMemoryChangesNothing) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              hk_lock_acquire(hk_lock_heap_pool);
              hk_lock_release(hk_lock_heap_pool);
              alignas(16) static char stack[65536];
              pid_t child = clone(LockInSharedMemory, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
              HK_CHILD_CHECK(WaitForChild(child) == 0);
              HK_CHILD_CHECK(repairs == 0);
              AcquireAllByRank();
              HK_CHILD_CHECK(repairs == 0);
              return 0;
            }),
            0);
}

TEST(LockFork, TheHolderItselfForksAndBothGoOn) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(RepairThatLocks));
              /* As a signal handler's fork would interrupt a critical section. */
              hk_lock_acquire(hk_lock_heap_pool);
              int result = InChild([] {
                hk_lock_acquire(hk_lock_meta);
                HK_CHILD_CHECK(repairs == 1);
                hk_lock_release(hk_lock_meta);
                hk_lock_release(hk_lock_heap_pool);
                AcquireAllByRank();
                HK_CHILD_CHECK(repairs == 1);
                return 0;
              });
              HK_CHILD_CHECK(result == 0);
              hk_lock_release(hk_lock_heap_pool);
              AcquireAllByRank();
              return 0;
            }),
            0);
}

// In the child the holder alone has the guarded data, until it is done.
TEST(LockFork, TheHooksRepairWaitsForTheHolder) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(RepairThatLocks));
              hk_lock_acquire(hk_lock_space);
              int result = InChild([] {
                HK_CHILD_CHECK(!hk_lock_after_fork(true));
                HK_CHILD_CHECK(repairs == 0);
                hk_lock_release(hk_lock_space);
                HK_CHILD_CHECK(repairs == 1);
                AcquireAllByRank();
                HK_CHILD_CHECK(repairs == 1);
                return 0;
              });
              HK_CHILD_CHECK(result == 0);
              hk_lock_release(hk_lock_space);
              HK_CHILD_CHECK(repairs == 0);
              return 0;
            }),
            0);
}

TEST(LockFork, TheHooksRepairWaitsForStepsWithoutALock) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(RepairThatLocks));
              hk_lock_defer_repair();
              int result = InChild([] {
                HK_CHILD_CHECK(!hk_lock_after_fork(true));
                HK_CHILD_CHECK(repairs == 0);
                hk_lock_allow_repair();
                HK_CHILD_CHECK(repairs == 1);
                return 0;
              });
              HK_CHILD_CHECK(result == 0);
              hk_lock_allow_repair();
              return InChild([] {
                HK_CHILD_CHECK(hk_lock_after_fork(true));
                HK_CHILD_CHECK(repairs == 1);
                return 0;
              });
            }),
            0);
}

// The child of the second fork goes on with the repair of the first's.
bool is_second_child;

void RepairAmidWhichAHandlerForks() {
  repairs++;
  if (repairs > 1) return;
  AcquireAllByRank();
  hk_lock_defer_repair(); /* what it is made of */
  hk_lock_allow_repair();
  pid_t child = fork();
  if (child == 0) {
    is_second_child = true;
    if (hk_lock_after_fork(true)) _exit(1); /* it is deferred */
  } else if (WaitForChild(child) != 0) {
    _exit(1);
  }
}

TEST(LockFork, AForkAmidTheRepairHasItRunOnceMore) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(RepairAmidWhichAHandlerForks));
              return InChild([] {
                HK_CHILD_CHECK(hk_lock_after_fork(true));
                HK_CHILD_CHECK(repairs == (is_second_child ? 2 : 1));
                AcquireAllByRank();
                HK_CHILD_CHECK(repairs == (is_second_child ? 2 : 1));
                return 0;
              });
            }),
            0);
}

TEST(LockFork, ForksAmidAStorm) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(RepairThatLocks));
              std::atomic<bool> leave{false};
              std::vector<std::thread> threads;
              for (int i = 0; i < 3; i++) {
                threads.emplace_back([&] {
                  while (!leave) AcquireAllByRank();
                });
              }
              int failures = 0;
              for (int i = 0; i < 200; i++) {
                failures += InChild([] {
                              AcquireAllByRank();
                              return repairs == 1 ? 0 : 1;
                            }) != 0;
                AcquireAndRelease(hk_lock_space);
              }
              leave = true;
              for (std::thread &thread : threads) thread.join();
              HK_CHILD_CHECK(failures == 0);
              return 0;
            }),
            0);
}

}  // namespace
