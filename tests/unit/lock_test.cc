// os/lock over the real system: exclusion, sleepers, and ranks. Locks are set up once a process, so each case runs in a
// child.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "base/compiler.h"
#include "in_child.h"
#include "unit/lock_driver.h"

using namespace hk_test;

namespace {

using std::chrono::milliseconds;

TEST(Lock, WorksBeforeInit) {
  EXPECT_EQ(InChild([] {
              AcquireAllByRank();
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              AcquireAllByRank();
              HK_CHILD_CHECK(repairs == 0);
              return 0;
            }),
            0);
}

TEST(Lock, ExcludesAndLosesNothing) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              uint64_t guarded[2] = {0, 0}; /* plain: a race would also be ThreadSanitizer's to find */
              std::vector<std::thread> threads;
              for (int i = 0; i < 4; i++) {
                threads.emplace_back([&] {
                  for (int n = 0; n < 20000; n++) {
                    hk_lock_id_t id = n % 2 ? hk_lock_space : hk_lock_heap_pool;
                    hk_lock_acquire(id);
                    guarded[n % 2]++;
                    hk_lock_release(id);
                  }
                });
              }
              for (std::thread &thread : threads) thread.join();
              HK_CHILD_CHECK(guarded[0] == 40000 && guarded[1] == 40000);
              return 0;
            }),
            0);
}

TEST(Lock, SleepersAreWokenAndCounted) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              HK_CHILD_CHECK(hk_lock_sleep_count(hk_lock_space) == 0);
              std::atomic<int> got{0};
              std::vector<std::thread> threads;
              hk_lock_acquire(hk_lock_space);
              for (int i = 0; i < 3; i++) {
                threads.emplace_back([&] {
                  hk_lock_acquire(hk_lock_space);
                  got++;
                  hk_lock_release(hk_lock_space);
                });
              }
              while (hk_lock_sleep_count(hk_lock_space) < 3) std::this_thread::sleep_for(milliseconds(1));
              std::this_thread::sleep_for(milliseconds(20));
              HK_CHILD_CHECK(got == 0);
              HK_CHILD_CHECK(hk_lock_sleep_count(hk_lock_space) < 100); /* asleep, not turning */
              hk_lock_release(hk_lock_space);
              for (std::thread &thread : threads) thread.join();
              HK_CHILD_CHECK(got == 3);
              HK_CHILD_CHECK(hk_lock_sleep_count(hk_lock_meta) == 0);
              return 0;
            }),
            0);
}

TEST(Lock, TakesAreCountedByLock) {
  EXPECT_EQ(hk_test::InChild([] {
              AcquireAndRelease(hk_lock_meta); /* before init */
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              for (int i = 0; i < 5; i++) AcquireAndRelease(hk_lock_space);
              AcquireAllByRank();
              HK_CHILD_CHECK(hk_lock_take_count(hk_lock_heap_pool) == 1);
              HK_CHILD_CHECK(hk_lock_take_count(hk_lock_space) == 6);
              HK_CHILD_CHECK(hk_lock_take_count(hk_lock_meta) == 2);
              for (int id = 0; id < hk_lock_count; id++) {
                HK_CHILD_CHECK(hk_lock_wait_count(static_cast<hk_lock_id_t>(id)) == 0);
              }
              return hk_test::InChild([] {
                HK_CHILD_CHECK(hk_lock_take_count(hk_lock_space) == 0); /* its own */
                hk_lock_wait_for_repair();
                AcquireAndRelease(hk_lock_space);
                HK_CHILD_CHECK(hk_lock_take_count(hk_lock_space) == 1);
                return 0;
              });
            }),
            0);
}

TEST(Lock, WaitsAreCountedOnceEach) {
  EXPECT_EQ(hk_test::InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              std::vector<std::thread> threads;
              hk_lock_acquire(hk_lock_space);
              for (int i = 0; i < 3; i++) threads.emplace_back([] { AcquireAndRelease(hk_lock_space); });
              while (hk_lock_sleep_count(hk_lock_space) < 3) std::this_thread::sleep_for(milliseconds(1));
              HK_CHILD_CHECK(hk_lock_take_count(hk_lock_space) == 1);
              HK_CHILD_CHECK(hk_lock_wait_count(hk_lock_space) == 0); /* counted when it is over */
              hk_lock_release(hk_lock_space);
              for (std::thread &thread : threads) thread.join();
              HK_CHILD_CHECK(hk_lock_take_count(hk_lock_space) == 4);
              HK_CHILD_CHECK(hk_lock_wait_count(hk_lock_space) == 3);
              HK_CHILD_CHECK(hk_lock_wait_count(hk_lock_meta) == 0);
              return 0;
            }),
            0);
}

TEST(Lock, NoTakeIsMissed) {
  EXPECT_EQ(hk_test::InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              std::vector<std::thread> threads;
              for (int i = 0; i < 4; i++) {
                threads.emplace_back([] {
                  for (int n = 0; n < 20000; n++) AcquireAndRelease(hk_lock_space);
                });
              }
              for (std::thread &thread : threads) thread.join();
              HK_CHILD_CHECK(hk_lock_take_count(hk_lock_space) == 80000);
              HK_CHILD_CHECK(hk_lock_wait_count(hk_lock_space) < 80000);
              return 0;
            }),
            0);
}

TEST(Lock, LeavesErrnoAlone) {
  EXPECT_EQ(InChild([] {
              errno = 1234;
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              HK_CHILD_CHECK(errno == 1234);
              /* Holds the lock until the first thread sleeps, however late that runs. */
              std::thread other([] {
                hk_lock_acquire(hk_lock_meta);
                while (hk_lock_sleep_count(hk_lock_meta) == 0) std::this_thread::sleep_for(milliseconds(1));
                hk_lock_release(hk_lock_meta);
              });
              while (hk_lock_sleep_count(hk_lock_meta) == 0) {
                errno = 1234;
                AcquireAndRelease(hk_lock_meta);
                HK_CHILD_CHECK(errno == 1234);
              }
              other.join();
              return 0;
            }),
            0);
}

#if HK_DEBUG
TEST(LockRankDeathTest, ReleaseOfWhatIsNotHeld) {
  EXPECT_EXIT(hk_lock_release(hk_lock_space), testing::KilledBySignal(SIGABRT),
              "a lock is released by a thread that does not hold it");
}

hk_lock_id_t OfShard(unsigned shard) { return static_cast<hk_lock_id_t>(hk_lock_shard + shard); }

void ExpectOutOfOrder(hk_lock_id_t first, hk_lock_id_t second) {
  EXPECT_EXIT((hk_lock_acquire(first), hk_lock_acquire(second)), testing::KilledBySignal(SIGABRT),
              "a lock is taken while one of the same or a higher rank is held");
}

TEST(LockRankDeathTest, TheSameLockTwice) { ExpectOutOfOrder(hk_lock_space, hk_lock_space); }
TEST(LockRankDeathTest, ALowerRankAfterAHigherOne) { ExpectOutOfOrder(hk_lock_meta, hk_lock_heap_pool); }
TEST(LockRankDeathTest, ALowerShardAfterAHigherOne) { ExpectOutOfOrder(OfShard(7), OfShard(6)); }
TEST(LockRankDeathTest, TheSameShardTwice) { ExpectOutOfOrder(OfShard(7), OfShard(7)); }
TEST(LockRankDeathTest, AShardAfterTheSpace) { ExpectOutOfOrder(hk_lock_space, OfShard(4)); }

TEST(LockRankDeathTest, ReleaseOfAShardThatIsNotHeld) {
  EXPECT_EXIT(
      {
        hk_lock_acquire(OfShard(3));
        hk_lock_release(OfShard(2));
      },
      testing::KilledBySignal(SIGABRT), "a lock is released by a thread that does not hold it");
}

TEST(LockRank, ShardsInTheirOrderAndReleasesInAny) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              for (unsigned i = 0; i < HK_LOCK_SHARDS; i++) hk_lock_acquire(OfShard(i));
              hk_lock_acquire(hk_lock_space);
              for (unsigned i = 0; i < HK_LOCK_SHARDS; i += 2) hk_lock_release(OfShard(i));
              hk_lock_release(hk_lock_space);
              for (unsigned i = 1; i < HK_LOCK_SHARDS; i += 2) hk_lock_release(OfShard(i));
              hk_lock_acquire(hk_lock_heap_pool); /* nothing is held */
              hk_lock_release(hk_lock_heap_pool);
              return 0;
            }),
            0);
}

TEST(LockRank, RisingRanksAndReleasesInAnyOrder) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_lock_init(CountRepair));
              hk_lock_acquire(hk_lock_heap_pool);
              hk_lock_acquire(hk_lock_space);
              hk_lock_acquire(hk_lock_meta);
              hk_lock_release(hk_lock_heap_pool);
              hk_lock_release(hk_lock_meta);
              hk_lock_release(hk_lock_space);
              AcquireAllByRank();
              return 0;
            }),
            0);
}
#endif

}  // namespace
