// space/large_prefault: large blocks that are made resident because others of their size were filled.
#include <cstring>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/large_driver.h"

extern "C" {
#include "policy/prefault_policy.h"
#include "space/large_prefault.h"
}

using namespace hk_test;

namespace {

char *Run(size_t bytes) { return static_cast<char *>(hk_run_alloc(bytes, HK_BLOCK_ALIGNMENT, &is_zero)); }
void FreeRun(void *run) { ASSERT_TRUE(hk_run_free(SlabOf(run))); }

const fake_os_record_t *LastPrefault() {
  for (size_t i = fake_os_log_length(); i-- > 0;) {
    if (fake_os_log(i)->call == fake_os_prefault) return fake_os_log(i);
  }
  return nullptr;
}

// In use beside, and known to be written: the share of it bounds nothing.
void HaveMuchInUse() { hk_bump_relaxed(&hk_dirty_extents.in_use_bytes, 128 * HK_MIB); }

uint64_t Prefaulted() { return hk_load_relaxed(&hk_stat_process.value[hk_stat_prefault]); }

// New ones, filled so far. None is freed: the next ones are not resident.
void MakeRuns(unsigned count, size_t bytes, size_t filled_bytes) {
  for (unsigned i = 0; i < count; i++) memset(Run(bytes), 1, filled_bytes);
}

HK_FRESH_TEST(LargePrefault, AfterSomeThatWereFilledTheNextAreMadeResident) {
  HaveMuchInUse();
  constexpr size_t kBytes = 200 * HK_KIB;
  MakeRuns(HK_PREFAULT_ENOUGH, kBytes, kBytes);
  EXPECT_EQ(Prefaulted(), 0u);
  char *next = Run(kBytes);
  ASSERT_NE(LastPrefault(), nullptr);
  EXPECT_EQ(LastPrefault()->start, AddressOf(next));
  EXPECT_EQ(LastPrefault()->bytes, kBytes) << "the requested bytes, not the whole slabs";
  EXPECT_EQ(Prefaulted(), kBytes);
  EXPECT_EQ(next[0] | next[kBytes - 1], 0);
}

HK_FRESH_TEST(LargePrefault, LargeBlocksTooWhereNoHugePagesAreMade) {
  HaveMuchInUse();
  constexpr size_t kBytes = 3 * HK_MIB - 100;
  for (unsigned i = 0; i < HK_PREFAULT_ENOUGH; i++) memset(Alloc(kBytes), 1, kBytes);
  char *next = Alloc(kBytes);
  ASSERT_NE(LastPrefault(), nullptr);
  EXPECT_EQ(LastPrefault()->start, AddressOf(next));
  EXPECT_EQ(LastPrefault()->bytes, 3 * HK_MIB) << "whole pages";
}

HK_FRESH_TEST(LargePrefault, LargeOnesInPartsSoThatNoThreadWaitsForLong) {
  HaveMuchInUse();
  constexpr size_t kBytes = 10 * HK_MIB;
  for (unsigned i = 0; i < HK_PREFAULT_ENOUGH; i++) memset(Alloc(kBytes), 1, kBytes);
  char *next = Alloc(kBytes);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 3u);
  EXPECT_EQ(LastPrefault()->start, AddressOf(next) + 8 * HK_MIB);
  EXPECT_EQ(LastPrefault()->bytes, 2 * HK_MIB);
  EXPECT_EQ(Prefaulted(), kBytes);
}

HK_FRESH_TEST(LargePrefault, AfterAPartThatIsRefusedTheRestIsLeft) {
  HaveMuchInUse();
  constexpr size_t kBytes = 10 * HK_MIB;
  for (unsigned i = 0; i < HK_PREFAULT_ENOUGH; i++) memset(Alloc(kBytes), 1, kBytes);
  fake_os_fail_nth(fake_os_prefault, 2);
  EXPECT_NE(Alloc(kBytes), nullptr);
  EXPECT_EQ(fake_os_failures(fake_os_prefault), 1u);
  EXPECT_EQ(Prefaulted(), 4 * HK_MIB);
}

HK_FRESH_TEST(LargePrefault, WhereMemoryHasALimitLargeOnesAreLeftToTheProgram) {
  HaveMuchInUse();
  constexpr size_t kBytes = 10 * HK_MIB;
  hk_option.memory_limit = 64 * kBytes - 1;
  for (unsigned i = 0; i < HK_PREFAULT_ENOUGH + 1; i++) memset(Alloc(kBytes), 1, kBytes);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 0u);
  MakeRuns(HK_PREFAULT_ENOUGH + 1, 200 * HK_KIB, 200 * HK_KIB);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 1u);
}

HK_FRESH_TEST(LargePrefault, WhatIsToBecomeHugePagesIsLeftToTheProgram) {
  HaveMuchInUse();
  hk_option.huge_pages = hk_huge_pages_always;
  fake_os_set_huge(hk_os_huge_on_request);
  for (unsigned i = 0; i < 10; i++) memset(Alloc(2 * HK_MIB), 1, 2 * HK_MIB);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 0u);
}

HK_FRESH_TEST(LargePrefault, NoMoreIsAheadThanAShareOfWhatIsInUse) {
  constexpr size_t kBytes = 200 * HK_KIB;
  hk_option.mode = HK_PRICE_LEAN;
  MakeRuns(HK_PREFAULT_ENOUGH, kBytes, kBytes);
  (void)Run(kBytes);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 0u) << "a tenth of two blocks is less than one";
}

HK_FRESH_TEST(LargePrefault, WhatIsNeverFilledNeverIs) {
  HaveMuchInUse();
  MakeRuns(100, 200 * HK_KIB, 199 * HK_KIB - 4 * HK_KIB);
  for (unsigned i = 0; i < 100; i++) memset(Alloc(2 * HK_MIB), 1, HK_MIB);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 0u);
}

HK_FRESH_TEST(LargePrefault, ABlockMayBeFilledAfterTheNextOneIsMade) {
  HaveMuchInUse();
  constexpr size_t kBytes = 200 * HK_KIB;
  char *first = Run(kBytes);
  (void)Run(kBytes);
  memset(first, 1, kBytes);
  MakeRuns(HK_PREFAULT_ENOUGH - 1, kBytes, kBytes); /* before the first of these the one above is looked at again */
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 0u);
  MakeRuns(1, kBytes, kBytes);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 1u);
}

HK_FRESH_TEST(LargePrefault, OneThatIsNotFilledForLongMakesRoomForAnother) {
  HaveMuchInUse();
  constexpr size_t kBytes = 200 * HK_KIB;
  (void)Run(kBytes);
  MakeRuns(HK_LARGE_PREFAULT_BLOCKS - 1, kBytes, kBytes);
  MakeRuns(HK_PREFAULT_ENOUGH, kBytes, kBytes);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 0u);
  MakeRuns(1, kBytes, kBytes);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 1u);
}

// Those that are never freed, too.
HK_FRESH_TEST(LargePrefault, NoMoreIsMadeResidentForNothingThanWasFilled) {
  HaveMuchInUse();
  constexpr size_t kBytes = 200 * HK_KIB;
  MakeRuns(100, kBytes, kBytes);
  uint64_t calls = fake_os_calls(fake_os_prefault);
  MakeRuns(1000, kBytes, 0);
  EXPECT_LE(fake_os_calls(fake_os_prefault), calls + HK_PREFAULT_MAX);
}

HK_FRESH_TEST(LargePrefault, ABlockTellsWhenItEnds) {
  HaveMuchInUse();
  constexpr size_t kBytes = 200 * HK_KIB;
  hk_option.retain = 0; /* and goes back to the system then */
  for (unsigned i = 0; i < HK_PREFAULT_ENOUGH; i++) {
    char *block = Run(kBytes);
    memset(block, 1, kBytes);
    FreeRun(block);
    (void)hk_purge_down_to(0);
  }
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 0u);
  char *filled = Run(kBytes);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 1u);
  FreeRun(filled);
  (void)hk_purge_down_to(0);

  for (unsigned i = 0; i < HK_PREFAULT_MAX; i++) { /* one of them has to tell, and the program fills none */
    char *block = Run(kBytes);
    FreeRun(block);
    (void)hk_purge_down_to(0);
  }
  uint64_t calls = fake_os_calls(fake_os_prefault);
  (void)Run(kBytes);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), calls);
}

HK_FRESH_TEST(LargePrefault, ABlockThatChangesItsSizeTellsWhatItWas) {
  HaveMuchInUse();
  constexpr size_t kBytes = 3 * HK_MIB;
  for (unsigned i = 0; i < HK_PREFAULT_ENOUGH; i++) {
    char *block = Alloc(kBytes);
    memset(block, 1, kBytes);
    ASSERT_NE(Resize(block, 2 * kBytes + i * kBytes), nullptr);
  }
  (void)Alloc(kBytes);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 1u);

  char *run = Run(200 * HK_KIB);
  memset(run, 1, 200 * HK_KIB);
  EXPECT_TRUE(hk_run_resize(SlabOf(run), 100 * HK_KIB));
  (void)hk_purge_down_to(0);
  memset(Run(200 * HK_KIB), 1, 200 * HK_KIB);
  (void)Run(200 * HK_KIB);
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 2u);
}

HK_FRESH_TEST(LargePrefault, MemoryThatIsResidentTellsNothing) {
  HaveMuchInUse();
  constexpr size_t kBytes = 200 * HK_KIB;
  for (unsigned i = 0; i < 100; i++) {
    char *block = Run(kBytes);
    if (i == 0) memset(block, 1, kBytes);
    FreeRun(block);
  }
  EXPECT_EQ(fake_os_calls(fake_os_prefault), 0u);
}

HK_FRESH_TEST(LargePrefault, WhereTheSystemRefusesBlocksComeAllTheSame) {
  HaveMuchInUse();
  constexpr size_t kBytes = 200 * HK_KIB;
  fake_os_fail_all(fake_os_prefault, true);
  MakeRuns(20, kBytes, kBytes);
  EXPECT_GT(fake_os_failures(fake_os_prefault), 0u);
  EXPECT_EQ(Prefaulted(), 0u);
}

}  // namespace
