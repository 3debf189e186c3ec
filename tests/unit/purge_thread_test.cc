// api/purge_thread: when the purge thread is started and when not, when it ends, and its state in a child of fork.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "fresh_test.h"
#include "hakmem/hakmem.h"
#include "os/rights.h"
#include "os/sandbox.h"
#include "unit/purge_course.h"

using namespace hk_test;

namespace {

uint64_t Starts() { return fake_os_calls(fake_os_thread_start); }

// Changes the bytes in use, which makes the library look at the bytes held.
void Change() { DropBlock(TakeBytes(2 * HK_MIB)); }

// Freed memory goes back at once, but for the base.
void ExpectEager() {
  void *block = TakeBytes(64 * HK_MIB);
  DropBlock(block);
  EXPECT_LE(hk_dirty_total(), 8 * HK_MIB);
}

HK_FRESH_TEST(PurgeThread, IsStartedFromSixteenMebibytesOn) {
  PurgeCourse course;
  (void)TakeBytes(15 * HK_MIB);
  EXPECT_FALSE(PurgeCourse::Start());
  (void)TakeBytes(HK_MIB + HK_SLAB_BYTES);
  EXPECT_TRUE(PurgeCourse::Start());
  (void)TakeBytes(64 * HK_MIB);
  EXPECT_FALSE(PurgeCourse::Start()) << "there is one";
  EXPECT_EQ(Starts(), 1u);
}

HK_FRESH_TEST(PurgeThread, WhatIsIdleCountsToo) {
  hk_option.retain = HK_GIB;
  PurgeCourse course;
  void *block = TakeBytes(15 * HK_MIB);
  void *other = TakeBytes(2 * HK_MIB);
  hk_store_relaxed(&hk_purge_wakeup_is_thread_due, false);
  DropBlock(block);
  EXPECT_TRUE(PurgeCourse::Start());
  DropBlock(other);
}

HK_FRESH_TEST(PurgeThread, OneThreadAloneIsDeclinedForASecond) {
  hk_heap_t *own = hk_heap_take();
  (void)TakeBytes(20 * HK_MIB);
  EXPECT_TRUE(hk_load_relaxed(&hk_purge_wakeup_is_thread_due));
  EXPECT_FALSE(PurgeCourse::Start());
  PurgeCourse course; /* two more threads */
  PurgeCourse::SetNow(999);
  Change();
  EXPECT_FALSE(PurgeCourse::Start());
  PurgeCourse::SetNow(1000);
  Change();
  EXPECT_TRUE(PurgeCourse::Start());
  hk_heap_give_back(own);
}

// Another thread attaches a heap, and changes no sum of bytes.
void BeginThread() {
  std::thread([] { hk_thread_leave(hk_thread_enter()); }).join();
}

HK_FRESH_TEST(PurgeThread, OneThatLackedASecondThreadIsConsideredWhenThatBegins) {
  hk_heap_t *own = hk_heap_take();
  (void)TakeBytes(20 * HK_MIB);
  EXPECT_FALSE(PurgeCourse::Start());
  PurgeCourse course; /* two more heaps */
  EXPECT_FALSE(PurgeCourse::Start());
  BeginThread();
  EXPECT_TRUE(PurgeCourse::Start());
  hk_heap_give_back(own);
}

// Threads that come and go do not start a purge thread each.
HK_FRESH_TEST(PurgeThread, AfterItsEndTheNextThreadStartsOneIfItLivedForLong) {
  for (uint64_t life_ms : {uint64_t{999}, uint64_t{1000}}) {
    PurgeCourse course;
    fake_os_set_thread_count(2);
    void *block = TakeBytes(20 * HK_MIB);
    ASSERT_TRUE(PurgeCourse::Start());
    fake_os_set_thread_count(3);
    course.At(PurgeCourse::Now() + life_ms, [] {
      fake_os_set_thread_count(2);
      hk_purge_wakeup_force();
    });
    course.Run();
    ASSERT_FALSE(IsPurgeThreadHeard());
    BeginThread();
    EXPECT_EQ(PurgeCourse::Start(), life_ms == 1000) << life_ms;
    DropBlock(block);
    PurgeCourse::SetNow(PurgeCourse::Now() + 5000);
  }
}

HK_FRESH_TEST(PurgeThread, ThreadsAreCountedWhereTheyCanBe) {
  PurgeCourse course; /* two heaps */
  fake_os_set_thread_count(1);
  (void)TakeBytes(20 * HK_MIB);
  EXPECT_FALSE(PurgeCourse::Start()) << "one of them has ended without its handlers";
  PurgeCourse::SetNow(1000);
  fake_os_set_thread_count(2);
  course.EndCompany(); /* and now the other one has no heap */
  Change();
  EXPECT_TRUE(PurgeCourse::Start());
}

HK_FRESH_TEST(PurgeThread, EndsWhenOneOtherThreadIsLeft) {
  PurgeCourse course;
  fake_os_set_thread_count(2);
  (void)TakeBytes(20 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  fake_os_set_thread_count(3);
  course.At(9000, [] { EXPECT_TRUE(IsPurgeThreadHeard()); });
  course.At(9001, [] { fake_os_set_thread_count(2); });
  course.At(14000, [] { ADD_FAILURE() << "it comes every 4 s"; });
  course.Run();
  EXPECT_FALSE(IsPurgeThreadHeard());
}

// A process whose first thread has ended ends with its last one, which is then this thread.
HK_FRESH_TEST(PurgeThread, EndsBetweenItsVisitsToo) {
  PurgeCourse course;
  fake_os_set_rights(hk_rights_same);
  fake_os_set_thread_count(2);
  (void)TakeBytes(20 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  fake_os_set_thread_count(3);
  course.At(9001, [] { fake_os_set_thread_count(2); });
  course.At(9001 + HK_RIGHTS_LOOK_MS, [] { ADD_FAILURE() << "it waits for its next visit"; });
  course.Run();
  EXPECT_FALSE(IsPurgeThreadHeard());
}

HK_FRESH_TEST(PurgeThread, TheOptionForbidsIt) {
  hk_option.purge_thread = false;
  PurgeCourse course;
  for (unsigned i = 0; i < 5; i++) {
    (void)TakeBytes(20 * HK_MIB);
    EXPECT_FALSE(PurgeCourse::Start());
    fake_os_advance(uint64_t{1000000000});
  }
  EXPECT_EQ(Starts(), 0u);
  DropBlock(TakeBytes(64 * HK_MIB));
  EXPECT_LE(hk_dirty_total(), 100 * HK_MIB / 8);
}

HK_FRESH_TEST(PurgeThread, AStartThatFailsLeavesThingsAsTheyWere) {
  PurgeCourse course;
  fake_os_fail_nth(fake_os_thread_start, 1);
  (void)TakeBytes(20 * HK_MIB);
  EXPECT_FALSE(PurgeCourse::Start());
  EXPECT_EQ(Starts(), 1u);
  EXPECT_FALSE(IsPurgeThreadHeard());
  ExpectEager();
  PurgeCourse::SetNow(999);
  Change();
  EXPECT_FALSE(PurgeCourse::Start());
  EXPECT_EQ(Starts(), 1u) << "it was not tried";
  PurgeCourse::SetNow(1000);
  Change();
  EXPECT_TRUE(PurgeCourse::Start());
  EXPECT_EQ(Starts(), 2u);
}

HK_FRESH_TEST(PurgeThread, UntilItIsThereMemoryGoesBackAtOnce) {
  PurgeCourse course;
  (void)TakeBytes(20 * HK_MIB);
  EXPECT_TRUE(PurgeCourse::Start());
  ExpectEager();
}

HK_FRESH_TEST(PurgeThread, ARequestStartsItAndAFreeNever) {
  hk_option.retain = HK_GIB;
  PurgeCourse course;
  void *blocks[4];
  for (void *&block : blocks) block = TakeBytes(20 * HK_MIB);
  void *run = hakmem_malloc(100000);
  void *small = hakmem_malloc(100);
  EXPECT_EQ(Starts(), 1u);
  hk_purge_wakeup_give_up();
  hk_store_relaxed(&hk_purge_wakeup_is_thread_due, true);
  errno = 77;
  for (void *block : blocks) hakmem_free(block);
  hakmem_free(run);
  hakmem_free(small);
  hakmem_free(nullptr);
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(Starts(), 1u);
  EXPECT_TRUE(hk_load_relaxed(&hk_purge_wakeup_is_thread_due));
  (void)hakmem_malloc(300);
  EXPECT_EQ(Starts(), 2u) << "a small request that finds its list empty";
}

HK_FRESH_TEST(PurgeThread, StartingOneDoesNotStartAnother) {
  PurgeCourse course;
  (void)TakeBytes(20 * HK_MIB);
  EXPECT_TRUE(PurgeCourse::Start());
  hk_store_relaxed(&hk_purge_wakeup_is_thread_due, true); /* as another thread saw it */
  EXPECT_FALSE(PurgeCourse::Start());
  EXPECT_FALSE(hk_load_relaxed(&hk_purge_wakeup_is_thread_due));
  EXPECT_EQ(Starts(), 1u);
}

// The C library allocates what belongs to a thread, and by those requests another one could be started.
HK_FRESH_TEST(PurgeThread, WhatIsAllocatedForItStartsNoOther) {
  PurgeCourse course;
  (void)TakeBytes(20 * HK_MIB);
  fake_os_set_hook(fake_os_thread_start, [] {
    EXPECT_FALSE(hk_load_relaxed(&hk_purge_wakeup_is_thread_due));
    EXPECT_NE(hakmem_malloc(20 * HK_MIB), nullptr);
    EXPECT_NE(hakmem_malloc(20 * HK_MIB), nullptr);
  });
  EXPECT_TRUE(PurgeCourse::Start());
  EXPECT_EQ(Starts(), 1u);
}

HK_FRESH_TEST(PurgeThread, EndsWithTheCompany) {
  PurgeCourse course;
  void *block = TakeBytes(64 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(100, [&] {
    EXPECT_TRUE(IsPurgeThreadHeard());
    DropBlock(block);
    EXPECT_EQ(hk_dirty_total(), 64 * HK_MIB) << "it stays for its time";
    course.EndCompany();
  });
  course.Run();
  EXPECT_LE(hk_dirty_total(), 8 * HK_MIB) << "nobody comes back for it";
  EXPECT_FALSE(IsPurgeThreadHeard());
  PurgeCourse::SetNow(60000); /* by then purged memory counts as a refault no more */
  ExpectEager();
}

HK_FRESH_TEST(PurgeThread, ComesAgainWithNewCompany) {
  (void)TakeBytes(64 * HK_MIB);
  for (unsigned i = 1; i <= 3; i++) {
    PurgeCourse course;
    (void)TakeBytes(2 * HK_MIB);
    EXPECT_TRUE(PurgeCourse::Start());
    EXPECT_EQ(Starts(), i);
    course.At(PurgeCourse::Now() + 10, [] { EXPECT_TRUE(IsPurgeThreadHeard()); });
    course.Run();
    EXPECT_FALSE(IsPurgeThreadHeard());
    (void)TakeBytes(2 * HK_MIB);
    EXPECT_FALSE(PurgeCourse::Start()) << "threads that come and go all the time do not bring it each time";
    PurgeCourse::SetNow(PurgeCourse::Now() + HK_PURGE_WAKEUP_RETRY_MS);
  }
}

HK_FRESH_TEST(PurgeThread, HasNoHeapOfItsOwn) {
  PurgeCourse course;
  (void)TakeBytes(20 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(5000, [] { EXPECT_EQ(hk_heap_count(hk_heap_attached), 2u); });
  course.Run();
  EXPECT_EQ(hk_heap_count(hk_heap_attached), 1u);
  EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP);
}

// In a child that has one thread.
int ChecksInChild(bool may_have_one) {
  HK_CHILD_CHECK(!IsPurgeThreadHeard());
  PurgeCourse course;
  DropBlock(TakeBytes(64 * HK_MIB));
  HK_CHILD_CHECK(hk_dirty_total() <= 20 * HK_MIB);
  (void)TakeBytes(20 * HK_MIB);
  HK_CHILD_CHECK(hk_load_relaxed(&hk_purge_wakeup_is_thread_due));
  HK_CHILD_CHECK(PurgeCourse::Start() == may_have_one);
  if (!may_have_one) return 0;
  bool was_heard = false;
  course.At(PurgeCourse::Now() + 10, [&] { was_heard = IsPurgeThreadHeard(); });
  course.Run();
  HK_CHILD_CHECK(was_heard && !IsPurgeThreadHeard());
  return 0;
}

HK_FRESH_TEST(PurgeThread, AChildOfForkCanHaveItsOwn) {
  PurgeCourse course;
  (void)TakeBytes(20 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(100, [] {
    EXPECT_EQ(InChild([] { return ChecksInChild(true); }), 0);
    EXPECT_TRUE(IsPurgeThreadHeard()) << "in the parent nothing has changed";
  });
  course.Run();
}

HK_FRESH_TEST(PurgeThread, AChildWithoutForksHandlersHasNone) {
  PurgeCourse course;
  (void)TakeBytes(20 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(100, [] {
    pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (child == 0) {
      alarm(kChildSeconds);
      _exit(ChecksInChild(false));
    }
    EXPECT_EQ(WaitForChild(child), 0);
  });
  course.Run();
}

// It would look at the dirty memory again and again, without a pause.
HK_FRESH_TEST(PurgeThread, EndsWhereTheSystemRefusesEveryWayToWait) {
  PurgeCourse course;
  void *block = TakeBytes(64 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(2000, [&] {
    DropBlock(block);
    fake_os_refuse_waits(true);
  });
  course.At(60000, [] { ADD_FAILURE() << "it has ended by then"; });
  course.Run();
  EXPECT_FALSE(IsPurgeThreadHeard());
  EXPECT_LE(hk_dirty_total(), 8 * HK_MIB) << "nobody comes back for it";
  fake_os_refuse_waits(false);
  PurgeCourse::SetNow(PurgeCourse::Now() + HK_PURGE_WAKEUP_RETRY_MS);
  (void)TakeBytes(20 * HK_MIB);
  EXPECT_TRUE(PurgeCourse::Start()) << "the refusals have ended";
}

// As where the process is stopped between its look at its rights and its sleep.
HK_FRESH_TEST(PurgeThread, ALateSleepIsNoLongOne) {
  PurgeCourse course;
  fake_os_set_rights(hk_rights_same);
  void *block = TakeBytes(64 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(2000, [&] {
    DropBlock(block);
    fake_os_set_clock_step(2 * uint64_t{HK_RIGHTS_LOOK_MS} * 1000000);
  });
  course.At(2001, [] { fake_os_set_clock_step(0); });
  course.At(60000, [] {});
  course.Run();
  for (const PurgeCourse::Sleep &sleep : course.sleeps()) EXPECT_LE(sleep.for_ms, uint64_t{HK_RIGHTS_LOOK_MS});
}

// A purge thread whose rights are known for two seconds, and then are these.
uint64_t RunUntilRightsAre(PurgeCourse *course, int rights) {
  fake_os_set_rights(hk_rights_same);
  (void)TakeBytes(20 * HK_MIB);
  EXPECT_TRUE(PurgeCourse::Start());
  course->At(2000, [rights] { fake_os_set_rights(rights); });
  course->At(60000, [] {}); /* the other threads stay until the last event */
  course->Run();
  EXPECT_FALSE(IsPurgeThreadHeard());
  return PurgeCourse::Now();
}

// Whether the next request would have started another one, in the thread that calls.
bool StartsAnother() {
  PurgeCourse::SetNow(PurgeCourse::Now() + 2000);
  Change();
  return PurgeCourse::Start();
}

// From then on no thread makes a call that such a filter may not permit.
HK_FRESH_TEST(PurgeThread, SeesAFilterThatCameUnseen) {
  PurgeCourse course;
  hk_store_relaxed(&hk_sandbox_level, hk_sandbox_none);
  (void)RunUntilRightsAre(&course, hk_rights_confined);
  EXPECT_TRUE(hk_sandbox_is_own());
  EXPECT_FALSE(StartsAnother());
}

HK_FRESH_TEST(PurgeThread, TheUserSaysThatNoFilterKills) {
  PurgeCourse course;
  hk_store_relaxed(&hk_sandbox_level, hk_sandbox_none);
  hk_option.sandbox = hk_sandbox_off;
  (void)RunUntilRightsAre(&course, hk_rights_confined);
  EXPECT_FALSE(hk_sandbox_is_own());
}

HK_FRESH_TEST(PurgeThread, WithOtherRightsThanTheFirstThreadEndsWithinASecond) {
  PurgeCourse course;
  EXPECT_LT(RunUntilRightsAre(&course, hk_rights_differ), 3000u);
  std::thread([] { EXPECT_FALSE(StartsAnother()) << "whose rights would be those of any thread"; }).join();
  EXPECT_TRUE(StartsAnother());
}

HK_FRESH_TEST(PurgeThread, WhoseRightsNothingTellsEndsForGood) {
  PurgeCourse course;
  EXPECT_LT(RunUntilRightsAre(&course, hk_rights_unknown), 3000u);
  EXPECT_FALSE(StartsAnother());
  ExpectEager();
}

HK_FRESH_TEST(PurgeThread, EndsForGoodWhenTheFirstThreadIsUnderAFilter) {
  PurgeCourse course;
  EXPECT_LT(RunUntilRightsAre(&course, hk_rights_confined), 3000u);
  EXPECT_FALSE(StartsAnother());
}

HK_FRESH_TEST(PurgeThread, LooksAtItsRightsWithoutAVisit) {
  PurgeCourse course;
  fake_os_set_rights(hk_rights_same);
  (void)TakeBytes(20 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  uint64_t before = fake_os_rights_questions();
  course.At(10000, [] {});
  course.Run();
  EXPECT_GE(fake_os_rights_questions() - before, 10000 / HK_RIGHTS_LOOK_MS);
}

}  // namespace
