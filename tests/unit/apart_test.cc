// space/apart: how much memory a hardened build may keep apart, and that dirty memory leaves it its room below a limit.
// The sums are the test's own.
#include "fake_os.h"
#include "fresh_test.h"
#include "policy/pressure.h"
#include "unit/dirty_driver.h"

using namespace hk_test;

namespace {

// A limit of the system whose twentieths are whole.
constexpr size_t kLimit = 2000 * HK_MIB;
constexpr size_t kNear = kLimit / HK_PRESSURE_PARTS * HK_PRESSURE_NEAR;
constexpr size_t kFull = kLimit / HK_PRESSURE_PARTS * HK_PRESSURE_FULL;

constexpr size_t kInUse = 400 * HK_MIB;
constexpr size_t kApart = 700 * HK_MIB;

void KeepApart(size_t bytes) { hk_store_relaxed(&hk_apart_bytes, bytes); }

// Sets the sums of a program below the limit, all of whose memory is resident.
void BeginBelowTheLimit(size_t in_use_bytes = kInUse, size_t apart_bytes = kApart) {
  hk_option.retain = HK_TIB;
  hk_purge_wakeup_set_thread(true);
  fake_os_set_memory_limit(kLimit, in_use_bytes + apart_bytes, 0);
  KeepApart(apart_bytes);
  Change(1000, in_use_bytes, 0);
  hk_dirty_look_at_limit(1000);
}

HK_FRESH_TEST(Apart, ItsRoomIsALesserShareWhereMemoryIsDear) {
  SetSums(1200 * HK_MIB, 0);
  EXPECT_EQ(hk_apart_room(), hk_option.retain + 100 * HK_MIB);
  hk_option.mode = HK_PRICE_LEAN;
  EXPECT_EQ(hk_apart_room(), hk_option.retain + 10 * HK_MIB);
  hk_option.retain = 0;
  EXPECT_EQ(hk_apart_room(), 0u);
}

HK_FRESH_TEST(Apart, ItIsNotTheMemoryOfOthersToo) {
  hk_pressure_t pressure = {};
  hk_pressure_view_t view = {
      .now_ms = 1000, .dirty_bytes = 0, .in_use_bytes = kInUse, .apart_bytes = kApart, .own_limit_bytes = 0};
  hk_os_memory_limit_t seen = {kLimit, kInUse + kApart, 0, 0};
  hk_pressure_note(&pressure, &view, &seen);
  SetSums(kInUse, 0);
  KeepApart(kApart);
  EXPECT_FALSE(hk_apart_note_limit(&pressure, &view));
  EXPECT_EQ(hk_apart_room_below_limit(), kNear - kInUse);
  KeepApart(kNear - kInUse);
  EXPECT_FALSE(hk_apart_note_limit(&pressure, &view));
  KeepApart(kNear - kInUse + 1);
  EXPECT_TRUE(hk_apart_note_limit(&pressure, &view));
}

HK_FRESH_TEST(Apart, DirtyMemoryLeavesItItsRoom) {
  BeginBelowTheLimit();
  EXPECT_EQ(Change(2000, kInUse, HK_MIB).most_bytes, kNear - kInUse - kApart);
  KeepApart(kApart + 100 * HK_MIB);
  EXPECT_EQ(Change(3000, kInUse, HK_MIB).most_bytes, kNear - kInUse - kApart - 100 * HK_MIB) << "without a look";
  KeepApart(kNear);
  EXPECT_EQ(Change(4000, kInUse, HK_MIB).most_bytes, 0u);
}

HK_FRESH_TEST(Apart, BelowTheUsersLimitToo) {
  BeginBelowTheLimit();
  fake_os_set_memory_limit(0, 0, 0);
  hk_dirty_look_at_limit(1000);
  hk_option.memory_limit = kLimit;
  EXPECT_EQ(Change(2000, kInUse, HK_MIB).most_bytes, kNear - kInUse - kApart);
}

HK_FRESH_TEST(Apart, ItMakesALimitFelt) {
  BeginBelowTheLimit();
  Change(1001, kInUse, 0);
  EXPECT_TRUE(hk_load_relaxed(&hk_dirty_is_near_limit)) << "above half of it no change is put off";
  KeepApart(100 * HK_MIB);
  Change(1002, kInUse, 0);
  EXPECT_FALSE(hk_load_relaxed(&hk_dirty_is_near_limit));
}

// The next look is due by growth. Below half of the limit half of the memory in use may come before a change is judged.
HK_FRESH_TEST(Apart, ChangesThatArePutOffDoNotPassTheNextLook) {
  constexpr size_t kMuchInUse = 620 * HK_MIB, kLittleApart = 60 * HK_MIB;
  BeginBelowTheLimit(kMuchInUse, kLittleApart);
  size_t growth = (kFull - kMuchInUse - kLittleApart) / HK_PRESSURE_GROWTH_SHARE;
  ASSERT_LT(growth, kMuchInUse / 2);
  EXPECT_FALSE(Change(1001, kMuchInUse, 0).is_limit_look_due);
  EXPECT_FALSE(Change(1001, kMuchInUse + growth - 1, 0).is_limit_look_due);
  EXPECT_TRUE(Change(1001, kMuchInUse + growth, 0).is_limit_look_due) << "in the same ms";
}

HK_FRESH_TEST(Apart, MemoryThatComesApartIsNoLoss) {
  BeginBelowTheLimit();
  size_t growth = (kFull - kInUse - kApart) / HK_PRESSURE_GROWTH_SHARE;
  KeepApart(kApart + kInUse);
  EXPECT_FALSE(Change(1001, 0, 0).is_limit_look_due);
  EXPECT_TRUE(Change(1002, growth, 0).is_limit_look_due);
}

}  // namespace
