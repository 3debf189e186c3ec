// space/dirty: what a visit finds, when a program is quiet, options that come late, learned records, and numbers at
// their ends. The sums are the test's own.
#include <cstring>

#include "fake_os.h"
#include "fresh_test.h"
#include "policy/learn_record.h"
#include "unit/dirty_driver.h"

using namespace hk_test;

namespace {

uint64_t Timeout() {
  hk_learn_t learned = Learned();
  return hk_learn_timeout_ms(&learned);
}
uint64_t BreakEven() {
  hk_learn_t learned = Learned();
  return hk_price_break_even_ms(&learned.price);
}

bool IsQuiet(uint64_t now_ms) {
  uint64_t since_ms;
  return hk_dirty_is_quiet(now_ms, &since_ms);
}

void NoteGivenBack(uint64_t now_ms, hk_purge_cause_t cause, size_t bytes) {
  hk_lock_acquire(hk_lock_space);
  hk_dirty_note_purged_locked(now_ms, cause, bytes);
  hk_lock_release(hk_lock_space);
}

void WantAgain(uint64_t now_ms, size_t bytes) {
  hk_lock_acquire(hk_lock_space);
  hk_dirty_note_purged_locked(now_ms, hk_purge_too_much, bytes);
  hk_dirty_note_touched_locked(&hk_dirty_extents, bytes);
  hk_lock_release(hk_lock_space);
  (void)Look(now_ms);
}

// No thread receives the purge wake-up: no purge thread comes.
HK_FRESH_TEST(Dirty, OneThreadKeepsWhatItTakesAgainUntilItFallsDeeper) {
  Change(1000, 160 * HK_MIB, 0);
  EXPECT_TRUE(Change(1010, 80 * HK_MIB, 80 * HK_MIB).is_too_much);
  SetSums(80 * HK_MIB, 10 * HK_MIB);
  WantAgain(1020, 70 * HK_MIB);
  Change(1020, 160 * HK_MIB, 0);
  EXPECT_FALSE(Change(1030, 80 * HK_MIB, 80 * HK_MIB).is_too_much);
  hk_purge_verdict_t deeper = Change(1040, 0, 80 * HK_MIB);
  EXPECT_TRUE(deeper.is_too_much);
  EXPECT_LE(deeper.keep_bytes, hk_option.retain);
}

HK_FRESH_TEST(Dirty, ALateOptionIsFollowed) {
  Change(1000, HK_MIB, 0);
  EXPECT_FALSE(Learned().is_fixed);
  EXPECT_EQ(Learned().price.ns_per_mib_second, HK_PRICE_BALANCED);
  hk_option.learn = hk_learn_off; /* and the mode is what it was */
  Change(1001, HK_MIB, 0);
  EXPECT_TRUE(Learned().is_fixed);
  hk_option.mode = HK_PRICE_LEAN;
  Change(1002, HK_MIB, 0);
  EXPECT_TRUE(Learned().is_fixed);
  EXPECT_EQ(Learned().price.ns_per_mib_second, HK_PRICE_LEAN);
  hk_learn_t learned = Learned();
  EXPECT_EQ(hk_learn_log_find(&learned.log, 0)->reason, static_cast<uint32_t>(hk_learn_price_changed));
}

HK_FRESH_TEST(Dirty, TheLearnedStateIsThatOfTheOptions) {
  hk_option.learn = hk_learn_frozen;
  EXPECT_TRUE(Learned().is_fixed);
  EXPECT_EQ(Learned().price.ns_per_mib_second, HK_PRICE_BALANCED);
  hk_option.mode = HK_PRICE_FAST;
  EXPECT_EQ(Learned().price.ns_per_mib_second, HK_PRICE_FAST);
}

// Takes 64 MiB after each pause and frees them at once.
void Bursts(unsigned count, uint64_t pause_ms) {
  uint64_t now_ms = 1000;
  for (unsigned i = 0; i < count; i++, now_ms += pause_ms) {
    Change(now_ms, 80 * HK_MIB, 0);
    Change(now_ms, 16 * HK_MIB, 64 * HK_MIB);
  }
}

HK_FRESH_TEST(Dirty, LearnsFromWhatChanges) {
  Bursts(20, 40000);
  EXPECT_LT(Timeout(), BreakEven() / 8);
  EXPECT_GT(Learned().epoch, 5u);
}

void ExpectNothingLearned() {
  Bursts(20, 40000);
  EXPECT_EQ(Timeout(), BreakEven());
  EXPECT_EQ(Learned().epoch, 0u);
}
HK_FRESH_TEST(Dirty, LearnsNothingWhereLearningIsOff) {
  hk_option.learn = hk_learn_off;
  ExpectNothingLearned();
}
HK_FRESH_TEST(Dirty, LearnsNothingWhereLearningIsFrozen) {
  hk_option.learn = hk_learn_frozen;
  ExpectNothingLearned();
}

HK_FRESH_TEST(Dirty, GoesOnFromAnEarlierRun) {
  hk_learn_t earlier;
  ASSERT_TRUE(hk_learn_init(&earlier, 0, HK_PRICE_LEAN));
  hk_learn_lead(&earlier, hk_learn_found_better, hk_learn_state_learning, 2);
  unsigned char record[HK_LEARN_RECORD_BYTES];
  hk_learn_export(&earlier, record);
  EXPECT_EQ(hk_dirty_import_learned(record, sizeof record), hk_learn_record_other_price);
  hk_option.mode = HK_PRICE_LEAN;
  hk_option.learn = hk_learn_frozen;
  EXPECT_EQ(hk_dirty_import_learned(record, sizeof record - 1), hk_learn_record_damaged);
  EXPECT_EQ(Learned().leader, HK_PRICE_BREAK_EVEN);
  EXPECT_EQ(hk_dirty_import_learned(record, sizeof record), hk_learn_record_good);
  EXPECT_EQ(Learned().leader, 2u);
  EXPECT_TRUE(Learned().is_fixed);
  Bursts(20, 4000);
  EXPECT_EQ(Learned().leader, 2u) << "the frozen leader stays";
}

HK_FRESH_TEST(Dirty, AProgramThatDoesNothingIsQuiet) {
  Change(5000, HK_GIB, 0);
  EXPECT_EQ(QuietSince(5000), 5000u);
  EXPECT_FALSE(IsQuiet(5000));
  EXPECT_FALSE(IsQuiet(5000 + BreakEven() * 3 / 4 - 1));
  EXPECT_TRUE(IsQuiet(5000 + BreakEven() * 3 / 4));
  EXPECT_FALSE(IsQuiet(0)) << "time that steps back";
  Change(9000, HK_GIB, 0);
  EXPECT_FALSE(IsQuiet(9001));
  hk_dirty_stay_quiet(5000);
  EXPECT_EQ(QuietSince(9001), 5000u);
  EXPECT_TRUE(IsQuiet(9001));
}

// A thread that read the clock and waited for the lock made the program look quiet.
HK_FRESH_TEST(Dirty, AVisitWithAnEarlierTimeIsNoQuiet) {
  Change(9000, HK_GIB, 0);
  Change(5000, HK_GIB, 0);
  EXPECT_EQ(QuietSince(9001), 9000u);
  EXPECT_FALSE(IsQuiet(9001));
}

HK_FRESH_TEST(Dirty, AVisitIsNoChange) {
  hk_purge_wakeup_set_thread(true);
  Change(5000, HK_GIB, 32 * HK_MIB);
  (void)Visit(6000);
  EXPECT_EQ(QuietSince(6000), 5000u);
}

HK_FRESH_TEST(Dirty, AVisitWaitsForWhatIsDue) {
  hk_option.learn = hk_learn_off;
  hk_purge_wakeup_set_thread(true);
  EXPECT_EQ(Visit(1000).wait_ms, 4000u) << "nothing is dirty";
  Change(1000, 200 * HK_MIB, 0);
  Change(1100, 100 * HK_MIB, 100 * HK_MIB);
  Visited visited = Visit(1100);
  EXPECT_FALSE(visited.verdict.is_too_much);
  EXPECT_EQ(visited.wait_ms, 1000u) << "no longer, while there is something";
  uint64_t quiet_ms = 1100 + BreakEven() * 3 / 4;
  EXPECT_EQ(Visit(quiet_ms - 500).wait_ms, 500u);
  EXPECT_EQ(Visit(quiet_ms - 1).wait_ms, 10u) << "and no more often";
  visited = Visit(quiet_ms);
  EXPECT_TRUE(visited.verdict.is_too_much);
  EXPECT_EQ(visited.verdict.keep_bytes, 100 * HK_MIB / 16 * 3 / 4);
  EXPECT_EQ(visited.wait_ms, 4000u) << "when that is gone nothing is due";
}

HK_FRESH_TEST(Dirty, OfAProgramThatHasLittleAMebibyteMayStayOrLessIfTheOptionSaysSo) {
  hk_purge_wakeup_set_thread(true);
  Change(1000, 0, 64 * HK_MIB);
  EXPECT_EQ(Visit(60000).verdict.keep_bytes, HK_MIB * 3 / 4) << "a quarter less, so that it is not there again at once";
  hk_option.retain = 64 * HK_KIB;
  EXPECT_EQ(Visit(60000).verdict.keep_bytes, 48 * HK_KIB);
}

HK_FRESH_TEST(Dirty, AVisitThatFindsNothingExpectsTheWakeup) {
  hk_purge_wakeup_set_thread(true);
  Change(1000, 160 * HK_MIB, 10 * HK_MIB);
  EXPECT_EQ(Visit(1000).wait_ms, 4000u);
  EXPECT_FALSE(Change(1001, 160 * HK_MIB, 10 * HK_MIB).is_wakeup_sent) << "a sixteenth may stay";
  EXPECT_TRUE(Change(1002, 160 * HK_MIB, 10 * HK_MIB + 1).is_wakeup_sent);
  EXPECT_FALSE(Change(1003, 160 * HK_MIB, 100 * HK_MIB).is_wakeup_sent) << "it is awake";
}

// 100 MiB are freed at 1001, and too old after the break-even time.
void FreeMuch() {
  hk_option.learn = hk_learn_off;
  hk_purge_wakeup_set_thread(true);
  Change(1000, 200 * HK_MIB, 0);
  Change(1001, 100 * HK_MIB, 100 * HK_MIB);
}

HK_FRESH_TEST(Dirty, WhatIsTooOldIsLeftToThePurgeThread) {
  FreeMuch();
  uint64_t old_ms = 1001 + BreakEven() + 1;
  Change(old_ms - 100, 70 * HK_MIB, 130 * HK_MIB);
  EXPECT_EQ(Visit(old_ms - 100).wait_ms, 100u);
  hk_purge_verdict_t verdict = Change(old_ms, 69 * HK_MIB, 131 * HK_MIB);
  EXPECT_EQ(verdict.cause, hk_purge_too_old);
  EXPECT_FALSE(verdict.is_too_much);
  EXPECT_FALSE(verdict.is_wakeup_sent) << "it knows when it is due";
  EXPECT_TRUE(Visit(old_ms).verdict.is_too_much);
}

HK_FRESH_TEST(Dirty, WithMuchMoreMappedTooOldMemoryIsPurged) {
  FreeMuch();
  uint64_t old_ms = 1001 + BreakEven() + 1;
  Change(old_ms - 100, 70 * HK_MIB, 130 * HK_MIB);
  (void)Visit(old_ms - 100);
  EXPECT_FALSE(Change(old_ms, 75 * HK_MIB, 153 * HK_MIB).is_too_much) << "by an eighth of it";
  hk_purge_verdict_t verdict = Change(old_ms, 75 * HK_MIB, 154 * HK_MIB);
  EXPECT_EQ(verdict.cause, hk_purge_too_old);
  EXPECT_TRUE(verdict.is_too_much);
}

// 30 MiB are young, and six are a sixteenth of the bytes in use.
HK_FRESH_TEST(Dirty, ItIsABatchBeforeWhatIsTooOldGoes) {
  FreeMuch();
  uint64_t old_ms = 1001 + BreakEven() + 1;
  Change(old_ms - 100, 70 * HK_MIB, 130 * HK_MIB);
  Change(old_ms - 1, 96 * HK_MIB, 10 * HK_MIB);
  Change(old_ms - 1, 66 * HK_MIB, 40 * HK_MIB);
  size_t allowed = 34 * HK_MIB + 66 * HK_MIB / 16;
  Change(old_ms, 66 * HK_MIB, allowed + 2 * HK_MIB);
  EXPECT_FALSE(Visit(old_ms).verdict.is_too_much);
  Change(old_ms, 66 * HK_MIB, allowed + 2 * HK_MIB + 1);
  hk_purge_verdict_t verdict = Visit(old_ms).verdict;
  EXPECT_TRUE(verdict.is_too_much);
  EXPECT_EQ(verdict.keep_bytes, allowed) << "and nothing younger goes with it";
}

// The mode's break-even time is 18 ms, and the purge thread has come at 1002 and means to come in a second.
void MakeOldSoon() {
  FreeMuch();
  Change(1002, 100 * HK_MIB, 20 * HK_MIB);
  ASSERT_GT(Visit(1002).wait_ms, 100u);
  hk_option.mode = HK_PRICE_MAX;
  hk_option.retain = HK_MIB;
}

HK_FRESH_TEST(Dirty, ThePurgeThreadIsCalledWhenMoreIsTooOldThanItLeft) {
  MakeOldSoon();
  EXPECT_FALSE(Change(1030, 100 * HK_MIB, 15 * HK_MIB).is_wakeup_sent) << "less than it left";
  EXPECT_FALSE(Change(1031, 20 * HK_MIB, 80 * HK_MIB).is_wakeup_sent) << "memory freed just now is not too old";
  hk_purge_verdict_t verdict = Change(1060, 20 * HK_MIB, 80 * HK_MIB);
  EXPECT_FALSE(verdict.is_too_much);
  EXPECT_TRUE(verdict.is_wakeup_sent);
  EXPECT_FALSE(Change(1061, 20 * HK_MIB, 80 * HK_MIB).is_wakeup_sent) << "once";
}

// Memory that the system refuses to purge would wake it again and again.
HK_FRESH_TEST(Dirty, ThePurgeThreadIsNotCalledRightAfterItsVisit) {
  FreeMuch();
  Change(1050, 100 * HK_MIB, 20 * HK_MIB);
  ASSERT_GT(Visit(1050).wait_ms, 100u);
  hk_option.mode = HK_PRICE_MAX;
  hk_option.retain = HK_MIB;
  EXPECT_FALSE(Change(1059, 99 * HK_MIB, 21 * HK_MIB).is_wakeup_sent);
  EXPECT_TRUE(Change(1060, 99 * HK_MIB, 21 * HK_MIB).is_wakeup_sent);
}

// Maps dirty memory beside the 100 MiB in use, which was never in use itself.
void MapBeside(size_t bytes) {
  hk_option.learn = hk_learn_off;
  hk_purge_wakeup_set_thread(true);
  Change(1000, 100 * HK_MIB, 0);
  Change(1001, 100 * HK_MIB, bytes);
}

HK_FRESH_TEST(Dirty, WhatDoesNotFitStaysForAWindow) {
  MapBeside(20 * HK_MIB);
  EXPECT_FALSE(Visit(1001).verdict.is_too_much);
  uint64_t last_ms = 1000 + BreakEven();
  Change(last_ms - 1, 100 * HK_MIB, 20 * HK_MIB);
  EXPECT_FALSE(Visit(last_ms - 1).verdict.is_too_much);
  for (uint64_t ms = last_ms; ms <= last_ms + BreakEven(); ms += 100) Change(ms, 100 * HK_MIB, 20 * HK_MIB);
  EXPECT_TRUE(Visit(last_ms + BreakEven()).verdict.is_too_much);
}

HK_FRESH_TEST(Dirty, OfWhatDoesNotFitNoMoreStaysThanAHalf) {
  MapBeside(60 * HK_MIB);
  hk_purge_verdict_t verdict = Visit(1001).verdict;
  EXPECT_TRUE(verdict.is_too_much);
  EXPECT_EQ(verdict.cause, hk_purge_too_much) << "whatever its age";
  EXPECT_EQ(verdict.keep_bytes, 48 * HK_MIB) << "a batch less";
}

HK_FRESH_TEST(Dirty, WhatGoesByItsAgeTakesNothingOfWhatDoesNotFit) {
  hk_option.learn = hk_learn_off;
  hk_purge_wakeup_set_thread(true);
  Change(1000, 100 * HK_MIB, 0);
  Change(1001, 80 * HK_MIB, 20 * HK_MIB);
  Change(2500, 60 * HK_MIB, 50 * HK_MIB);
  uint64_t old_ms = 1001 + BreakEven() + 1;
  Change(old_ms, 60 * HK_MIB, 50 * HK_MIB);
  hk_purge_verdict_t verdict = Visit(old_ms).verdict;
  EXPECT_TRUE(verdict.is_too_much);
  EXPECT_EQ(verdict.keep_bytes, 30 * HK_MIB) << "the 20 of the second time, and 10";
  NoteGivenBack(old_ms, hk_purge_too_old, 24 * HK_MIB);
  SetSums(60 * HK_MIB, 26 * HK_MIB);
  verdict = Visit(old_ms).verdict;
  EXPECT_FALSE(verdict.is_too_much);
  EXPECT_EQ(verdict.keep_bytes, 26 * HK_MIB) << "four went beyond the 20";
}

HK_FRESH_TEST(Dirty, NorDoesWhatAQuietProgramGaveBackOrWasAskedFor) {
  hk_option.learn = hk_learn_off;
  hk_purge_wakeup_set_thread(true);
  uint64_t now_ms = 1000;
  for (hk_purge_cause_t cause : {hk_purge_too_much, hk_purge_limited, hk_purge_requested}) {
    Change(now_ms, 100 * HK_MIB, 0);
    Change(now_ms + 1, 40 * HK_MIB, 60 * HK_MIB);
    now_ms += BreakEven() + 2;
    NoteGivenBack(now_ms, cause, 60 * HK_MIB);
    Change(now_ms, 40 * HK_MIB, 20 * HK_MIB);
    EXPECT_FALSE(Visit(now_ms).verdict.is_too_much) << "these are new";
  }
}

HK_FRESH_TEST(Dirty, WithoutAPurgeThreadTheLimitIsThatOfOneThread) {
  Change(1000, 0, 0);
  EXPECT_FALSE(Change(1000, 0, 8 * HK_MIB).is_too_much);
  EXPECT_TRUE(Change(1000, 0, 8 * HK_MIB + 1).is_too_much);
  EXPECT_TRUE(Visit(1000).verdict.is_too_much);
}

HK_FRESH_TEST(Dirty, NumbersAtTheirEnds) {
  hk_purge_wakeup_set_thread(true);
  for (size_t in_use : {size_t{0}, SIZE_MAX}) {
    for (size_t retain : {size_t{0}, SIZE_MAX}) {
      hk_option.retain = retain;
      for (uint64_t now_ms : {uint64_t{0}, UINT64_MAX, uint64_t{1}}) {
        hk_purge_verdict_t verdict = Change(now_ms, in_use, 0);
        EXPECT_FALSE(verdict.is_too_much);
        Visited visited = Visit(now_ms);
        EXPECT_FALSE(visited.verdict.is_too_much);
        EXPECT_EQ(visited.wait_ms, 4000u);
      }
    }
  }
  hk_option.retain = SIZE_MAX;
  EXPECT_FALSE(Change(UINT64_MAX, 0, SIZE_MAX).is_too_much);
  hk_option.retain = 0;
  EXPECT_TRUE(Change(UINT64_MAX, 0, SIZE_MAX).is_too_much);
}

HK_FRESH_TEST(Dirty, AllThatMayStayIsNeverMoreThanASize) {
  hk_option.retain = 1;
  hk_option.learn = hk_learn_off; /* one time-out for all */
  hk_purge_wakeup_set_thread(true);
  Change(1000, SIZE_MAX, 0);
  /* Young: all but a byte less than a half; and a sixteenth of the bytes in use on top of it. */
  hk_purge_verdict_t verdict = Change(1000, SIZE_MAX / 2, SIZE_MAX / 2 + 1);
  EXPECT_FALSE(verdict.is_too_much);
  verdict = Change(1001, HK_GIB, SIZE_MAX - HK_GIB);
  EXPECT_FALSE(verdict.is_too_much);
}

}  // namespace
