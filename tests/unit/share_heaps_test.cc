// api/process_purge: where heaps are many, a thread that needs one takes a sleeper's, and lets others run first.
#include "fake_os.h"
#include "fresh_test.h"

#include <atomic>
#include <deque>
#include <functional>
#include <thread>

#include "hakmem/hakmem.h"
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
  Crowd crowd;
  for (int count = 0; count < 20; count++) crowd.Add();
  EXPECT_EQ(hk_heap_total(), 8u);
}

constexpr int kBeginsABurst = 9;  // takes the first heap that is one too many

// Two threads are looked at, and two after each of three yields.
HK_FRESH_TEST(ShareHeaps, InABurstOthersRunFirst) {
  LetLooks([](int) { return false; });
  Crowd crowd;
  for (int count = 0; count < kBeginsABurst; count++) crowd.Add();
  EXPECT_EQ(looks, 2);
  crowd.Add();
  EXPECT_EQ(hk_heap_total(), kBeginsABurst + 1u);
  EXPECT_EQ(looks, 2 + 8);
}

HK_FRESH_TEST(ShareHeaps, OneThatComesToSleepMeanwhileServes) {
  LetLooks([](int look) { return look > 2 + 6; });
  Crowd crowd;
  for (int count = 0; count <= kBeginsABurst; count++) crowd.Add();
  EXPECT_EQ(hk_heap_total(), static_cast<size_t>(kBeginsABurst));
}

HK_FRESH_TEST(ShareHeaps, AfterABurstNoThreadWaits) {
  LetLooks([](int) { return false; });
  Crowd crowd;
  for (int count = 0; count < kBeginsABurst; count++) crowd.Add();
  fake_os_advance(100 * 1000000);
  crowd.Add();
  EXPECT_EQ(looks, 2 + 2);
}

HK_FRESH_TEST(ShareHeaps, AnIdleHeapServesWithoutALook) {
  LetLooks([](int) { return true; });
  Crowd crowd;
  for (int count = 0; count < 8; count++) crowd.Add();
  hk_process_share_heaps();
  EXPECT_TRUE(hk_heap_pool_has_any());
  int before = looks;
  hk_process_share_heaps();
  EXPECT_EQ(looks, before);
}

}  // namespace
