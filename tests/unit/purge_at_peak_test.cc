// space/dirty, space/purge: memory that is purged as the process's resident memory rises above its highest so far.
#include <vector>

#include "fresh_test.h"
#include "policy/peak.h"
#include "unit/heap_driver.h"
#include "unit/purge_course.h"
#include "unit/purge_drain_driver.h"

using namespace hk_test;

namespace {

constexpr size_t kPeak = 200 * HK_MIB;

// Time enough for a budget of 20 MiB and more, and then a change.
void StirAt(size_t peak_bytes) {
  fake_os_set_memory(peak_bytes, peak_bytes);
  fake_os_advance(UINT64_C(500) * 1000000);
  DropBlock(TakeBytes(2 * HK_MIB));
}

size_t Purged() { return ProcessStat(hk_stat_purged_at_peak); }
size_t DirtyBytes() { return hk_large_usage().dirty_bytes; }

// `count` blocks of `bytes` are dirty; as many bytes stay in use between them. The peak is known.
void FreeApart(size_t count, size_t bytes) {
  hk_option.learn = hk_learn_off;
  hk_option.retain = 64 * HK_MIB;
  fake_os_set_memory(kPeak, kPeak);
  DropAll(TakeApart(count, bytes, bytes));
  StirAt(kPeak);
  ASSERT_EQ(Purged(), 0u);
  ASSERT_EQ(DirtyBytes(), count * bytes);
}

// 32 superslabs have a free run of 1 MiB each, and one in use.
void FreeRunsApart() {
  bool is_zero;
  std::vector<void *> runs;
  for (int i = 0; i < 64; i++) runs.push_back(hk_run_alloc(HK_MIB, HK_SLAB_BYTES, &is_zero));
  for (size_t i = 0; i < runs.size(); i += 2) (void)hk_run_free(hk_slab_of(runs[i]));
}

HK_FRESH_TEST(PurgeAtPeak, AsMuchGoesAsThePeakRises) {
  FreeApart(16, 2 * HK_MIB);
  StirAt(kPeak + 4 * HK_MIB);
  EXPECT_EQ(Purged(), 4 * HK_MIB);
  EXPECT_EQ(DirtyBytes(), 28 * HK_MIB);
  EXPECT_EQ(ProcessStat(hk_stat_purged), 4 * HK_MIB) << "which counts it too";
  StirAt(kPeak + 4 * HK_MIB);
  EXPECT_EQ(Purged(), 4 * HK_MIB) << "it has not risen again";
}

HK_FRESH_TEST(PurgeAtPeak, AnEighthOfWhatMayStayAlwaysStays) {
  FreeApart(16, 2 * HK_MIB);
  for (size_t i = 1; i < 40; i++) StirAt(kPeak + i * 4 * HK_MIB);
  EXPECT_GE(DirtyBytes(), 8 * HK_MIB);
  EXPECT_LE(DirtyBytes(), 10 * HK_MIB) << "and what the last change freed";
}

HK_FRESH_TEST(PurgeAtPeak, AnExtentGoesWhenThePeakHasRisenByAQuarterOfIt) {
  FreeApart(2, 16 * HK_MIB);
  StirAt(kPeak + 3 * HK_MIB);
  EXPECT_EQ(Purged(), 0u);
  StirAt(kPeak + 4 * HK_MIB);
  EXPECT_EQ(Purged(), 16 * HK_MIB);
}

// A rise of a slab takes a superslab's free run.
HK_FRESH_TEST(PurgeAtPeak, WhatGoesBeyondARiseCountsForTheNextOnes) {
  hk_option.learn = hk_learn_off;
  hk_option.retain = 64 * HK_MIB;
  fake_os_set_memory(kPeak, kPeak);
  FreeRunsApart();
  StirAt(kPeak);
  StirAt(kPeak + 64 * HK_KIB);
  EXPECT_EQ(Purged(), HK_MIB);
  StirAt(kPeak + HK_MIB);
  EXPECT_EQ(Purged(), HK_MIB);
  StirAt(kPeak + HK_MIB + 64 * HK_KIB);
  EXPECT_EQ(Purged(), 2 * HK_MIB);
}

// Two rises: the second one takes the rest of the budget.
HK_FRESH_TEST(PurgeAtPeak, NoMoreGoesThanTheBudgetHas) {
  FreeApart(16, 2 * HK_MIB);
  StirAt(kPeak + 16 * HK_MIB);
  EXPECT_EQ(Purged(), 16 * HK_MIB);
  size_t budget_mib = 2 * 500 * 1000000 / HK_PEAK_TIME_SHARE / (HK_PRICE_PURGE_NS + HK_PRICE_FAULT_NS);
  size_t purged = Purged();
  hk_option.retain = 512 * HK_MIB;
  DropAll(TakeApart(64, 2 * HK_MIB, 2 * HK_MIB));
  fake_os_set_memory(kPeak + HK_GIB, kPeak + HK_GIB);
  fake_os_advance(1000000);
  DropBlock(TakeBytes(2 * HK_MIB));
  EXPECT_GT(Purged(), purged);
  EXPECT_LE(Purged(), (budget_mib + 2) * HK_MIB);
  purged = Purged();
  fake_os_set_memory(kPeak + 2 * HK_GIB, kPeak + 2 * HK_GIB);
  fake_os_advance(1000000);
  DropBlock(TakeBytes(2 * HK_MIB));
  EXPECT_LE(Purged(), purged + 2 * HK_MIB) << "a ms later";
}

HK_FRESH_TEST(PurgeAtPeak, AChildOfForkBeginsAnew) {
  FreeApart(16, 2 * HK_MIB);
  StirAt(kPeak + 4 * HK_MIB);
  hk_dirty_repair();
  size_t purged = Purged();
  StirAt(kPeak / 2);
  EXPECT_EQ(Purged(), purged);
  StirAt(kPeak / 2 + 4 * HK_MIB);
  EXPECT_EQ(Purged(), purged + 4 * HK_MIB);
}

HK_FRESH_TEST(PurgeAtPeak, NothingGoesWhereTheSystemDoesNotTellThePeak) {
  FreeApart(16, 2 * HK_MIB);
  for (int i = 0; i < 3; i++) StirAt(0);
  EXPECT_EQ(Purged(), 0u);
}

HK_FRESH_TEST(PurgeAtPeak, NothingGoesAtTheFastPrice) {
  hk_option.mode = HK_PRICE_FAST;
  FreeApart(16, 2 * HK_MIB);
  StirAt(kPeak + 4 * HK_MIB);
  EXPECT_EQ(Purged(), 0u);
}

HK_FRESH_TEST(PurgeAtPeak, LazilyPurgedMemoryGoesWhereLittleIsDirty) {
  hk_option.purge = hk_purge_free;
  hk_option.retain = 0;
  FreeRunsApart();
  size_t lazy_bytes = hk_dirty_sums().lazy_bytes;
  StirAt(kPeak);
  StirAt(kPeak + 4 * HK_MIB);
  EXPECT_EQ(Purged(), 4 * HK_MIB);
  EXPECT_LT(hk_dirty_sums().lazy_bytes, lazy_bytes);
}

HK_FRESH_TEST(PurgeAtPeak, LazilyPurgedMemoryGoesFirst) {
  hk_option.purge = hk_purge_free;
  hk_option.retain = 0;
  FreeRunsApart();
  size_t lazy_bytes = hk_dirty_sums().lazy_bytes;
  ASSERT_GT(lazy_bytes, 8 * HK_MIB);
  hk_option.retain = 64 * HK_MIB;
  fake_os_set_memory(kPeak, kPeak);
  DropAll(TakeApart(8, 2 * HK_MIB, 2 * HK_MIB));
  StirAt(kPeak);
  StirAt(kPeak + 4 * HK_MIB);
  EXPECT_GE(Purged(), 4 * HK_MIB);
  EXPECT_LE(hk_dirty_sums().lazy_bytes, lazy_bytes - 4 * HK_MIB);
  EXPECT_EQ(DirtyBytes(), 16 * HK_MIB);
  size_t purged = Purged();
  StirAt(kPeak + 8 * HK_MIB);
  EXPECT_LE(Purged(), purged + 5 * HK_MIB) << "what went counts";
}

}  // namespace
