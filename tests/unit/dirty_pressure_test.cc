// space/dirty near a memory limit, over the fake machine: dirty memory goes as policy/pressure says, and the system is
// asked seldom and without a lock.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "fake_os.h"
#include "fresh_test.h"
#include "os/lock.h"
#include "policy/pressure.h"
#include "unit/core_parts.h"

namespace {

// A limit whose twentieths are whole.
constexpr size_t kLimit = 200 * HK_MIB;
constexpr size_t kNear = kLimit / HK_PRESSURE_PARTS * HK_PRESSURE_NEAR;
constexpr size_t kFull = kLimit / HK_PRESSURE_PARTS * HK_PRESSURE_FULL;

bool is_zero;

void *Alloc(size_t bytes) {
  void *block = hk_large_alloc(bytes, HK_BLOCK_ALIGNMENT, &is_zero);
  EXPECT_NE(block, nullptr);
  return block;
}
void Free(void *block) { EXPECT_TRUE(hk_large_free(hk_slab_of(block), block)); }
size_t DirtyBytes() { return hk_large_usage().dirty_bytes; }
uint64_t Count(hk_stat_id_t id) { return hk_load_relaxed(&hk_stat_process.value[id]); }
uint64_t Questions() { return fake_os_memory_limit_questions(); }
void RetainEverything() { hk_option.retain = HK_TIB; }

HK_FRESH_TEST(PressureInSpace, WithoutALimitTheSystemIsAskedOnce) {
  RetainEverything();
  void *small = Alloc(2 * HK_MIB);
  EXPECT_EQ(Questions(), 0u);
  for (int i = 0; i < 100; i++) {
    Free(Alloc(64 * HK_MIB));
    fake_os_advance(1000000000);
  }
  EXPECT_EQ(Questions(), 1u);
  EXPECT_EQ(DirtyBytes(), 64 * HK_MIB);
  EXPECT_EQ(Count(hk_stat_near_limit), 0u);
  Free(small);
}

HK_FRESH_TEST(PressureInSpace, NearTheLimitIdleMemoryIsGivenBack) {
  RetainEverything();
  fake_os_set_memory_limit(kLimit, 40 * HK_MIB, 0);
  Free(Alloc(40 * HK_MIB));
  EXPECT_EQ(DirtyBytes(), 40 * HK_MIB);
  EXPECT_EQ(Count(hk_stat_near_limit), 0u);
  fake_os_advance(1000000000);
  fake_os_set_memory_limit(kLimit, kFull, 0);
  void *block = Alloc(2 * HK_MIB);
  EXPECT_EQ(DirtyBytes(), 0u) << "as soon as it is seen";
  Free(block);
  EXPECT_EQ(DirtyBytes(), 0u);
  EXPECT_GT(Count(hk_stat_near_limit), 0u);
  EXPECT_EQ(Count(hk_stat_purged), 40 * HK_MIB);
}

HK_FRESH_TEST(PressureInSpace, ABurstMakesRoomBeforeItIsTouched) {
  RetainEverything();
  fake_os_set_memory_limit(kLimit, 100 * HK_MIB, 0);
  void *kept = Alloc(20 * HK_MIB); /* a new mapping, not from dirty memory */
  void *left = Alloc(60 * HK_MIB);
  Free(left);
  EXPECT_EQ(DirtyBytes(), 60 * HK_MIB);
  uint64_t before = Questions();
  void *burst = Alloc(150 * HK_MIB);
  EXPECT_EQ(DirtyBytes(), 0u) << "no time has passed";
  EXPECT_GT(Questions(), before);
  Free(burst);
  Free(kept);
}

// Whether the allocations since the last call made a purge of heaps due.
bool IsHeapPurgeDue() {
  bool is_due = hk_load_relaxed(&hk_dirty_is_heap_purge_due);
  hk_store_relaxed(&hk_dirty_is_heap_purge_due, false);
  return is_due;
}

HK_FRESH_TEST(PressureInSpace, APurgeOfHeapsIsDueAsUseGrowsBeyondHalfOfALimit) {
  hk_option.memory_limit = kLimit;
  Alloc(90 * HK_MIB);
  EXPECT_FALSE(IsHeapPurgeDue());
  Alloc(20 * HK_MIB);
  EXPECT_TRUE(IsHeapPurgeDue());
  fake_os_advance(1000000);
  Alloc(2 * HK_MIB);
  EXPECT_FALSE(IsHeapPurgeDue()) << "it is less than a 64th of the limit";
  Alloc(20 * HK_MIB);
  EXPECT_TRUE(IsHeapPurgeDue());
  Alloc(20 * HK_MIB);
  EXPECT_FALSE(IsHeapPurgeDue()) << "no time has passed";
}

HK_FRESH_TEST(PressureInSpace, UseThatGoesUpAndDownCostsNoHeaps) {
  hk_option.memory_limit = kLimit;
  Alloc(110 * HK_MIB);
  EXPECT_TRUE(IsHeapPurgeDue());
  fake_os_advance(1000000);
  Free(Alloc(30 * HK_MIB));
  EXPECT_TRUE(IsHeapPurgeDue());
  for (int i = 0; i < 10; i++) {
    fake_os_advance(1000000);
    Free(Alloc(30 * HK_MIB));
    EXPECT_FALSE(IsHeapPurgeDue()) << i;
  }
}

HK_FRESH_TEST(PressureInSpace, TheSystemIsAskedNoMoreThanTenTimesASecond) {
  fake_os_set_memory_limit(HK_GIB, 10 * HK_MIB, 0);
  void *held = Alloc(8 * HK_MIB);
  for (int i = 0; i < 1000; i++) {
    Free(Alloc(2 * HK_MIB));
    fake_os_advance(1000000);
  }
  EXPECT_GE(Questions(), 9u);
  EXPECT_LE(Questions(), 12u);
  Free(held);
}

void TakeSpaceLock() {
  hk_lock_acquire(hk_lock_space); /* waits for ever when the caller holds it */
  hk_lock_release(hk_lock_space);
}

HK_FRESH_TEST(PressureInSpace, NoLockIsHeldWhileTheSystemIsAsked) {
  ASSERT_TRUE(hk_lock_init([] {}));
  fake_os_set_memory_limit(kLimit, 100 * HK_MIB, 0);
  fake_os_set_memory_limit_hook(TakeSpaceLock);
  for (int i = 0; i < 10; i++) {
    Free(Alloc(64 * HK_MIB));
    fake_os_advance(100000000);
  }
  hk_slab_t *slabs = hk_superslab_acquire(1, 1, hk_from_bottom);
  hk_superslab_release(slabs, 1);
  EXPECT_GE(Questions(), 10u);
}

HK_FRESH_TEST(PressureInSpace, AnAnswerThatIsNotToBeHadChangesNothing) {
  RetainEverything();
  fake_os_set_memory_limit(kLimit, kFull, 0);
  void *held = Alloc(8 * HK_MIB);
  fake_os_hide_memory_limit(true);
  for (int i = 0; i < 5; i++) {
    fake_os_advance(1000000000);
    Free(Alloc(2 * HK_MIB));
    EXPECT_EQ(DirtyBytes(), 0u) << "the last look holds";
  }
  fake_os_hide_memory_limit(false);
  fake_os_set_memory_limit(kLimit, 20 * HK_MIB, 0);
  fake_os_advance(1000000000);
  Free(Alloc(2 * HK_MIB));
  EXPECT_EQ(DirtyBytes(), 2 * HK_MIB);
  Free(held);
}

HK_FRESH_TEST(PressureInSpace, SlabsThatAreIdleGoToo) {
  RetainEverything();
  fake_os_set_memory_limit(kLimit, 100 * HK_MIB, 0);
  hk_slab_t *runs[16];
  for (hk_slab_t *&run : runs) run = hk_superslab_acquire(16, 1, hk_from_bottom);
  for (hk_slab_t *run : runs) hk_superslab_release(run, 16);
  EXPECT_EQ(hk_superslab_usage().dirty_bytes, 16 * HK_MIB);
  fake_os_advance(1000000000);
  fake_os_set_memory_limit(kLimit, kFull, 0);
  hk_superslab_release(hk_superslab_acquire(1, 1, hk_from_bottom), 1);
  EXPECT_EQ(hk_superslab_usage().dirty_bytes, 0u);
}

HK_FRESH_TEST(PressureInSpace, TheOptionDoesTheSame) {
  RetainEverything();
  hk_option.memory_limit = kLimit;
  void *held = Alloc(100 * HK_MIB);
  void *more[4];
  for (void *&block : more) block = Alloc(30 * HK_MIB);
  for (void *block : more) Free(block);
  EXPECT_LE(DirtyBytes(), kNear - 100 * HK_MIB);
  EXPECT_GT(DirtyBytes(), kNear - 100 * HK_MIB - 31 * HK_MIB) << "what may stay does";
  void *rest = Alloc(90 * HK_MIB);
  EXPECT_EQ(DirtyBytes(), 0u);
  void *beyond = Alloc(HK_GIB); /* no request fails because of it */
  for (void *block : {held, rest, beyond}) Free(block);
}

HK_FRESH_TEST(PressureInSpace, TheOptionLeavesRoomForMemoryThatWasNeverTouched) {
  RetainEverything();
  hk_option.memory_limit = kLimit;
  fake_os_set_anonymous(30 * HK_MIB);
  void *untouched = Alloc(HK_GIB);
  fake_os_advance(1000000000);
  Free(Alloc(30 * HK_MIB)); /* looks */
  Free(Alloc(30 * HK_MIB));
  EXPECT_EQ(DirtyBytes(), 30 * HK_MIB);
  fake_os_set_anonymous(kFull);
  fake_os_advance(1000000000);
  Free(Alloc(2 * HK_MIB));
  EXPECT_LT(DirtyBytes(), 30 * HK_MIB) << "it was touched";
  Free(untouched);
}

}  // namespace
