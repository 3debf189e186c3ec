// profile/unwind cache: a walk that ends where the last one went along finds what a whole walk finds.
#include "unwind/unwind_cache.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "unwind/site.h"
#include "unwind/unwind.h"

namespace {

std::atomic<unsigned> compared;

// But for the innermost frame, which is where each of the two walks was begun. In a signal handler too: nothing is
// allocated.
__attribute__((noinline)) void ExpectSame() {
  uintptr_t whole[HK_SITE_FRAMES_MAX];
  const hk_site_t *found = hk_unwind_cache_site();
  unsigned count = hk_unwind(whole, HK_SITE_FRAMES_MAX, 0);
  ASSERT_GT(count, 2u);
  uintptr_t frames[HK_SITE_FRAMES_MAX];
  ASSERT_EQ(hk_site_frames(found, frames), count);
  for (unsigned i = 1; i < count; i++) ASSERT_EQ(frames[i], whole[i]) << i;
  compared++;
}

__attribute__((noinline)) hk_site_t *SiteHere() {
  hk_site_t *site = hk_unwind_cache_site();
  __asm__ volatile("" : : "r"(site) : "memory");
  return site;
}

TEST(UnwindCache, OnePathIsOneSite) {
  std::vector<hk_site_t *> sites(10);
  for (hk_site_t *&site : sites) {
    site = SiteHere();
    ExpectSame();
  }
  std::sort(sites.begin(), sites.end());
  // A compiler may make two loops of this one.
  EXPECT_LE(std::unique(sites.begin(), sites.end()) - sites.begin(), 2);
}

// A thread that lost its cache after each walk would find the same, and take memory for another.
TEST(UnwindCache, IsOneForAllWalksOfAStack) {
  uint64_t before = 0;
  for (int i = 0; i < 200; i++) {
    if (i == 100) before = fake_os_calls(fake_os_reserve);
    (void)SiteHere();
  }
  EXPECT_EQ(fake_os_calls(fake_os_reserve), before);
}

// ---- A program that goes anywhere. Some of its frames end where the frame pointer says.

std::mt19937 random_numbers;

unsigned Below(unsigned most) { return static_cast<unsigned>(random_numbers() % most); }

void Wander(unsigned depth);

__attribute__((noinline)) void ThroughFixedFrame(unsigned depth) {
  char room[48];
  Wander(depth);
  __asm__ volatile("" : : "r"(room) : "memory");
}

__attribute__((noinline)) void ThroughOtherFrame(unsigned depth) {
  char room[112];
  Wander(depth);
  Wander(depth > 3 ? depth / 2 : 0);
  __asm__ volatile("" : : "r"(room) : "memory");
}

// Its frame has a random size, and what lies in it is what others left there.
__attribute__((noinline)) void ThroughGrownFrame(unsigned depth) {
  void *room = __builtin_alloca(16 * (1 + Below(8)));
  Wander(depth);
  __asm__ volatile("" : : "r"(room) : "memory");
}

__attribute__((noinline)) void Wander(unsigned depth) {
  if (testing::Test::HasFatalFailure()) return;
  if (depth == 0 || Below(4) == 0) ExpectSame();
  if (depth == 0) return;
  switch (Below(3)) {
    case 0:
      ThroughFixedFrame(depth - 1);
      break;
    case 1:
      ThroughOtherFrame(depth - 1);
      break;
    default:
      ThroughGrownFrame(depth - 1);
      break;
  }
  __asm__ volatile("" : : : "memory");
}

TEST(UnwindCache, FindsWhatAWholeWalkFindsWhereverTheProgramGoes) {
  compared = 0;
  for (unsigned round = 0; round < 400; round++) {
    random_numbers.seed(round);
    Wander(1 + Below(14));
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
  EXPECT_GT(compared, 1000u);
}

// ---- Another walk with return addresses at the same places: the larger frame covers the place of two.

__attribute__((noinline)) void InGrownFrame(size_t bytes) {
  void *room = __builtin_alloca(bytes);
  ExpectSame();
  __asm__ volatile("" : : "r"(room) : "memory");
}

__attribute__((noinline)) void InTwoFrames(size_t) {
  char room[64];
  InGrownFrame(16);
  __asm__ volatile("" : : "r"(room) : "memory");
}

// All by one call.
__attribute__((noinline)) void CallBoth(size_t bytes) {
  void (*volatile ways[])(size_t) = {InTwoFrames, InGrownFrame};
  for (auto way : ways) way(bytes);
}

TEST(UnwindCache, IsNotMisledByWhatFramesLeaveBehind) {
  for (size_t bytes = 16; bytes <= 512; bytes += 16) {
    CallBoth(bytes);
    if (HasFatalFailure()) FAIL() << bytes << " bytes";
  }
}

// ---- Deeper than a site, and than the cache.

__attribute__((noinline)) void Descend(unsigned depth, unsigned every) {
  if (depth % every == 0) ExpectSame();
  if (depth > 0 && !testing::Test::HasFatalFailure()) Descend(depth - 1, every);
  if (depth % (every + 1) == 0) ExpectSame();
}

TEST(UnwindCache, FollowsDeepStacksDownAndUp) {
  for (unsigned every : {1u, 7u, 50u, 90u, 150u}) {
    Descend(500, every);
    if (HasFatalFailure()) FAIL() << "every " << every;
  }
}

TEST(UnwindCache, EachThreadHasItsOwn) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; i++) {
    threads.emplace_back([] {
      for (unsigned round = 0; round < 50; round++) Descend(20, 3);
    });
  }
  for (std::thread &thread : threads) thread.join();
}

// ---- Out of a signal handler: the last walk knew the interrupted frames; the cache cannot keep the one between.

void OnSignal(int) { ExpectSame(); }

TEST(UnwindCache, GoesThroughASignalHandler) {
  struct sigaction action = {}, before;
  action.sa_handler = OnSignal;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  for (unsigned round = 0; round < 5; round++) {
    ExpectSame();
    raise(SIGUSR1);
    ExpectSame();
  }
  sigaction(SIGUSR1, &before, nullptr);
}

#if defined(__x86_64__)

// The same stack, but for where the program was stopped.
__attribute__((noinline)) void StopTwice() { __asm__ volatile("int3; nop; nop; int3" : : : "memory"); }

TEST(UnwindCache, KnowsWhereASignalStoppedTheProgram) {
  struct sigaction action = {}, before;
  action.sa_handler = OnSignal;
  ASSERT_EQ(sigaction(SIGTRAP, &action, &before), 0);
  StopTwice();
  sigaction(SIGTRAP, &before, nullptr);
}

#endif

TEST(UnwindCache, LeavesErrno) {
  errno = 4711;
  (void)hk_unwind_cache_site();
  hk_unwind_cache_prefetch();
  EXPECT_EQ(errno, 4711);
}

}  // namespace
