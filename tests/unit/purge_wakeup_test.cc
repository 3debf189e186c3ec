// space/purge_wakeup: when a purge thread is due, which thread may start it, and how it is woken; in one
// process and in its children.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>

#include "fake_os.h"
#include "fresh_test.h"
#include "os/lock.h"
#include "scale.h"
#include "unit/rendezvous.h"

extern "C" {
#include "space/purge_wakeup.h"
}

using namespace hk_test;

namespace {

constexpr size_t kWorth = HK_PURGE_WAKEUP_WORTH_BYTES;

template <typename Body>
auto Locked(Body body) {
  hk_lock_acquire(hk_lock_space);
  auto result = body();
  hk_lock_release(hk_lock_space);
  return result;
}

bool IsHeard() { return Locked(hk_purge_wakeup_has_thread_locked); }
bool Ring() { return Locked(hk_purge_wakeup_send_locked); }
// Whether the caller is to start one.
bool Claim() { return hk_purge_wakeup_is_allowed() && hk_purge_wakeup_claim(); }
void Expect() {
  Locked([] {
    hk_purge_wakeup_expect_locked();
    return 0;
  });
}
uint32_t Word() { return hk_load_relaxed(&hk_purge_wakeup_word); }

// Whether a purge thread is due when `held_bytes` are held. It is not due any more afterwards.
bool IsThreadDueAt(uint64_t now_ms, size_t held_bytes) {
  return Locked([=] {
    hk_purge_wakeup_note_locked(now_ms, held_bytes);
    bool is_due = hk_load_relaxed(&hk_purge_wakeup_is_thread_due);
    hk_store_relaxed(&hk_purge_wakeup_is_thread_due, false);
    return is_due;
  });
}

HK_FRESH_TEST(PurgeWakeup, AThreadIsDueFromSixteenMebibytesOn) {
  EXPECT_EQ(kWorth, 16 * HK_MIB);
  EXPECT_FALSE(IsThreadDueAt(0, 0));
  EXPECT_FALSE(IsThreadDueAt(UINT64_MAX, kWorth - 1));
  EXPECT_TRUE(IsThreadDueAt(0, kWorth));
  EXPECT_TRUE(IsThreadDueAt(UINT64_MAX, SIZE_MAX));
}

HK_FRESH_TEST(PurgeWakeup, IsWantedAgainASecondAfterItWasDeclined) {
  EXPECT_TRUE(IsThreadDueAt(5000, kWorth));
  hk_purge_wakeup_decline(5000);
  EXPECT_FALSE(IsThreadDueAt(4000, kWorth)) << "time that steps back";
  EXPECT_FALSE(IsThreadDueAt(5999, SIZE_MAX));
  EXPECT_TRUE(IsThreadDueAt(6000, kWorth));
}

HK_FRESH_TEST(PurgeWakeup, DecliningTakesBackWhatWasWanted) {
  hk_purge_wakeup_note_locked(5000, kWorth);
  EXPECT_TRUE(hk_load_relaxed(&hk_purge_wakeup_is_thread_due));
  hk_purge_wakeup_decline(5000);
  EXPECT_FALSE(hk_load_relaxed(&hk_purge_wakeup_is_thread_due));
}

HK_FRESH_TEST(PurgeWakeup, NoneIsWantedWhereThereIsOne) {
  hk_purge_wakeup_set_thread(true);
  EXPECT_TRUE(IsHeard());
  EXPECT_FALSE(IsThreadDueAt(5000, SIZE_MAX));
  hk_purge_wakeup_set_thread(false);
  EXPECT_FALSE(IsHeard());
  EXPECT_TRUE(IsThreadDueAt(5000, kWorth));
}

HK_FRESH_TEST(PurgeWakeup, IsSentOnceASpell) {
  hk_purge_wakeup_set_thread(true);
  uint32_t word = Word();
  EXPECT_FALSE(Ring()) << "it does not sleep yet";
  EXPECT_EQ(Word(), word);
  for (uint32_t spell = 1; spell <= 3; spell++) {
    Expect();
    EXPECT_EQ(Word(), word + spell - 1);
    EXPECT_TRUE(Ring());
    EXPECT_FALSE(Ring());
    EXPECT_EQ(Word(), word + spell);
  }
}

HK_FRESH_TEST(PurgeWakeup, TheWordBeginsAnewAfterItsLast) {
  hk_purge_wakeup_set_thread(true);
  hk_store_relaxed(&hk_purge_wakeup_word, UINT32_MAX);
  Expect();
  EXPECT_TRUE(Ring());
  EXPECT_EQ(Word(), 0u);
}

HK_FRESH_TEST(PurgeWakeup, IsNotSentWhereNoThreadReceivesIt) {
  uint32_t word = Word();
  Expect();
  EXPECT_FALSE(Ring());
  hk_purge_wakeup_set_thread(true);
  EXPECT_FALSE(Ring()) << "the wake-up was expected before it came";
  Expect();
  hk_purge_wakeup_set_thread(false);
  EXPECT_FALSE(Ring()) << "it is gone";
  EXPECT_EQ(Word(), word);
}

HK_FRESH_TEST(PurgeWakeup, WakesAThreadThatSleeps) {
  uint64_t wakes = fake_os_wakes();
  hk_purge_wakeup_wake();
  EXPECT_EQ(fake_os_wakes(), wakes + 1);
}

HK_FRESH_TEST(PurgeWakeup, IsSentForBlocksOnceEachTimeThatTheyAreWanted) {
  hk_purge_wakeup_set_thread(true);
  uint64_t wakes = fake_os_wakes();
  uint32_t word = Word();
  hk_purge_wakeup_send_at_free();
  EXPECT_EQ(Word(), word) << "no thread waits for it";
  EXPECT_EQ(fake_os_wakes(), wakes);
  for (uint32_t time = 1; time <= 3; time++) {
    hk_store_relaxed(&hk_purge_wakeup_is_due_at_free, true);
    hk_purge_wakeup_send_at_free();
    EXPECT_FALSE(hk_load_relaxed(&hk_purge_wakeup_is_due_at_free));
    hk_purge_wakeup_send_at_free();
    EXPECT_EQ(Word(), word + time);
    EXPECT_EQ(fake_os_wakes(), wakes + time);
  }
}

HK_FRESH_TEST(PurgeWakeup, IsClaimedByOneUntilItIsGivenUp) {
  EXPECT_FALSE(Claim()) << "the process may not have one yet";
  hk_purge_wakeup_allow();
  EXPECT_TRUE(Claim());
  EXPECT_FALSE(Claim());
  hk_purge_wakeup_give_up();
  EXPECT_TRUE(Claim());
}

HK_FRESH_TEST(PurgeWakeup, OfTwoThreadsThatClaimOneGetsIt) {
  hk_purge_wakeup_allow();
  const size_t rounds = hk_test::Scaled(2000, 20);
  Rendezvous rendezvous(2);
  std::atomic<size_t> claims{0};
  auto claim = [&](bool gives_up) {
    for (size_t i = 0; i < rounds; i++) {
      rendezvous.Wait();
      if (Claim()) claims++;
      rendezvous.Wait();
      if (gives_up) hk_purge_wakeup_give_up();
    }
  };
  std::thread other(claim, false);
  claim(true);
  other.join();
  EXPECT_EQ(claims, rounds);
}

// As in the parent when the fork comes: there is one, it sleeps, and one was due and declined.
void HaveOne() {
  hk_purge_wakeup_allow();
  ASSERT_TRUE(Claim());
  hk_purge_wakeup_set_thread(true);
  Expect();
  hk_store_relaxed(&hk_purge_wakeup_is_thread_due, true);
  hk_store_relaxed(&hk_purge_wakeup_is_due_at_free, true);
}

HK_FRESH_TEST(PurgeWakeup, AChildOfForkHasNoneAndMayHaveItsOwn) {
  HaveOne();
  EXPECT_EQ(InChild([] {
              hk_purge_wakeup_repair();
              HK_CHILD_CHECK(!IsHeard());
              HK_CHILD_CHECK(!Ring());
              HK_CHILD_CHECK(!hk_load_relaxed(&hk_purge_wakeup_is_thread_due));
              HK_CHILD_CHECK(!hk_load_relaxed(&hk_purge_wakeup_is_due_at_free));
              HK_CHILD_CHECK(!Claim()); /* no call has allowed it in the child */
              hk_purge_wakeup_allow();
              HK_CHILD_CHECK(Claim());
              HK_CHILD_CHECK(!Claim());
              return 0;
            }),
            0);
  EXPECT_TRUE(IsHeard());
  EXPECT_TRUE(Ring());
}

HK_FRESH_TEST(PurgeWakeup, WhatTheParentDeclinedTheChildMayWantAtOnce) {
  hk_purge_wakeup_decline(5000);
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(!IsThreadDueAt(5000, kWorth));
              hk_purge_wakeup_repair();
              HK_CHILD_CHECK(IsThreadDueAt(5000, kWorth));
              return 0;
            }),
            0);
}

int ClaimInTheParentsMemory(void *) { return Claim() ? 1 : 0; }

HK_FRESH_TEST(PurgeWakeup, AChildThatSharesTheMemoryGetsNone) {
  hk_purge_wakeup_allow();
  alignas(64) static char stack[256 * 1024];
  int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
  pid_t child = clone(ClaimInTheParentsMemory, stack + sizeof stack, flags, nullptr);
  EXPECT_EQ(WaitForChild(child), 0);
  EXPECT_TRUE(Claim()) << "the parent may";
}

}  // namespace
