// api/share_heaps: where heaps are many, a thread that needs one takes a sleeper's, and waits for it.
#include "fake_os.h"
#include "fresh_test.h"

#include <atomic>
#include <climits>
#include <deque>
#include <functional>
#include <thread>

#include "hakmem/hakmem.h"
#include "os/shard.h"
#include "unit/heap_driver.h"

using namespace hk_test;

namespace {

std::function<bool(int)> answer;
std::atomic<int> looks;

bool Sleeps(uint64_t) { return answer(++looks); }

void LetLooks(std::function<bool(int)> says) {
  answer = std::move(says);
  looks = 0;
  fake_os_set_thread_sleeps(Sleeps);
}

// Threads that have a heap each, and wait.
class Crowd {
 public:
  explicit Crowd(int count = 0) {
    for (int added = 0; added < count; added++) Add();
  }
  ~Crowd() {
    may_end_ = true;
    for (std::thread &thread : threads_) thread.join();
  }
  void Add() {
    size_t before = ready_;
    threads_.emplace_back([this] {
      hakmem_free(hakmem_malloc(100));
      ready_++;
      while (!may_end_) std::this_thread::yield();
    });
    while (ready_ == before) std::this_thread::yield();
  }

 private:
  std::deque<std::thread> threads_;
  std::atomic<size_t> ready_{0};
  std::atomic<bool> may_end_{false};
};

HK_FRESH_TEST(ShareHeaps, WhereTheyAreFewEachThreadHasItsOwn) {
  LetLooks([](int) { return true; });
  Crowd crowd;
  for (size_t count = 1; count <= 8; count++) {
    crowd.Add();
    EXPECT_EQ(hk_heap_total(), count);
  }
  EXPECT_EQ(looks, 0);
}

HK_FRESH_TEST(ShareHeaps, WhereTheyAreManyASleepersServes) {
  LetLooks([](int) { return true; });
  Crowd crowd(20);
  EXPECT_EQ(hk_heap_total(), 8u);
}

constexpr int kBeginsABurst = 9;   // takes the first heap that is one too many
constexpr int kLooks = 2;          // a thread examines two others at a time
constexpr int kLooksInATurn = 10;  // before each of four pauses, and after the last
constexpr int kPausesInATurn = 4;
constexpr int kVainTurns = 12;

HK_FRESH_TEST(ShareHeaps, InABurstOthersRunFirst) {
  LetLooks([](int) { return false; });
  Crowd crowd(kBeginsABurst);
  EXPECT_EQ(looks, kLooks);
  crowd.Add();
  EXPECT_EQ(hk_heap_total(), kBeginsABurst + 1u);
  EXPECT_EQ(looks, kLooks + kLooks + kLooksInATurn);
}

HK_FRESH_TEST(ShareHeaps, OneThatComesToSleepMeanwhileServes) {
  LetLooks([](int look) { return look > 2 + 6; });
  Crowd crowd(kBeginsABurst + 1);
  EXPECT_EQ(hk_heap_total(), static_cast<size_t>(kBeginsABurst));
}

HK_FRESH_TEST(ShareHeaps, WhereProcessorsMayBeFreeNoThreadWaits) {
  hk_shard_set_each(16);
  LetLooks([](int) { return false; });
  Crowd crowd(kBeginsABurst);
  for (int count = kBeginsABurst; count < 16; count++) {
    int before = looks;
    crowd.Add();
    EXPECT_EQ(looks, before + kLooks);
  }
  int before = looks;
  crowd.Add();
  EXPECT_EQ(looks, before + kLooks + kLooksInATurn);
}

HK_FRESH_TEST(ShareHeaps, AfterTurnsInVainTheRestOfABurstDoesNotWait) {
  LetLooks([](int) { return false; });
  Crowd crowd(kBeginsABurst + kVainTurns - 1);
  int before = looks;
  crowd.Add();
  EXPECT_EQ(looks, before + kLooks + kLooksInATurn);
  before = looks;
  crowd.Add();
  EXPECT_EQ(looks, before + kLooks);
}

// A heap that is found at the front adds a quarter of a pause.
HK_FRESH_TEST(ShareHeaps, WhereSleepersServeTheRestWaitsLonger) {
  static std::atomic<int> looks_of_one = INT_MIN;
  LetLooks([](int) { return ++looks_of_one > kLooks; });
  Crowd crowd(kBeginsABurst + kVainTurns - 1);
  for (int i = 0; i < 4 * kPausesInATurn; i++) {
    looks_of_one = 0;
    crowd.Add();
    EXPECT_GT(looks_of_one, kLooks);
    EXPECT_LT(looks_of_one, kLooks + kLooksInATurn);
  }
  looks_of_one = INT_MIN;
  for (int expected : {kLooks + kLooksInATurn, kLooks + kLooksInATurn, kLooks}) {
    int before = looks;
    crowd.Add();
    EXPECT_EQ(looks, before + expected);
  }
}

// In its first pause the thread at the front waits until the test lets it go on.
std::atomic<bool> is_stuck, may_go_on;

void StickOnce() {
  if (is_stuck.exchange(true)) return;
  while (!may_go_on) std::this_thread::yield();
}

// A crowd of which the next thread is at the front already.
class CrowdBehindOne {
 public:
  CrowdBehindOne() : crowd_(kBeginsABurst) {
    fake_os_set_wait_hook(StickOnce);
    front_ = std::thread([] { hakmem_free(hakmem_malloc(100)); });
    while (!is_stuck) std::this_thread::yield();
  }
  ~CrowdBehindOne() {
    may_go_on = true;
    front_.join();
  }
  // Returns how many threads the next one that begins examines.
  int LooksOfNext() {
    int before = looks;
    crowd_.Add();
    return looks - before;
  }

 private:
  Crowd crowd_;
  std::thread front_;
};

HK_FRESH_TEST(ShareHeaps, BehindTheFrontAThreadWaitsWithoutALook) {
  LetLooks([](int) { return false; });
  CrowdBehindOne crowd;
  fake_os_refuse_waits(true);
  EXPECT_EQ(crowd.LooksOfNext(), kLooks);
  EXPECT_EQ(fake_os_waited_ms(), 64u);
}

HK_FRESH_TEST(ShareHeaps, AThreadThatStaysAtTheFrontIsPassed) {
  LetLooks([](int) { return false; });
  CrowdBehindOne crowd;
  EXPECT_EQ(crowd.LooksOfNext(), kLooks + kLooksInATurn);
}

// How often the thread at the front, or a signal handler in it, waits.
std::atomic<int> waits;

void AllocateInTheFirstPause() {
  if (waits++ == 0) hk_share_heaps();
}

HK_FRESH_TEST(ShareHeaps, ASignalHandlerOfTheThreadAtTheFrontDoesNotWait) {
  LetLooks([](int) { return false; });
  Crowd crowd(kBeginsABurst);
  fake_os_set_wait_hook(AllocateInTheFirstPause);
  int before = looks;
  crowd.Add();
  EXPECT_EQ(waits, 4);
  EXPECT_EQ(looks, before + kLooks + kLooks + kLooksInATurn);
}

HK_FRESH_TEST(ShareHeaps, AfterABurstNoThreadWaits) {
  LetLooks([](int) { return false; });
  Crowd crowd(kBeginsABurst);
  fake_os_advance(100 * 1000000);
  crowd.Add();
  EXPECT_EQ(looks, kLooks + kLooks);
}

HK_FRESH_TEST(ShareHeaps, AnIdleHeapServesWithoutALook) {
  LetLooks([](int) { return true; });
  Crowd crowd(8);
  hk_share_heaps();
  EXPECT_TRUE(hk_heap_pool_has_any());
  int before = looks;
  hk_share_heaps();
  EXPECT_EQ(looks, before);
}

}  // namespace
