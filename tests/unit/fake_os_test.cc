// tests/support/fake_os: the machine that other tests believe in.
#include "fake_os.h"

#include <gtest/gtest.h>

#include <csetjmp>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include "in_child.h"
#include "os/os.h"

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMib = size_t{1} << 20;

class FakeOs : public testing::Test {
 protected:
  void SetUp() override { fake_os_reset(); }
  void TearDown() override {
    fake_os_unmap_all();
    EXPECT_EQ(fake_os_mapped_bytes(), 0u);
  }
};

using FakeOsDeathTest = FakeOs;

char *Reserve(size_t bytes, size_t alignment = kPage) { return static_cast<char *>(hk_os_reserve(bytes, alignment)); }

TEST_F(FakeOs, MemoryIsRealZeroAndAligned) {
  for (size_t alignment : {kPage, 2 * kMib, 64 * kMib}) {
    char *start = Reserve(3 * kPage, alignment);
    ASSERT_NE(start, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % alignment, 0u);
    for (size_t i = 0; i < 3 * kPage; i++) ASSERT_EQ(start[i], 0);
    memset(start, 1, 3 * kPage);
  }
  EXPECT_EQ(fake_os_mapped_bytes(), 9 * kPage);
}

TEST_F(FakeOs, CountsWhatIsMapped) {
  char *start = Reserve(10 * kPage);
  EXPECT_TRUE(fake_os_is_mapped(start, 10 * kPage));
  EXPECT_FALSE(fake_os_is_mapped(start, 11 * kPage));
  EXPECT_TRUE(hk_os_unmap(start + 4 * kPage, 2 * kPage));
  EXPECT_EQ(fake_os_mapped_bytes(), 8 * kPage);
  EXPECT_EQ(fake_os_peak_mapped_bytes(), 10 * kPage);
  EXPECT_TRUE(fake_os_is_mapped(start, 4 * kPage));
  EXPECT_FALSE(fake_os_is_mapped(start + 3 * kPage, 2 * kPage));
  EXPECT_TRUE(fake_os_is_mapped(start + 6 * kPage, 4 * kPage));
  start[0] = start[9 * kPage] = 1;
}

TEST_F(FakeOs, UnmapMayCrossNeighbours) {
  char *start = Reserve(4 * kPage);
  EXPECT_TRUE(hk_os_unmap(start + kPage, kPage));
  EXPECT_TRUE(hk_os_unmap(start, kPage));
  EXPECT_TRUE(hk_os_resize(start + 2 * kPage, 2 * kPage, kPage));
  EXPECT_TRUE(hk_os_resize(start + 2 * kPage, kPage, 2 * kPage)); /* known as two ranges now */
  EXPECT_TRUE(hk_os_unmap(start + 2 * kPage, 2 * kPage));
  EXPECT_EQ(fake_os_mapped_bytes(), 0u);
}

TEST_F(FakeOs, TheNthCallFailsOnce) {
  fake_os_fail_nth(fake_os_reserve, 2);
  EXPECT_NE(hk_os_reserve(kPage, kPage), nullptr);
  EXPECT_EQ(hk_os_reserve(kPage, kPage), nullptr);
  EXPECT_NE(hk_os_reserve(kPage, kPage), nullptr);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 3u);
  EXPECT_EQ(fake_os_failures(fake_os_reserve), 1u);
  fake_os_fail_nth(fake_os_reserve, 1);
  fake_os_fail_nth(fake_os_reserve, 0);
  EXPECT_NE(hk_os_reserve(kPage, kPage), nullptr);
}

TEST_F(FakeOs, AllCallsFailUntilToldOtherwise) {
  fake_os_fail_all(fake_os_reserve, true);
  for (int i = 0; i < 3; i++) EXPECT_EQ(hk_os_reserve(kPage, kPage), nullptr);
  fake_os_fail_all(fake_os_reserve, false);
  EXPECT_NE(hk_os_reserve(kPage, kPage), nullptr);
}

TEST_F(FakeOs, FailuresHaveNoEffect) {
  char *start = Reserve(4 * kPage);
  char *target = Reserve(4 * kPage);
  memset(start, 1, 4 * kPage);
  for (int call = 0; call < fake_os_call_count; call++) fake_os_fail_all(static_cast<fake_os_call_t>(call), true);
  EXPECT_FALSE(hk_os_unmap(start, kPage));
  EXPECT_FALSE(hk_os_resize(start, 4 * kPage, kPage));
  EXPECT_FALSE(hk_os_move(start, 4 * kPage, target, 4 * kPage));
  EXPECT_FALSE(hk_os_wipe_on_fork(start, kPage));
  EXPECT_FALSE(hk_os_thread_exit_init([] {}));
  EXPECT_EQ(fake_os_mapped_bytes(), 8 * kPage);
  for (size_t i = 0; i < 4 * kPage; i++) ASSERT_EQ(start[i], 1);
  /* A purge that fails may have done anything to the contents. */
  EXPECT_FALSE(hk_os_purge(start, 4 * kPage));
  EXPECT_NE(start[0], 1);
  EXPECT_NE(start[0], 0);
  EXPECT_NE(start[4 * kPage - 1], 1);
}

TEST_F(FakeOs, ALimitIsKept) {
  char *start = Reserve(4 * kPage);
  fake_os_limit_mapped(6 * kPage);
  EXPECT_EQ(hk_os_reserve(3 * kPage, kPage), nullptr);
  EXPECT_FALSE(hk_os_resize(start, 4 * kPage, 7 * kPage));
  EXPECT_NE(hk_os_reserve(2 * kPage, kPage), nullptr);
  EXPECT_EQ(hk_os_reserve(kPage, kPage), nullptr);
  EXPECT_TRUE(hk_os_unmap(start, kPage));
  EXPECT_NE(hk_os_reserve(kPage, kPage), nullptr);
  fake_os_limit_mapped(0);
  EXPECT_NE(hk_os_reserve(kMib, kPage), nullptr);
}

TEST_F(FakeOs, PurgeResizeAndMoveDoWhatTheySay) {
  char *start = Reserve(4 * kPage);
  memset(start, 1, 4 * kPage);
  EXPECT_TRUE(hk_os_purge(start, kPage));
  EXPECT_EQ(start[0], 0);
  EXPECT_EQ(start[kPage], 1);
  EXPECT_TRUE(hk_os_resize(start, 4 * kPage, 2 * kPage));
  EXPECT_FALSE(fake_os_is_mapped(start, 3 * kPage));
  char *target = Reserve(3 * kPage, 2 * kMib);
  EXPECT_TRUE(hk_os_move(start, 2 * kPage, target, 3 * kPage));
  EXPECT_EQ(target[kPage], 1);
  EXPECT_EQ(target[2 * kPage], 0);
  EXPECT_FALSE(fake_os_is_mapped(start, kPage));
  EXPECT_EQ(fake_os_mapped_bytes(), 3 * kPage);
}

TEST_F(FakeOs, ALazyPurgeTakesEveryOtherPage) {
  char *start = Reserve(4 * kPage);
  memset(start, 1, 4 * kPage);
  EXPECT_EQ(hk_os_purge_lazily(start, 4 * kPage), hk_os_purge_lazy);
  for (int page = 0; page < 4; page++) EXPECT_EQ(start[page * kPage], page % 2) << page;
  EXPECT_EQ(fake_os_calls(fake_os_purge), 0u);
  fake_os_fail_nth(fake_os_purge_lazily, 1);
  EXPECT_EQ(hk_os_purge_lazily(start, 4 * kPage), hk_os_purge_refused);
  fake_os_know_lazy_purge(false);
  EXPECT_EQ(hk_os_purge_lazily(start, 4 * kPage), hk_os_purge_done);
  EXPECT_EQ(start[kPage], 0);
  fake_os_reset();
  EXPECT_EQ(hk_os_purge_lazily(start, 4 * kPage), hk_os_purge_lazy);
}

TEST_F(FakeOs, LogsEachCall) {
  fake_os_fail_nth(fake_os_purge, 1);
  char *start = Reserve(2 * kPage, 2 * kMib);
  EXPECT_FALSE(hk_os_purge(start, kPage));
  EXPECT_TRUE(hk_os_resize(start, 2 * kPage, kPage));
  ASSERT_EQ(fake_os_log_length(), 3u);
  const fake_os_record_t *reserve = fake_os_log(0);
  EXPECT_EQ(reserve->call, fake_os_reserve);
  EXPECT_TRUE(reserve->succeeded);
  EXPECT_EQ(reserve->start, reinterpret_cast<uintptr_t>(start));
  EXPECT_EQ(reserve->bytes, 2 * kPage);
  EXPECT_EQ(reserve->alignment, 2 * kMib);
  EXPECT_EQ(fake_os_log(1)->call, fake_os_purge);
  EXPECT_FALSE(fake_os_log(1)->succeeded);
  EXPECT_EQ(fake_os_log(2)->call, fake_os_resize);
  EXPECT_EQ(fake_os_log(2)->bytes, 2 * kPage);
  EXPECT_EQ(fake_os_log(2)->new_bytes, kPage);
}

TEST_F(FakeOs, ResetForgetsAllButTheMemory) {
  char *start = Reserve(kPage);
  fake_os_fail_all(fake_os_reserve, true);
  fake_os_set_page_size(65536);
  fake_os_advance(5);
  hk_os_write_stderr("x", 1);
  fake_os_reset();
  EXPECT_EQ(fake_os_log_length(), 0u);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 0u);
  EXPECT_EQ(hk_os_page_size(), 4096u);
  EXPECT_EQ(hk_os_now_ns(), fake_os_start_ns);
  EXPECT_STREQ(fake_os_stderr(), "");
  EXPECT_TRUE(fake_os_is_mapped(start, kPage));
  EXPECT_EQ(fake_os_peak_mapped_bytes(), kPage);
  EXPECT_NE(hk_os_reserve(kPage, kPage), nullptr);
}

TEST_F(FakeOs, TheClockMovesWhenTold) {
  EXPECT_EQ(hk_os_now_ns(), fake_os_start_ns);
  EXPECT_EQ(hk_os_now_ns(), fake_os_start_ns);
  fake_os_advance(7);
  EXPECT_EQ(hk_os_now_ns(), fake_os_start_ns + 7);
  fake_os_set_now(3);
  EXPECT_EQ(hk_os_now_ns(), 3u);
  fake_os_set_now(5999999);
  EXPECT_EQ(hk_os_coarse_ms(), 5u);
}

TEST_F(FakeOs, ALookAtTheClockTakesAsLongAsIsSaid) {
  fake_os_set_clock_step(2000000);
  EXPECT_EQ(hk_os_now_ns(), fake_os_start_ns);
  EXPECT_EQ(hk_os_coarse_ms(), fake_os_start_ns / 1000000 + 2);
  fake_os_set_clock_step(0);
  EXPECT_EQ(hk_os_now_ns(), fake_os_start_ns + 4000000);
  EXPECT_EQ(hk_os_now_ns(), fake_os_start_ns + 4000000);
  fake_os_set_clock_step(1);
  fake_os_reset();
  EXPECT_EQ(hk_os_now_ns(), hk_os_now_ns());
}

TEST_F(FakeOs, EachThreadIsOnTheNodeItWasMovedTo) {
  EXPECT_EQ(hk_os_node_count(), 1u);
  EXPECT_EQ(hk_os_current_place().node, 0u);
  fake_os_set_node_count(8);
  fake_os_move_to_node(7);
  std::thread([] { EXPECT_EQ(hk_os_current_place().node, 0u); }).join();
  EXPECT_EQ(hk_os_current_place().node, 7u);
  EXPECT_EQ(hk_os_node_count(), 8u);
  EXPECT_EQ(fake_os_node_questions(), 5u);
  fake_os_reset();
  EXPECT_EQ(hk_os_node_count(), 1u);
  EXPECT_EQ(hk_os_current_place().node, 0u);
}

TEST_F(FakeOs, FactsAreTheTests) {
  ASSERT_NE(hk_os_environment(), nullptr);
  EXPECT_EQ(*hk_os_environment(), nullptr);
  const char *const environment[] = {"A=b", nullptr};
  fake_os_set_environment(environment);
  EXPECT_EQ(hk_os_environment(), environment);
  fake_os_set_environment(nullptr);
  EXPECT_EQ(hk_os_environment(), nullptr);
  EXPECT_FALSE(hk_os_is_secure_exec());
  fake_os_set_secure_exec(true);
  EXPECT_TRUE(hk_os_is_secure_exec());
  fake_os_set_process_secret(9);
  EXPECT_EQ(hk_os_process_secret(), 9u);
  EXPECT_EQ(hk_os_memory().resident_bytes, 0u);
  fake_os_set_memory(5, 6);
  EXPECT_EQ(hk_os_memory().resident_bytes, 5u);
  EXPECT_EQ(hk_os_memory().peak_resident_bytes, 6u);
}

TEST_F(FakeOs, StderrIsCaptured) {
  hk_os_write_stderr("one\n", 4);
  hk_os_write_stderr("two and more", 3);
  EXPECT_STREQ(fake_os_stderr(), "one\ntwo");
  EXPECT_EQ(fake_os_stderr_writes(), 2u);
  std::string endless(200000, 'x');
  hk_os_write_stderr(endless.data(), endless.size());
  hk_os_write_stderr(endless.data(), endless.size());
  EXPECT_EQ(strlen(fake_os_stderr()), 65535u);
}

jmp_buf after_abort;

TEST_F(FakeOs, TheAbortHookMayLeave) {
  fake_os_set_abort_hook([] { longjmp(after_abort, 1); });
  if (setjmp(after_abort) == 0) {
    hk_os_abort();
  } else {
    SUCCEED();
  }
}

TEST_F(FakeOsDeathTest, AbortShowsTheTextAndEnds) {
  EXPECT_EXIT(
      {
        hk_os_write_stderr("last words\n", 11);
        hk_os_abort();
      },
      testing::KilledBySignal(SIGABRT), "last words");
}

TEST_F(FakeOsDeathTest, BrokenContractsEndTheTest) {
  char *start = Reserve(4 * kPage);
  EXPECT_DEATH(hk_os_unmap(start + 1, kPage), "unmap: not whole pages");
  EXPECT_DEATH(hk_os_unmap(start, kPage - 1), "unmap: not whole pages");
  EXPECT_DEATH(hk_os_unmap(start, 0), "unmap: not whole pages");
  EXPECT_DEATH(hk_os_unmap(start, 5 * kPage), "unmap: not all of it is mapped");
  EXPECT_DEATH(hk_os_purge(start + 4 * kPage, kPage), "purge: not all of it is mapped");
  EXPECT_DEATH(hk_os_reserve(100, kPage), "reserve: not whole pages");
  EXPECT_DEATH(hk_os_reserve(kPage, 100), "reserve: an alignment that is no power of two");
  EXPECT_DEATH(hk_os_resize(start, 4 * kPage, 100), "resize: not whole pages");
  EXPECT_DEATH(hk_os_move(start, 2 * kPage, start + kPage, 2 * kPage), "move: onto itself");
  EXPECT_DEATH(hk_os_move(start, kPage, start + 4 * kPage, kPage), "move: not all of it is mapped");
  EXPECT_TRUE(hk_os_unmap(start, kPage));
  EXPECT_DEATH(hk_os_unmap(start, kPage), "unmap: not all of it is mapped");
}

TEST_F(FakeOsDeathTest, LargerPagesAreHeldTo) {
  fake_os_set_page_size(65536);
  EXPECT_EQ(hk_os_page_size(), 65536u);
  EXPECT_DEATH(hk_os_reserve(4096, 65536), "not whole pages");
  EXPECT_DEATH(hk_os_reserve(65536, 4096), "an alignment");
  char *start = Reserve(2 * 65536, 65536);
  EXPECT_DEATH(hk_os_purge(start, 4096), "not whole pages");
  EXPECT_TRUE(hk_os_purge(start, 65536));
}

int exits;

TEST_F(FakeOs, ThreadExitHooksRunAsInTheRealOne) {
  EXPECT_EQ(hk_test::InChild([] {
              hk_os_thread_exit_arm();
              HK_CHILD_CHECK(hk_os_thread_exit_init([] {
                if (++exits == 1) hk_os_thread_exit_arm();
              }));
              std::thread([] {}).join();
              HK_CHILD_CHECK(exits == 0);
              std::thread(hk_os_thread_exit_arm).join();
              HK_CHILD_CHECK(exits == 2);
              return 0;
            }),
            0);
}

int forks;

TEST_F(FakeOs, ForkHooksRunInTheChild) {
  EXPECT_EQ(hk_test::InChild([] {
              hk_os_at_fork([] { forks++; });
              return hk_test::InChild([] { return forks == 1 ? 0 : 1; });
            }),
            0);
}

TEST_F(FakeOs, WipeOnForkIsReal) {
  char *start = Reserve(kPage);
  if (!hk_os_wipe_on_fork(start, kPage)) GTEST_SKIP() << "this kernel cannot wipe on fork";
  start[0] = 1;
  EXPECT_EQ(hk_test::InChild([=] { return start[0]; }), 0);
  EXPECT_EQ(start[0], 1);
}

TEST_F(FakeOs, WaitAndWakeAreReal) {
  static uint32_t word = 1;
  hk_os_wait(&word, 0); /* differs: returns at once */
  std::thread sleeper([] {
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 1) hk_os_wait(&word, 1);
  });
  __atomic_store_n(&word, 2, __ATOMIC_RELEASE);
  hk_os_wake_one(&word);
  sleeper.join();
}

void Nothing() {}
void Something() {}

TEST_F(FakeOs, TheTestRunsTheThreadThatWasStarted) {
  EXPECT_EQ(fake_os_thread(), nullptr);
  EXPECT_TRUE(hk_os_thread_start("one", Nothing));
  EXPECT_EQ(fake_os_thread(), &Nothing);
  fake_os_fail_nth(fake_os_thread_start, 1);
  EXPECT_FALSE(hk_os_thread_start("two", Something));
  EXPECT_EQ(fake_os_thread(), &Nothing) << "what failed runs nothing";
  EXPECT_TRUE(hk_os_thread_start("three", Something));
  EXPECT_EQ(fake_os_thread(), &Something);
  EXPECT_EQ(fake_os_calls(fake_os_thread_start), 3u);
  EXPECT_EQ(fake_os_failures(fake_os_thread_start), 1u);
  fake_os_reset();
  EXPECT_EQ(fake_os_thread(), nullptr);
}

unsigned starts;

TEST_F(FakeOs, AHookRunsBeforeAThreadIsStarted) {
  starts = 0;
  fake_os_set_hook(fake_os_thread_start, [] {
    starts++;
    EXPECT_EQ(fake_os_thread(), nullptr);
  });
  EXPECT_TRUE(hk_os_thread_start("one", Nothing));
  EXPECT_EQ(starts, 1u);
}

unsigned waits;

TEST_F(FakeOs, AWaitWithATimeLimitIsOverAtOnce) {
  static const uint32_t word = 5;
  waits = 0;
  hk_os_wait_for(&word, 5, 1234);
  EXPECT_EQ(fake_os_waited_ms(), 1234u);
  EXPECT_EQ(waits, 0u);
  fake_os_set_wait_hook([] { waits++; });
  hk_os_wait_for(&word, 4, 1234);
  EXPECT_EQ(fake_os_waited_ms(), 0u) << "the word is another already";
  EXPECT_EQ(waits, 1u);
  fake_os_reset();
  hk_os_wait_for(&word, 5, UINT64_MAX);
  EXPECT_EQ(fake_os_waited_ms(), UINT64_MAX);
  EXPECT_EQ(waits, 1u);
}

TEST_F(FakeOs, WakingIsCounted) {
  static const uint32_t word = 0;
  EXPECT_EQ(fake_os_wakes(), 0u);
  hk_os_wake_one(&word);
  hk_os_wake_one(&word);
  EXPECT_EQ(fake_os_wakes(), 2u);
  fake_os_reset();
  EXPECT_EQ(fake_os_wakes(), 0u);
}

}  // namespace
