// heap/attachment, heap/detach: the heap of a thread that sleeps serves others; that of one that is awake stays its
// own.
#include "fake_os.h"
#include "fresh_test.h"

#include <pthread.h>

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <thread>

#include "unit/heap_driver.h"

extern "C" {
#include "heap/detach.h"
#include "heap/thread.h"
}

using namespace hk_test;

namespace {

constexpr unsigned kClass = 10;

// A thread that has a heap, and does what it is told.
class Worker {
 public:
  Worker() : thread_([this] { Run(); }) {
    Do([this] { heap_ = Enter(); });
  }
  ~Worker() {
    if (thread_.joinable()) End();
  }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  void Do(std::function<void()> act) {
    Begin(std::move(act));
    Await();
  }
  void Begin(std::function<void()> act) {
    act_ = std::move(act);
    state_ = kTold;
  }
  void Await() {
    while (state_ != kIdle) std::this_thread::yield();
  }
  void BeginToEnd() { state_ = kEnds; }
  void End() {
    BeginToEnd();
    thread_.join();
  }
  void Join() { thread_.join(); }

  // The work of a slow path.
  static hk_heap_t *Enter() {
    hk_thread_lease_t lease = hk_thread_enter();
    hk_thread_leave(lease);
    return lease.heap;
  }
  hk_heap_t *EnterThere() {
    hk_heap_t *heap = nullptr;
    Do([&heap] { heap = Enter(); });
    return heap;
  }
  hk_heap_t *heap() const { return heap_; }

 private:
  enum State { kIdle, kTold, kEnds };

  void Run() {
    for (;;) {
      State state = state_;
      if (state == kEnds) return hk_thread_on_exit();
      if (state == kTold) {
        act_();
        state_ = kIdle;
      }
      std::this_thread::yield();
    }
  }

  std::atomic<State> state_{kIdle};
  std::function<void()> act_;
  hk_heap_t *heap_ = nullptr;
  std::thread thread_;
};

// Which looks find the thread asleep, and what it does before the look.
std::function<bool(int)> answer;
int looks;

bool Sleeps(uint64_t) { return answer(++looks); }

void LetLooks(std::function<bool(int)> says) {
  ASSERT_TRUE(hk_os_thread_exit_init([] {}));
  answer = std::move(says);
  looks = 0;
  fake_os_set_thread_sleeps(Sleeps);
}

unsigned Detach(uint64_t now_ms = 1000, uint64_t asleep_ms = 0, uint32_t least_slabs = 0) {
  hk_detach_terms_t terms = {.now_ms = now_ms, .asleep_ms = asleep_ms, .least_slabs = least_slabs};
  return hk_detach_sleepers(&terms);
}

uint64_t NextDue(uint64_t now_ms, uint64_t asleep_ms, uint32_t least_slabs = 0) {
  hk_detach_terms_t terms = {.now_ms = now_ms, .asleep_ms = asleep_ms, .least_slabs = least_slabs};
  return hk_detach_next_due(&terms);
}

HK_FRESH_TEST(Detach, TheHeapOfAThreadThatSleepsIsIdle) {
  LetLooks([](int) { return true; });
  Worker worker;
  worker.Do([&worker] { FreeOwn(worker.heap(), Alloc(worker.heap(), kClass)); });
  EXPECT_EQ(Detach(), 1u);
  EXPECT_EQ(hk_heap_life(worker.heap()), hk_heap_idle);
  EXPECT_EQ(Detach(), 0u) << "it has none any more";
  worker.Do([] { EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP); });
  EXPECT_EQ(worker.EnterThere(), worker.heap()) << "its last one, which no other thread took";
  EXPECT_EQ(hk_heap_life(worker.heap()), hk_heap_attached);
}

HK_FRESH_TEST(Detach, AThreadThatWakesUpTooLateTakesAnotherHeap) {
  LetLooks([](int) { return true; });
  Worker worker;
  EXPECT_EQ(Detach(), 1u);
  ASSERT_TRUE(hk_heap_take_this(worker.heap()));
  hk_heap_t *next = worker.EnterThere();
  EXPECT_NE(next, worker.heap());
  EXPECT_EQ(hk_heap_life(next), hk_heap_attached);
}

HK_FRESH_TEST(Detach, WhatTheHeapKeptGoes) {
  LetLooks([](int) { return true; });
  Worker worker;
  for (int i = 0; i < HK_POOL_WARM; i++) hk_heap_give_back(hk_heap_create(hk_heap_own));
  hk_block_t *block = nullptr;
  worker.Do([&] { block = Alloc(worker.heap(), kClass); });
  size_t in_use = InUseSlabs();
  EXPECT_GT(in_use, 0u);
  worker.Do([&] { FreeOwn(worker.heap(), block); });
  EXPECT_EQ(Detach(), 1u);
  EXPECT_EQ(InUseSlabs(), 0u);
}

HK_FRESH_TEST(Detach, OfAThreadThatIsAwakeNothingIsTaken) {
  LetLooks([](int) { return false; });
  Worker worker;
  EXPECT_EQ(Detach(), 0u);
  EXPECT_EQ(looks, 1);
  worker.Do([&worker] { EXPECT_EQ(hk_thread_own(), worker.heap()); });
}

HK_FRESH_TEST(Detach, AThreadThatWakesUpMeanwhileTakesItsHeapUpAgain) {
  LetLooks([](int look) { return look == 1; });
  Worker worker;
  EXPECT_EQ(Detach(), 0u);
  EXPECT_EQ(hk_attachment_state(&worker.heap()->attachment), hk_attachment_loose);
  worker.Do([] { EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP); });
  EXPECT_EQ(worker.EnterThere(), worker.heap());
  EXPECT_EQ(hk_attachment_state(&worker.heap()->attachment), hk_attachment_firm);
}

HK_FRESH_TEST(Detach, AThreadThatFreesAnIdleHeapsBlockFirstKeepsItsLooseHeap) {
  LetLooks([](int look) { return look == 1; });
  Worker worker;
  hk_heap_t *idle = hk_heap_create(hk_heap_own);
  hk_heap_give_back(idle);
  EXPECT_EQ(Detach(), 0u);
  worker.Do([&] {
    hk_thread_attach_if_idle(idle);
    EXPECT_EQ(hk_thread_own(), worker.heap());
  });
  EXPECT_EQ(hk_heap_life(idle), hk_heap_idle);
}

HK_FRESH_TEST(Detach, AThreadThatSleepsAgainLosesItsLooseHeap) {
  LetLooks([](int look) { return look != 2; });
  Worker worker;
  EXPECT_EQ(Detach(), 0u);
  EXPECT_EQ(Detach(), 1u);
  EXPECT_EQ(hk_heap_life(worker.heap()), hk_heap_idle);
}

HK_FRESH_TEST(Detach, AThreadThatTakesItsHeapUpDuringTheSecondLookKeepsIt) {
  Worker *one = nullptr;
  LetLooks([&one](int look) {
    if (look == 2) EXPECT_EQ(one->EnterThere(), one->heap());
    return true; /* as if it slept on: its heap is firm again all the same */
  });
  Worker worker;
  one = &worker;
  EXPECT_EQ(Detach(), 0u);
  worker.Do([&worker] { EXPECT_EQ(hk_thread_own(), worker.heap()); });
}

HK_FRESH_TEST(Detach, AThreadInASlowPathKeepsItsHeap) {
  LetLooks([](int) { return true; });
  Worker worker;
  worker.Do([&worker] { hk_heap_enter(worker.heap()); });
  EXPECT_EQ(Detach(), 0u);
  worker.Do([&worker] { hk_heap_leave(worker.heap()); });
  EXPECT_EQ(Detach(), 1u);
}

HK_FRESH_TEST(Detach, AThreadThatEndsWaitsForTheExaminer) {
  Worker *one = nullptr;
  LetLooks([&one](int look) {
    if (look == 1) return true;
    one->BeginToEnd();
    while (hk_attachment_state(&one->heap()->attachment) == hk_attachment_examined) std::this_thread::yield();
    return true;
  });
  Worker worker;
  one = &worker;
  EXPECT_EQ(Detach(), 0u);
  worker.Join();
  EXPECT_EQ(hk_heap_life(worker.heap()), hk_heap_idle) << "its own thread gave it back";
  EXPECT_EQ(hk_attachment_state(&worker.heap()->attachment), hk_attachment_none);
}

HK_FRESH_TEST(Detach, AThreadThatTakesItsHeapUpAndEndsWaitsForTheExaminerToo) {
  Worker *one = nullptr;
  auto state = [&one] { return hk_attachment_state(&one->heap()->attachment); };
  LetLooks([&](int look) {
    if (look == 1) return true;
    EXPECT_EQ(one->EnterThere(), one->heap());
    EXPECT_EQ(state(), hk_attachment_taken_up);
    one->BeginToEnd();
    while (state() == hk_attachment_taken_up) std::this_thread::yield();
    EXPECT_EQ(state(), hk_attachment_ended) << "its stack is still read";
    return true;
  });
  Worker worker;
  one = &worker;
  EXPECT_EQ(Detach(), 0u);
  worker.Join();
  EXPECT_EQ(state(), hk_attachment_none);
}

HK_FRESH_TEST(Detach, AThreadThatHasLostItsHeapEndsWithoutOne) {
  LetLooks([](int) { return true; });
  Worker worker;
  EXPECT_EQ(Detach(), 1u);
  worker.End();
  EXPECT_EQ(hk_heap_count(hk_heap_attached), 0u);
}

HK_FRESH_TEST(Detach, AThreadWithoutAnExitHandlerKeepsItsHeap) {
  fake_os_set_thread_sleeps([](uint64_t) { return true; });
  hk_heap_t *heap = Worker::Enter();
  EXPECT_EQ(Detach(), 0u);
  EXPECT_EQ(hk_thread_own(), heap);
}

// ---- Which.

HK_FRESH_TEST(Detach, AHeapIsLeftAloneUntilItsThreadWasQuietForSoLong) {
  LetLooks([](int) { return true; });
  Worker worker;
  EXPECT_EQ(Detach(1000, 700), 0u);
  EXPECT_EQ(NextDue(1000, 700), 1700u);
  EXPECT_EQ(Detach(1699, 700), 0u);
  worker.Do([&worker] { (void)Alloc(worker.heap(), kClass); });
  EXPECT_EQ(Detach(1700, 700), 0u) << "it was at work meanwhile";
  EXPECT_EQ(NextDue(1700, 700), 2400u);
  EXPECT_EQ(looks, 0);
  EXPECT_EQ(Detach(2400, 700), 1u);
  EXPECT_EQ(NextDue(2400, 700), UINT64_MAX);
}

HK_FRESH_TEST(Detach, AHeapWithLittleIsLeftAlone) {
  LetLooks([](int) { return true; });
  Worker worker;
  worker.Do([&worker] { (void)Alloc(worker.heap(), kClass); });
  auto slabs = static_cast<uint32_t>(hk_load_relaxed(&worker.heap()->span_slabs) + hk_heap_spare_slabs(worker.heap()));
  ASSERT_GT(slabs, 0u);
  EXPECT_EQ(Detach(1000, 0, slabs + 1), 0u);
  EXPECT_EQ(NextDue(1000, 0, slabs + 1), UINT64_MAX);
  EXPECT_EQ(Detach(1000, 0, slabs), 1u);
}

// More slabs than a heap of these tests has.
constexpr uint32_t kMany = 1000;

void FreeBlockOf(Worker &owner, Worker &sender) {
  hk_block_t *block = nullptr;
  owner.Do([&] { block = Alloc(owner.heap(), kClass); });
  EXPECT_EQ(NextDue(1000, 0, kMany), UINT64_MAX);
  sender.Do([&] { RemoteFree(sender.heap(), block); });
  EXPECT_FALSE(hk_heap_has_incoming(owner.heap()));
}

HK_FRESH_TEST(Detach, AHeapWithBlocksToSendIsNot) {
  LetLooks([](int) { return true; });
  Worker owner, sender;
  FreeBlockOf(owner, sender);
  EXPECT_EQ(NextDue(1000, 0, kMany), 1000u);
  EXPECT_EQ(Detach(1000, 0, kMany), 1u) << "the sender's; the owner's has little";
  EXPECT_TRUE(hk_heap_has_incoming(owner.heap()));
  EXPECT_EQ(Detach(1000, 0, kMany), 0u);
}

HK_FRESH_TEST(Detach, AHeapThatHasSentAllIsLeftAloneAgain) {
  LetLooks([](int) { return true; });
  Worker owner, sender;
  FreeBlockOf(owner, sender);
  EXPECT_EQ(hk_load_relaxed(&sender.heap()->batch_count), 1u);
  sender.Do([&] { hk_remote_flush(sender.heap()); });
  EXPECT_EQ(hk_load_relaxed(&sender.heap()->batch_count), 0u);
  EXPECT_EQ(Detach(1000, 0, kMany), 0u);
}

HK_FRESH_TEST(Detach, AThreadThatComesBackIsLeftAloneForLongerEachTime) {
  LetLooks([](int) { return true; });
  Worker worker;
  uint64_t now_ms = 1000, asleep_ms = 100;
  for (unsigned losses = 0; losses < 9; losses++) {
    EXPECT_EQ(Detach(now_ms, asleep_ms), 0u);
    uint64_t due_ms = NextDue(now_ms, asleep_ms);
    EXPECT_EQ(due_ms - now_ms, asleep_ms << std::min(losses, 6u));
    EXPECT_EQ(Detach(due_ms, asleep_ms), 1u);
    (void)worker.EnterThere();
    worker.Do([&worker] { (void)Alloc(worker.heap(), kClass); });
    now_ms = due_ms + 1;
  }
}

// ---- One, for a thread that needs a heap.

HK_FRESH_TEST(Detach, OneIsTakenAtOnce) {
  LetLooks([](int) { return true; });
  Worker worker;
  EXPECT_TRUE(hk_detach_one(1000));
  EXPECT_EQ(hk_heap_life(worker.heap()), hk_heap_idle);
  EXPECT_FALSE(hk_detach_one(1000)) << "no thread has one any more";
}

HK_FRESH_TEST(Detach, OneIsTakenOnlyFromAThreadThatSleeps) {
  LetLooks([](int) { return false; });
  Worker worker;
  EXPECT_FALSE(hk_detach_one(1000));
  EXPECT_EQ(hk_heap_life(worker.heap()), hk_heap_attached);
}

HK_FRESH_TEST(Detach, OneThatWasLostBeforeIsTakenAfterALongerSleep) {
  LetLooks([](int) { return true; });
  Worker worker;
  uint64_t now_ms = 1000;
  for (unsigned losses = 0; losses < 9; losses++) {
    uint64_t least_ms = (1u << std::min(losses, 6u)) - 1;
    if (least_ms > 0) {
      EXPECT_FALSE(hk_detach_one(now_ms)) << losses;
      EXPECT_FALSE(hk_detach_one(now_ms + least_ms - 1)) << losses;
    }
    now_ms += least_ms;
    EXPECT_TRUE(hk_detach_one(now_ms)) << losses;
    (void)worker.EnterThere();
    worker.Do([&worker] { (void)Alloc(worker.heap(), kClass); });
    now_ms++;
  }
}

// ---- The overdue one.

// Frees blocks of the worker's heap from this thread, until they fill `kib` KiB. All are sent.
void FreeFromHere(Worker &worker, size_t kib) {
  static hk_heap_t *own = nullptr;
  own = Worker::Enter();
  Blocks blocks;
  worker.Do([&] {
    for (size_t i = 0; i <= kib * 1024 / (kClass * 16); i++) blocks.push_back(Alloc(worker.heap(), kClass));
  });
  SendAll(own, blocks);
}

constexpr size_t kOverdueKib = HK_OVERDUE_KIB;

HK_FRESH_TEST(DetachOverdue, AThreadThatSleepsLosesTheHeapForWhichMuchWaits) {
  LetLooks([](int) { return true; });
  Worker worker;
  FreeFromHere(worker, kOverdueKib * 3 / 4);
  hk_detach_overdue();
  EXPECT_EQ(hk_heap_life(worker.heap()), hk_heap_attached) << "not enough waits";
  FreeFromHere(worker, kOverdueKib * 5 / 4);
  EXPECT_TRUE(hk_heap_has_incoming(worker.heap()));
  hk_detach_overdue();
  EXPECT_EQ(hk_heap_life(worker.heap()), hk_heap_idle);
  EXPECT_FALSE(hk_heap_has_incoming(worker.heap()));
  EXPECT_EQ(hk_load_relaxed(&hk_remote_overdue), nullptr);
}

// The heap of a thread that is awake is looked at again when as much more waits.
HK_FRESH_TEST(DetachOverdue, AThreadThatIsAwakeKeepsIt) {
  LetLooks([](int) { return false; });
  Worker worker;
  FreeFromHere(worker, kOverdueKib * 16);
  hk_detach_overdue();
  EXPECT_EQ(looks, 1);
  hk_detach_overdue();
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(hk_heap_life(worker.heap()), hk_heap_attached);
  FreeFromHere(worker, kOverdueKib * 16);
  FreeFromHere(worker, kOverdueKib * 16);
  hk_detach_overdue();
  EXPECT_EQ(looks, 2);
}

HK_FRESH_TEST(DetachOverdue, AHeapThatIsDrainedIsNotOverdue) {
  LetLooks([](int) { return true; });
  Worker worker;
  for (int i = 0; i < 8; i++) {
    FreeFromHere(worker, kOverdueKib / 2);
    worker.Do([&worker] { Drain(worker.heap()); });
  }
  EXPECT_EQ(hk_load_relaxed(&hk_remote_overdue), nullptr);
}

HK_FRESH_TEST(DetachOverdue, AThreadThatLostItsHeapBeforeKeepsTheNextForLonger) {
  LetLooks([](int) { return true; });
  Worker worker;
  EXPECT_EQ(Detach(), 1u);
  (void)worker.EnterThere();
  FreeFromHere(worker, kOverdueKib * 5 / 4);
  EXPECT_EQ(hk_load_relaxed(&hk_remote_overdue), nullptr);
  FreeFromHere(worker, kOverdueKib * 5 / 2);
  EXPECT_EQ(hk_load_relaxed(&hk_remote_overdue), worker.heap());
}

HK_FRESH_TEST(DetachOverdue, TheOwnHeapIsNotExamined) {
  LetLooks([](int) { return true; });
  Worker worker;
  FreeFromHere(worker, kOverdueKib * 5 / 4);
  worker.Do([] { hk_detach_overdue(); });
  EXPECT_EQ(looks, 0);
  EXPECT_EQ(hk_heap_life(worker.heap()), hk_heap_attached);
}

HK_FRESH_TEST(Detach, TheExaminerIsNotCancelledMeanwhile) {
  int type = -1;
  LetLooks([&type](int) {
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    return true;
  });
  Worker worker;
  int before;
  ASSERT_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before), 0);
  bool is_detached = hk_detach_one(1000);
  int after;
  ASSERT_EQ(pthread_setcanceltype(before, &after), 0);
  EXPECT_TRUE(is_detached);
  EXPECT_EQ(type, PTHREAD_CANCEL_DEFERRED);
  EXPECT_EQ(after, PTHREAD_CANCEL_ASYNCHRONOUS);
}

// The looks of one call are few, and go on where the last call's ended: no heap is out of reach.
HK_FRESH_TEST(Detach, OneIsLookedForAtOtherHeapsEachTime) {
  constexpr int kAwake = 20;
  LetLooks([](int) { return false; });
  std::deque<Worker> awake(kAwake);
  int before = looks, calls = 0;
  for (; looks - before < kAwake && calls < kAwake; calls++) {
    int examined = looks;
    EXPECT_FALSE(hk_detach_one(1000));
    EXPECT_LE(looks - examined, 2);
  }
  EXPECT_EQ(looks - before, kAwake);
  answer = [](int) { return true; };
  for (int i = 0; i < kAwake; i++) EXPECT_TRUE(hk_detach_one(1000)) << i;
  EXPECT_EQ(hk_heap_count(hk_heap_attached), 0u);
}

HK_FRESH_TEST(Detach, AChildOfForkExaminesNoThread) {
  LetLooks([](int) { return true; });
  Worker worker;
  hk_detach_repair();
  EXPECT_EQ(Detach(), 0u);
  EXPECT_EQ(looks, 0);
}

}  // namespace
