// space/dirty: changes that are put off and noted as one, and those that are judged at once.
#include "fake_os.h"
#include "fresh_test.h"
#include "unit/dirty_driver.h"

using namespace hk_test;

namespace {

// The segments of the learner's levels say how much is dirty, and since when.
HK_FRESH_TEST(DirtyPutOff, SmallChangesWithinOneMsAreNotedAsTheLastOfThem) {
  Change(1000, 20 * HK_MIB, 0);
  Change(1000, 18 * HK_MIB, 2 * HK_MIB);
  Change(1000, 19 * HK_MIB, HK_MIB);
  hk_learn_t learned = Learned();
  EXPECT_EQ(hk_level_dirty_bytes(&learned.level), HK_MIB) << "as the last one left it";
  Change(1000, 20 * HK_MIB, 0);
  Change(5000, 17 * HK_MIB, 3 * HK_MIB);
  EXPECT_EQ(Learned().level.segment[0].since_ms, 5000u) << "and it had risen again before";
}

HK_FRESH_TEST(DirtyPutOff, AChangeThatIsNotedLaterKeepsItsTime) {
  Change(1000, 20 * HK_MIB, 0);
  Change(1000, 18 * HK_MIB, 2 * HK_MIB);
  Change(5000, 17 * HK_MIB, 3 * HK_MIB);
  hk_learn_t learned = Learned();
  ASSERT_EQ(learned.level.count, 2u);
  EXPECT_EQ(learned.level.segment[0].since_ms, 1000u);
  EXPECT_EQ(learned.level.segment[1].since_ms, 5000u);
}

// The purge thread sleeps, and ten MiB that are dirty are not worth a visit.
HK_FRESH_TEST(DirtyPutOff, AChangeThatWakesThePurgeThreadIsNotPutOff) {
  hk_purge_wakeup_set_thread(true);
  Change(1000, 160 * HK_MIB, 0);
  (void)Visit(1000);
  EXPECT_TRUE(Change(1000, 160 * HK_MIB, 10 * HK_MIB + HK_SLAB_BYTES).is_wakeup_sent) << "in the ms of the visit";
  (void)Visit(1001);
  Change(1001, 160 * HK_MIB, 0);
  (void)Visit(1002);
  EXPECT_FALSE(Change(1003, 160 * HK_MIB, 10 * HK_MIB - HK_SLAB_BYTES).is_wakeup_sent);
  EXPECT_FALSE(Change(1003, 160 * HK_MIB, 10 * HK_MIB).is_wakeup_sent);
  EXPECT_TRUE(Change(1003, 160 * HK_MIB, 10 * HK_MIB + HK_SLAB_BYTES).is_wakeup_sent);
}

HK_FRESH_TEST(DirtyPutOff, AChangeThatIsPutOffIsActivity) {
  hk_purge_wakeup_set_thread(true);
  Change(5000, HK_GIB, 0);
  hk_dirty_stay_quiet(1000);
  ASSERT_EQ(QuietSince(5000), 1000u);
  Change(5000, HK_GIB, HK_MIB);
  EXPECT_EQ(QuietSince(5000), 5000u);
}

HK_FRESH_TEST(DirtyPutOff, EachChangeIsJudgedWhereMoreIsDirtyThanMayBe) {
  hk_option.retain = 0;
  Change(1000, 120 * HK_MIB, 0);
  EXPECT_FALSE(Change(1000, 119 * HK_MIB, HK_MIB).is_too_much);
  EXPECT_FALSE(Change(1000, 119 * HK_MIB, 119 * HK_MIB / 12).is_too_much) << "a share of what is in use may be";
  EXPECT_TRUE(Change(1000, 119 * HK_MIB, 119 * HK_MIB / 12 + 1).is_too_much);
  EXPECT_TRUE(Change(1000, 119 * HK_MIB, 119 * HK_MIB / 12 + 1).is_too_much) << "until it is purged";
}

HK_FRESH_TEST(DirtyPutOff, AMemoryLimitThatComesLateIsFollowed) {
  Change(1000, 60 * HK_MIB, 6 * HK_MIB);
  EXPECT_FALSE(Change(1000, 60 * HK_MIB, 7 * HK_MIB).is_too_much);
  hk_option.memory_limit = 64 * HK_MIB;
  hk_purge_verdict_t verdict = Change(1000, 60 * HK_MIB, 7 * HK_MIB);
  EXPECT_TRUE(verdict.is_too_much);
  EXPECT_EQ(verdict.cause, hk_purge_limited);
}

// The system's limit is seen by the look that follows the question, in the same ms and with the same sums.
HK_FRESH_TEST(DirtyPutOff, TheSystemsLimitIsFollowedAtOnce) {
  fake_os_set_memory_limit(64 * HK_MIB, 62 * HK_MIB, 0);
  EXPECT_TRUE(Change(1000, 62 * HK_MIB, 0).is_limit_look_due);
  hk_dirty_look_at_limit(1000);
  (void)Look(1000);
  EXPECT_TRUE(hk_load_relaxed(&hk_dirty_is_near_limit));
}

// 1 MiB is dirty, is in use, and is dirty again within the ms of a look. The learner takes it for dirty all the time
// when both changes were put off.
bool ArePutOff(uint64_t now_ms, size_t in_use_bytes) {
  Change(now_ms, in_use_bytes, 0);
  Change(now_ms + 1, in_use_bytes - HK_MIB, HK_MIB);
  Change(now_ms + 2, in_use_bytes - HK_MIB, HK_MIB);
  Change(now_ms + 2, in_use_bytes, 0);
  Change(now_ms + 2, in_use_bytes - HK_MIB, HK_MIB);
  uint64_t since_ms = Learned().level.segment[0].since_ms;
  EXPECT_TRUE(since_ms == now_ms + 1 || since_ms == now_ms + 2);
  return since_ms == now_ms + 1;
}

HK_FRESH_TEST(DirtyPutOff, ALimitIsNoHindranceBelowHalfOfIt) {
  EXPECT_TRUE(ArePutOff(1000, 60 * HK_MIB)) << "no limit";
  hk_option.memory_limit = 200 * HK_MIB;
  EXPECT_TRUE(ArePutOff(2000, 60 * HK_MIB));
  EXPECT_TRUE(ArePutOff(3000, 91 * HK_MIB));
  EXPECT_FALSE(ArePutOff(4000, 93 * HK_MIB)) << "8 MiB more would be half of the limit";
  EXPECT_FALSE(ArePutOff(5000, 170 * HK_MIB));
}

HK_FRESH_TEST(DirtyPutOff, BesideLazilyPurgedMemoryALimitIsAHindrance) {
  hk_store_relaxed(&hk_dirty_extents.lazy_bytes, HK_MIB);
  EXPECT_TRUE(ArePutOff(1000, 60 * HK_MIB)) << "no limit";
  hk_option.memory_limit = 200 * HK_MIB;
  EXPECT_FALSE(ArePutOff(2000, 60 * HK_MIB));
}

HK_FRESH_TEST(DirtyPutOff, ALimitOfTheSystemIsNoHindranceBelowHalfOfIt) {
  fake_os_set_memory_limit(400 * HK_MIB, 100 * HK_MIB, 0);
  EXPECT_TRUE(Change(1000, 60 * HK_MIB, 0).is_limit_look_due);
  hk_dirty_look_at_limit(1000);
  EXPECT_TRUE(ArePutOff(1001, 60 * HK_MIB));
  EXPECT_FALSE(ArePutOff(1010, 160 * HK_MIB)) << "others have 40 MiB";
}

HK_FRESH_TEST(DirtyPutOff, NothingIsPutOffWhenTheLimitHasJustBecomeKnown) {
  fake_os_set_memory_limit(64 * HK_MIB, 62 * HK_MIB, 0);
  Change(1000, 4 * HK_MIB, 0);
  hk_dirty_look_at_limit(1000);
  (void)Look(1000);
  EXPECT_TRUE(hk_load_relaxed(&hk_dirty_is_near_limit));
}

// The next look at the system is due when a quarter of the room below 19 twentieths of the limit is used: at 20.2 MiB.
HK_FRESH_TEST(DirtyPutOff, AGrowthThatTheSystemIsToSeeIsNotPutOff) {
  fake_os_set_memory_limit(64 * HK_MIB, 20 * HK_MIB, 0);
  EXPECT_TRUE(Change(1000, 10 * HK_MIB, 0).is_limit_look_due);
  hk_dirty_look_at_limit(1000);
  EXPECT_FALSE(Change(1001, 19 * HK_MIB, 0).is_limit_look_due);
  EXPECT_FALSE(Change(1001, 20 * HK_MIB, 0).is_limit_look_due);
  EXPECT_TRUE(Change(1001, 21 * HK_MIB, 0).is_limit_look_due);
}

// Needed and dirty memory stay below 160 MiB, four fifths of the limit. The option allows more than that.
HK_FRESH_TEST(DirtyPutOff, EachChangeIsJudgedWhereALimitAllowsNoMoreDirtyMemory) {
  hk_option.memory_limit = 200 * HK_MIB;
  hk_option.retain = HK_GIB;
  EXPECT_FALSE(Change(1000, 96 * HK_MIB, 61 * HK_MIB).is_too_much);
  hk_dirty_look_at_limit(1000); /* the first look asks for it; the system has no limit */
  EXPECT_FALSE(Look(1000).is_too_much);
  EXPECT_FALSE(Change(1000, 97 * HK_MIB, 62 * HK_MIB).is_too_much);
  hk_purge_verdict_t verdict = Change(1000, 97 * HK_MIB, 64 * HK_MIB);
  EXPECT_TRUE(verdict.is_too_much) << "64 MiB might be dirty beside 96, as at the first look";
  EXPECT_EQ(verdict.cause, hk_purge_limited);
}

HK_FRESH_TEST(DirtyPutOff, APurgeThreadIsWantedAtSixteenMebibytes) {
  Change(1000, 15 * HK_MIB, 0);
  EXPECT_FALSE(hk_load_relaxed(&hk_purge_wakeup_is_thread_due));
  Change(1000, 15 * HK_MIB, HK_MIB);
  EXPECT_TRUE(hk_load_relaxed(&hk_purge_wakeup_is_thread_due));
}

}  // namespace
