// space/dirty, space/purge, api/purge_thread: for how long dirty memory stays in a program with a purge thread, and
// when that thread comes.
#include <vector>

#include "fresh_test.h"
#include "unit/heap_driver.h"
#include "unit/purge_course.h"

using namespace hk_test;

namespace {

size_t DirtyMib() { return hk_dirty_total() / HK_MIB; }
uint32_t Word() { return hk_load_relaxed(&hk_purge_wakeup_word); }

void *TakeRun(size_t bytes) {
  bool is_zero;
  return hk_run_alloc(bytes, HK_SLAB_BYTES, &is_zero);
}

// A slab comes and goes, so that the program is not quiet.
void Stir() { (void)hk_run_free(hk_slab_of(TakeRun(HK_SLAB_BYTES))); }
void StirEvery(PurgeCourse &course, uint64_t from_ms, uint64_t to_ms, uint64_t step_ms) {
  for (uint64_t ms = from_ms; ms <= to_ms; ms += step_ms) course.At(ms, Stir);
}

// 48 MiB are freed at 1,000 ms; 64 stay in use, and a superslab for small blocks.
void FreeSome(PurgeCourse &course) {
  (void)TakeRun(HK_SLAB_BYTES);
  std::vector<void *> blocks = TakeApart(1, 48 * HK_MIB, 64 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(1000, [=] { DropAll(blocks); });
}

void BusyProgram(uint64_t price) {
  hk_option.mode = price;
  hk_option.learn = hk_learn_off;
  hk_option.retain = HK_MIB;
  PurgeCourse course;
  FreeSome(course);
  uint64_t time_out_ms = BreakEvenMs(), step_ms = time_out_ms / 15;
  EXPECT_EQ(time_out_ms, HK_PRICE_PURGE_NS * 1000 / price + HK_PRICE_FAULT_NS * 1000 / price);
  StirEvery(course, 1000 + step_ms, 1000 + 16 * step_ms, step_ms);
  course.At(1000 + time_out_ms, [] { EXPECT_EQ(DirtyMib(), 48u); });
  /* Before anything of the program's own brings it there. */
  course.At(1000 + time_out_ms + 11, [] { EXPECT_LE(DirtyMib(), 6u); });
  course.Run();
}
HK_FRESH_TEST(PurgeCourse, ABusyProgramKeepsForTheTimeOutAtTheFastPrice) { BusyProgram(HK_PRICE_FAST); }
HK_FRESH_TEST(PurgeCourse, ABusyProgramKeepsForTheTimeOutAtTheBalancedPrice) { BusyProgram(HK_PRICE_BALANCED); }
HK_FRESH_TEST(PurgeCourse, ABusyProgramKeepsForTheTimeOutAtTheLeanPrice) { BusyProgram(HK_PRICE_LEAN); }

HK_FRESH_TEST(PurgeCourse, WhatWasWantedAgainAfterItsTimeGoesWhenItIsOldAgain) {
  hk_option.learn = hk_learn_off;
  hk_option.retain = HK_MIB;
  PurgeCourse course;
  FreeSome(course);
  uint64_t time_out_ms = BreakEvenMs(), again_ms = 1000 + time_out_ms + 500;
  StirEvery(course, 1100, again_ms + 2 * time_out_ms, 100);
  course.At(again_ms, [] {
    EXPECT_LE(DirtyMib(), 6u);
    DropBlock(TakeBytes(48 * HK_MIB));
  });
  course.At(again_ms + time_out_ms - 100, [] { EXPECT_GE(DirtyMib(), 40u); });
  course.At(again_ms + time_out_ms + 200,
            [] { EXPECT_LE(DirtyMib(), 6u) << "its time-out is learned, or is as it is"; });
  course.Run();
}

void QuietProgram(uint64_t price) {
  hk_option.mode = price;
  hk_option.learn = hk_learn_off;
  PurgeCourse course;
  FreeSome(course);
  uint64_t quiet_ms = 1000 + BreakEvenMs() * 3 / 4;
  course.At(quiet_ms - 1, [] { EXPECT_EQ(DirtyMib(), 48u); });
  course.At(quiet_ms + 11, [] { EXPECT_LE(DirtyMib(), 4u) << "a sixteenth of the bytes in use"; });
  course.Run();
}
HK_FRESH_TEST(PurgeCourse, AQuietProgramGivesBackAtTheFastPrice) { QuietProgram(HK_PRICE_FAST); }
HK_FRESH_TEST(PurgeCourse, AQuietProgramGivesBackAtTheBalancedPrice) { QuietProgram(HK_PRICE_BALANCED); }
HK_FRESH_TEST(PurgeCourse, AQuietProgramGivesBackAtTheLeanPrice) { QuietProgram(HK_PRICE_LEAN); }

HK_FRESH_TEST(PurgeCourse, ASixteenthOfWhatIsInUseStays) {
  PurgeCourse course;
  std::vector<void *> blocks = TakeApart(64, 2 * HK_MIB, 4 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(100, [=] { DropAll(blocks); });
  course.At(10000, [] {
    EXPECT_LE(DirtyMib(), 16u);
    EXPECT_GE(DirtyMib(), 12u);
  });
  course.Run();
}

HK_FRESH_TEST(PurgeCourse, AMebibyteStaysOfAProgramThatHasLittle) {
  PurgeCourse course;
  std::vector<void *> blocks = TakeApart(32, HK_MIB, HK_MIB / 2);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(100, [=] { DropAll(blocks); });
  course.At(10000, [] { EXPECT_LE(hk_dirty_total(), HK_MIB); });
  course.Run();
}

HK_FRESH_TEST(PurgeCourse, WithNothingToRetainThePurgeDoesNotWait) {
  hk_option.retain = 0;
  PurgeCourse course;
  FreeSome(course);
  course.At(1001, [] { EXPECT_LE(DirtyMib(), 8u) << "an eighth of the bytes in use"; });
  course.At(10000, [] { EXPECT_LE(DirtyMib(), 4u); });
  course.Run();
}

HK_FRESH_TEST(PurgeCourse, TheWakeupEndsItsSleepOnceASpell) {
  PurgeCourse course;
  void *first = TakeBytes(40 * HK_MIB), *second = TakeBytes(8 * HK_MIB), *third = TakeBytes(16 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  uint32_t word = Word();
  uint64_t wakes = fake_os_wakes();
  course.At(5000, [=] { EXPECT_EQ(Word(), word) << "nothing is due"; });
  course.At(5100, [=] { DropBlock(first); });
  course.At(5101, [=] { DropBlock(second); });
  course.At(5200, [=] {
    EXPECT_EQ(Word(), word + 1);
    EXPECT_EQ(fake_os_wakes(), wakes + 1);
  });
  course.At(20000, [=] {
    EXPECT_EQ(Word(), word + 1);
    EXPECT_LE(DirtyMib(), 4u);
  });
  course.At(20001, [=] { DropBlock(third); });
  course.At(20002, [=] {
    EXPECT_EQ(Word(), word + 2);
    EXPECT_EQ(fake_os_wakes(), wakes + 2);
  });
  course.Run();
  EXPECT_EQ(course.sleeps()[0].for_ms + course.sleeps()[1].for_ms, 4000u) << "with one look at its rights between";
  EXPECT_TRUE(course.HasVisitedAt(4000));
  EXPECT_TRUE(course.HasVisitedAt(5100));
  EXPECT_FALSE(course.HasVisitedAt(5101)) << "it is awake already";
  EXPECT_TRUE(course.HasVisitedAt(20001));
}

HK_FRESH_TEST(PurgeCourse, WhatIsTooLittleDoesNotRing) {
  PurgeCourse course;
  std::vector<void *> blocks = TakeApart(1, 3 * HK_MIB, 64 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  uint32_t word = Word();
  course.At(100, [=] { DropAll(blocks); });
  course.At(10000, [=] { EXPECT_EQ(Word(), word); });
  course.Run();
  EXPECT_EQ(course.sleeps()[0].for_ms + course.sleeps()[1].for_ms, 4000u) << "with one look at its rights between";
  for (size_t i = 2; i < course.sleeps().size(); i++) EXPECT_EQ(course.sleeps()[i].for_ms, 4000u);
}

// Its own look at the system's limit must not lose the wake-up that the look before sent.
HK_FRESH_TEST(PurgeCourse, AWakeupIsNotLostWhereTheSystemIsAskedToo) {
  fake_os_set_memory_limit(HK_TIB, HK_GIB, 0);
  PurgeCourse course;
  FreeSome(course);
  uint64_t questions = 0, wakes = 0;
  course.At(999, [&] {
    questions = fake_os_memory_limit_questions();
    wakes = fake_os_wakes();
  });
  course.At(1001, [&] {
    EXPECT_EQ(fake_os_memory_limit_questions(), questions + 1);
    EXPECT_EQ(fake_os_wakes(), wakes + 1);
  });
  course.Run();
  EXPECT_TRUE(course.HasVisitedAt(1000));
}

// The purge thread's looks at the limit counted as changes of the program's, which never became quiet.
HK_FRESH_TEST(PurgeCourse, AProgramBecomesQuietBelowALimitToo) {
  fake_os_set_memory_limit(HK_TIB, HK_GIB, 0);
  hk_option.mode = HK_PRICE_FAST;
  PurgeCourse course;
  FreeSome(course);
  uint64_t since_ms = 0, questions = 0;
  course.At(10000, [&] {
    questions = fake_os_memory_limit_questions();
    (void)hk_dirty_is_quiet(hk_os_coarse_ms(), &since_ms);
  });
  course.At(16000, [&] {
    uint64_t later_ms;
    (void)hk_dirty_is_quiet(hk_os_coarse_ms(), &later_ms);
    EXPECT_EQ(later_ms, since_ms) << "the program did nothing";
  });
  course.At(20000, [&] {
    EXPECT_GT(fake_os_memory_limit_questions(), questions) << "it was looked at all the time";
    EXPECT_LE(DirtyMib(), 4u);
  });
  course.Run();
}

HK_FRESH_TEST(PurgeCourse, NearALimitLessStays) {
  hk_option.memory_limit = 100 * HK_MIB;
  PurgeCourse course;
  std::vector<void *> blocks = TakeApart(12, 2 * HK_MIB, 7 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(100, [=] { DropAll(blocks); });
  course.At(101, [] { EXPECT_LE(DirtyMib(), 6u) << "half of what 84 MiB leave of 95"; });
  course.Run();
}

HK_FRESH_TEST(PurgeCourse, ALimitThatComesNearMeanwhileIsSeen) {
  fake_os_set_memory_limit(HK_TIB, 200 * HK_MIB, 0);
  hk_option.mode = HK_PRICE_FAST;
  PurgeCourse course;
  FreeSome(course);
  course.At(3000, [] {
    EXPECT_EQ(DirtyMib(), 48u);
    fake_os_set_memory_limit(HK_GIB, HK_GIB, 0);
  });
  course.At(4500, [] { EXPECT_EQ(DirtyMib(), 0u); });
  course.Run();
}

HK_FRESH_TEST(PurgeCourse, WhereTheSystemRefusesNothingIsLostAndItTriesAgain) {
  PurgeCourse course;
  FreeSome(course);
  course.At(1001, [] {
    fake_os_fail_all(fake_os_unmap, true);
    fake_os_fail_all(fake_os_purge, true);
  });
  uint64_t refusals = 0;
  course.At(12000, [&] {
    EXPECT_EQ(DirtyMib(), 48u);
    refusals = fake_os_failures(fake_os_purge);
    EXPECT_GE(refusals, 2u);
    EXPECT_LE(refusals, 12u);
    fake_os_fail_all(fake_os_unmap, false);
    fake_os_fail_all(fake_os_purge, false);
  });
  course.At(20000, [] { EXPECT_LE(DirtyMib(), 4u); });
  course.Run();
  EXPECT_GT(refusals, 0u);
  for (const PurgeCourse::Sleep &sleep : course.sleeps()) {
    if (sleep.from_ms > 3000) EXPECT_GE(sleep.for_ms, 1000u) << sleep.from_ms;
  }
}

// What refuses once only is idle again, whole, and serves the program.
HK_FRESH_TEST(PurgeCourse, WhatTheSystemDidNotTakeServesAgain) {
  PurgeCourse course;
  FreeSome(course);
  fake_os_fail_all(fake_os_unmap, true);
  course.At(10000, [] {
    EXPECT_LE(DirtyMib(), 4u) << "purged, where it is not unmapped";
    size_t mapped_bytes = fake_os_mapped_bytes();
    EXPECT_NE(TakeBytes(48 * HK_MIB), nullptr);
    EXPECT_EQ(fake_os_mapped_bytes(), mapped_bytes);
  });
  course.Run();
}

// Nothing is known, so the first to go goes soon, and the time-out of half the break-even time is waited for by few.
HK_FRESH_TEST(PurgeCourse, ALearnerPurgesByAndByTheFirstTime) {
  PurgeCourse course;
  std::vector<void *> blocks = TakeApart(24, 2 * HK_MIB, 4 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(1000, [=] { DropAll(blocks); });
  course.At(1001, [] { EXPECT_EQ(DirtyMib(), 48u); });
  course.At(1000 + BreakEvenMs() / 8, [] {
    EXPECT_LT(DirtyMib(), 40u);
    EXPECT_GT(DirtyMib(), 20u);
  });
  course.At(1000 + BreakEvenMs() / 2 + 11, [] { EXPECT_LE(DirtyMib(), 12u); });
  course.Run();
}

// A share of a range is no range: it goes when less than half of it should stay.
HK_FRESH_TEST(PurgeCourse, WhatIsOneExtentStaysWholeUntilMostOfItShouldGo) {
  PurgeCourse course;
  FreeSome(course);
  course.At(1000 + BreakEvenMs() / 16, [] { EXPECT_EQ(DirtyMib(), 48u); });
  course.At(1000 + BreakEvenMs() / 2 + 11, [] { EXPECT_LE(DirtyMib(), 4u); });
  course.Run();
}

HK_FRESH_TEST(PurgeCourse, TimeThatStepsBackCountsAsNone) {
  hk_option.learn = hk_learn_off;
  PurgeCourse course;
  PurgeCourse::SetNow(50000);
  std::vector<void *> blocks = TakeApart(1, 48 * HK_MIB, 64 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  course.At(51000, [=] { DropAll(blocks); });
  course.At(51500, [] { PurgeCourse::SetNow(45000); });
  course.At(52000, [] { EXPECT_EQ(DirtyMib(), 48u); });
  course.At(51000 + BreakEvenMs() + 1, [] { EXPECT_LE(DirtyMib(), 4u); });
  course.Run();
  for (const PurgeCourse::Sleep &sleep : course.sleeps()) EXPECT_GE(sleep.for_ms, 10u);
}

// Takes 48 MiB after each of these pauses and frees them at once, as often as that. When the last are freed.
uint64_t Bursts(PurgeCourse &course, unsigned count, const std::vector<uint64_t> &pauses) {
  uint64_t ms = 1000;
  for (unsigned i = 0; i < count; i++) {
    course.At(ms, [] { DropBlock(TakeBytes(48 * HK_MIB)); });
    ms += pauses[i % pauses.size()];
  }
  return ms - pauses[(count - 1) % pauses.size()];
}

// Four short pauses and one that is longer than the break-even time: with knowledge of both, keeping for the longer is
// right.
HK_FRESH_TEST(PurgeCourse, KeepsForLongerWhatComesBackALittleLater) {
  PurgeCourse course;
  (void)TakeBytes(64 * HK_MIB);
  (void)TakeRun(HK_SLAB_BYTES);
  ASSERT_TRUE(PurgeCourse::Start());
  uint64_t break_even_ms = BreakEvenMs(), short_ms = break_even_ms * 9 / 20, long_ms = break_even_ms * 6 / 5;
  uint64_t last_ms = Bursts(course, 300, {short_ms, short_ms, short_ms, short_ms, long_ms});
  StirEvery(course, 1050, last_ms + long_ms, 300);
  course.At(last_ms + 1, [=] { EXPECT_GT(LearnedTimeoutMs(), long_ms); });
  course.At(last_ms + long_ms, [] { EXPECT_EQ(DirtyMib(), 48u); });
  course.Run();
}

HK_FRESH_TEST(PurgeCourse, KeepsForLessWhatIsAwayForLong) {
  PurgeCourse course;
  (void)TakeBytes(64 * HK_MIB);
  (void)TakeRun(HK_SLAB_BYTES);
  ASSERT_TRUE(PurgeCourse::Start());
  uint64_t break_even_ms = BreakEvenMs();
  uint64_t last_ms = Bursts(course, 30, {20 * break_even_ms});
  StirEvery(course, 1050, last_ms + break_even_ms, 300);
  course.At(1000 + 349, [] { EXPECT_EQ(DirtyMib(), 48u) << "at first for the break-even time"; });
  course.At(last_ms + 1, [] { EXPECT_LT(LearnedTimeoutMs(), 300u); });
  course.At(last_ms + 349, [] { EXPECT_LE(DirtyMib(), 8u); });
  course.Run();
}

// An idle heap that has this run of slabs to spare.
void GiveIdleHeap(hk_heap_t *heap, void *run) {
  ASSERT_TRUE(SpareRun(heap, hk_slab_of(run)));
  hk_heap_give_back(heap);
}

HK_FRESH_TEST(PurgeCourse, IdleHeapsAreFlushedWhenItIsQuiet) {
  void *first = TakeRun(HK_MIB), *second = TakeRun(HK_MIB);
  PurgeCourse course;
  hk_heap_t *idle = WithAllRoom(hk_heap_take());
  FreeSome(course); /* at 1,000 ms */
  course.At(500, [=] { GiveIdleHeap(idle, first); });
  course.At(2000, [=] { EXPECT_EQ(idle->spare_slabs, 16u) << "the program is not quiet yet"; });
  course.At(4000, [=] {
    EXPECT_EQ(hk_heap_spare_slabs(idle), 0u);
    EXPECT_FALSE(hk_heap_pool_has_unflushed());
    uint64_t since_ms;
    EXPECT_TRUE(hk_dirty_is_quiet(hk_os_coarse_ms(), &since_ms)) << "a flush is no sign of life";
    EXPECT_EQ(since_ms, fake_os_start_ns / 1000000 + 1000);
    EXPECT_LE(DirtyMib(), 4u) << "the same visit gave back what it had";
    ASSERT_TRUE(hk_heap_take_this(idle));
    GiveIdleHeap(idle, second);
  });
  course.At(8500,
            [=] { EXPECT_EQ(hk_heap_spare_slabs(idle), 0u) << "it became idle in the quiet, which no sum shows"; });
  course.Run();
}

// Not at the next visit of a program in which nothing is due, which is four seconds later.
HK_FRESH_TEST(PurgeCourse, IdleHeapsAreFlushedAsSoonAsItIsQuiet) {
  void *run = TakeRun(HK_MIB);
  PurgeCourse course;
  hk_heap_t *idle = WithAllRoom(hk_heap_take());
  (void)TakeBytes(20 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  PurgeCourse::SetNow(1000);
  Stir();
  GiveIdleHeap(idle, run);
  uint64_t quiet_ms = 1000 + BreakEvenMs() * 3 / 4;
  course.At(quiet_ms - 1, [=] { EXPECT_EQ(idle->spare_slabs, 16u); });
  course.At(quiet_ms + 1, [=] { EXPECT_EQ(hk_heap_spare_slabs(idle), 0u); });
  course.Run();
}

// ---- Remote frees for a thread that sleeps.

// A span of which nothing but its blocks leads to the slab, and a heap to free them from.
struct Handed {
  hk_heap_t *owner = hk_heap_take(), *other = hk_heap_take();
  std::vector<hk_block_t *> blocks = AllocMany(owner, 64, CapacityOf(64));
  hk_slab_t *span = SpanOf(blocks[0]);

  void Send(size_t from, size_t to) const {
    for (size_t i = from; i < to; i++) hk_remote_free(other, span, blocks[i]);
    hk_remote_flush(other);
  }
  bool IsGivenBack() const { return hk_slab_state(span) == hk_slab_free; }
  // Else the purge thread has company for ever.
  void EndThreads() const {
    hk_heap_give_back(owner);
    hk_heap_give_back(other);
  }
};

HK_FRESH_TEST(PurgeCourse, WhatComesHomeToASleepingThreadGoesBack) {
  Handed handed;
  (void)Alloc(handed.owner, 64); /* of another span */
  PurgeCourse course;
  (void)TakeBytes(20 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  uint64_t asleep_ms = hk_dirty_asleep_ms();
  size_t half = handed.blocks.size() / 2;
  course.At(1503, [&] { handed.Send(0, half); });
  course.At(1504, [&] { handed.Send(half, handed.blocks.size()); });
  course.At(1503 + asleep_ms, [&] { EXPECT_FALSE(handed.IsGivenBack()); });
  course.At(1503 + asleep_ms + 2, [&] { EXPECT_TRUE(handed.IsGivenBack()); });
  course.At(5000, [&] { handed.EndThreads(); });
  course.Run();
  EXPECT_TRUE(course.HasVisitedAt(1503)) << "they ring";
  EXPECT_FALSE(course.HasVisitedAt(1504)) << "once is enough";
}

// The purge thread runs in this thread, whose heap it takes.
HK_FRESH_TEST(PurgeCourse, TheHeapOfAThreadThatSleepsIsTaken) {
  fake_os_set_thread_sleeps([](uint64_t) { return true; });
  PurgeCourse course;
  (void)TakeBytes(20 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  uint64_t asleep_ms = hk_dirty_asleep_ms();
  hk_heap_t *heap = nullptr;
  course.At(1000, [&] {
    hk_thread_lease_t lease = hk_thread_enter();
    heap = lease.heap;
    for (int i = 0; i < 8; i++) ASSERT_TRUE(SpareRun(heap, hk_slab_of(TakeRun(HK_SLAB_BYTES))));
    hk_thread_leave(lease);
    ASSERT_EQ(hk_attachment_state(&heap->attachment), hk_attachment_firm);
  });
  uint64_t taken_ms = 1000 + 4000 + 2 * asleep_ms; /* it comes every four seconds, and once more */
  StirEvery(course, 1100, taken_ms, 100);
  course.At(1000 + asleep_ms - 1, [&] { EXPECT_EQ(hk_heap_life(heap), hk_heap_attached); });
  course.At(taken_ms, [&] {
    EXPECT_EQ(hk_heap_life(heap), hk_heap_idle);
    EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP);
    EXPECT_EQ(hk_heap_spare_slabs(heap), 0u);
    course.EndCompany();
  });
  course.Run();
}

HK_FRESH_TEST(PurgeCourse, WhoseThreadIsAwakeKeepsWhatComesHome) {
  Handed handed;
  (void)Alloc(handed.owner, 64);
  PurgeCourse course;
  (void)TakeBytes(20 * HK_MIB);
  ASSERT_TRUE(PurgeCourse::Start());
  uint64_t asleep_ms = hk_dirty_asleep_ms();
  course.At(1503, [&] { handed.Send(0, handed.blocks.size() - 1); });
  course.At(1503 + asleep_ms - 50, [&] {
    (void)Alloc(handed.owner, 2); /* a refill, which collects them */
    EXPECT_FALSE(hk_heap_has_incoming(handed.owner));
    handed.Send(handed.blocks.size() - 1, handed.blocks.size());
  });
  course.At(1503 + 2 * asleep_ms - 60, [&] {
    EXPECT_TRUE(hk_heap_has_incoming(handed.owner));
    EXPECT_FALSE(handed.IsGivenBack()) << "most of its blocks are collected";
    handed.EndThreads();
  });
  course.Run();
}

}  // namespace
