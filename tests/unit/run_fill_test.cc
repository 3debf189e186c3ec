// heap/run_fill: how many free slabs a heap keeps for runs, by how far the program fills them.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/spare_driver.h"

using namespace hakmem_test;
using namespace hk_test;

namespace {

// Runs of a thread, counted and freed as the api does.
class Program {
 public:
  // Writes the first part of each run.
  explicit Program(double part) : heap_(WithAllRoom(hk_heap_take())), part_(part) {}

  hk_heap_t *heap() { return heap_; }
  size_t hits() const { return hits_; }
  void FillFromNowOn(double part) { part_ = part; }

  void Replace(size_t count) {
    for (size_t i = 0; i < count; i++) {
      void *&run = runs_[random_.Below(runs_.size())];
      if (run != nullptr) Free(run);
      run = Request(static_cast<size_t>(random_.Between(1, HK_RUN_MAX_SLABS)));
    }
  }
  void FreeAll() {
    for (void *&run : runs_) {
      if (run != nullptr) Free(run);
      run = nullptr;
    }
  }
  size_t InUse() {
    size_t slabs = 0;
    for (void *run : runs_) slabs += run != nullptr ? HeadOf(run)->slab_count : 0;
    return slabs;
  }
  size_t ResidentOfRuns() {
    size_t bytes = 0;
    for (void *run : runs_) {
      if (run != nullptr) bytes += hk_os_resident_bytes(run, HeadOf(run)->slab_count * HK_SLAB_BYTES);
    }
    return bytes;
  }

 private:
  void *Request(size_t slabs) {
    void *run = Take(heap_, slabs);
    hits_ += run != nullptr;
    if (run == nullptr) run = NewRun(slabs);
    hk_stat_bump(&heap_->stat, hk_stat_run_alloc, 1);
    size_t bytes = static_cast<size_t>(part_ * static_cast<double>(slabs * HK_SLAB_BYTES));
    memset(run, 1, std::max(bytes, size_t{1}));
    return run;
  }
  void Free(void *run) {
    hk_slab_t *head = HeadOf(run);
    ASSERT_TRUE(hk_run_close(head));
    hk_stat_bump(&heap_->stat, hk_stat_run_free, 1);
    hk_spare_note_run(heap_, head);
    hk_spare_put_run(heap_, head);
  }

  hk_heap_t *heap_;
  double part_;
  TestRandom random_{7};
  std::vector<void *> runs_ = std::vector<void *>(60);
  size_t hits_ = 0;
};

// ---- The formula.

hk_run_fill_t Known(uint32_t runs, uint32_t pages, uint32_t resident_pages) {
  hk_run_fill_t fill = {};
  fill.runs = runs;
  fill.pages = pages;
  fill.resident_pages = resident_pages;
  fill.in_use_slabs = UINT32_MAX;
  return fill;
}

HK_FRESH_TEST(RunFill, ItTellsHowManyAreWorthTheirPages) {
  struct {
    uint32_t resident_pages, in_use;
    size_t room, expected;
  } cases[] = {
      {1600, 100, 32, 32}, /* all are filled */
      {1200, 100, 32, 42}, /* three quarters: nothing beside the room, of which fewer pages are resident */
      {800, 0, 32, 64},    /* half, and none in use */
      {800, 100, 32, 114}, /* 32 slabs more are 64, and a quarter of the 100 that are in use another 50 */
      {160, 100, 32, 970}, /* a tenth: 320 and 650 */
      {160, 100, 4, 690},  /* 40 and 650 */
  };
  for (const auto &each : cases) {
    SCOPED_TRACE(testing::Message() << each.resident_pages << " " << each.in_use << " " << each.room);
    hk_run_fill_t fill = Known(100, 1600, each.resident_pages); /* runs of one slab of 16 pages */
    EXPECT_EQ(hk_run_fill_room(&fill, each.in_use, each.room), each.expected);
  }
}

HK_FRESH_TEST(RunFill, NothingBesideTheRoomBeforeALook) {
  hk_run_fill_t fill = {};
  EXPECT_EQ(hk_run_fill_room(&fill, 1000, 32), 32u);
}

HK_FRESH_TEST(RunFill, NoMoreRunsCountThanTheProcessHas) {
  hk_run_fill_t fill = Known(100, 1600, 160);
  fill.in_use_slabs = 10;
  EXPECT_EQ(hk_run_fill_room(&fill, 1000000, 32), 320u + 65u) << "the thread's runs were freed by others";
}

HK_FRESH_TEST(RunFill, RunsThatAreAllFreedAreNoReasonToStop) {
  hk_run_fill_t fill = Known(100, 1600, 160);
  size_t most = hk_run_fill_room(&fill, 100, 32);
  EXPECT_LT(hk_run_fill_room(&fill, 1, 32), most);
  hk_run_fill_note_too_short(&fill, most - 16, 16, 32);
  EXPECT_FALSE(fill.is_vain);
  EXPECT_EQ(hk_run_fill_room(&fill, 100, 32), most);
  hk_run_fill_note_too_short(&fill, most - 15, 16, 32);
  EXPECT_TRUE(fill.is_vain) << "the hundred runs would not have made room for so many";
  EXPECT_EQ(hk_run_fill_room(&fill, 100, 32), 32u);
}

// ---- A program.

HK_FRESH_TEST(RunFill, RunsOfFewPagesKeepThem) {
  Program program(0);
  program.Replace(5000);
  EXPECT_GT(KeptSlabs(program.heap()), SpareRoom());
  EXPECT_LT(program.ResidentOfRuns(), program.InUse() * HK_SLAB_BYTES / 8) << "not all pages have been written in turn";
  size_t hits = program.hits();
  program.Replace(1000);
  EXPECT_GT(program.hits(), hits + 950) << "nearly each finds one of its length";
}

HK_FRESH_TEST(RunFill, FilledRunsAreKeptWithinTheRoom) {
  Program program(1);
  for (int i = 0; i < 100; i++) {
    program.Replace(20);
    ASSERT_LE(KeptSlabs(program.heap()), SpareRoom());
  }
}

HK_FRESH_TEST(RunFill, FilledRunsThatFindNoRoomSayNothing) {
  Program program(1);
  program.Replace(1000);
  EXPECT_FALSE(program.heap()->run_fill.is_vain) << "none was kept beyond the room";
}

HK_FRESH_TEST(RunFill, AProgramThatBeginsToFillThemGivesThemBack) {
  Program program(0);
  program.Replace(5000);
  ASSERT_GT(KeptSlabs(program.heap()), SpareRoom());
  program.FillFromNowOn(1);
  program.Replace(500);
  EXPECT_LE(KeptSlabs(program.heap()), SpareRoom());
}

HK_FRESH_TEST(RunFill, WhenTheRunsAreFreedSoAreTheKeptOnes) {
  Program program(0.05);
  program.Replace(5000);
  const hk_run_fill_t &fill = program.heap()->run_fill;
  program.FreeAll();
  EXPECT_LE(KeptSlabs(program.heap()) * fill.resident_pages, SpareRoom() * fill.pages) << "their pages fill the room";
  program.Replace(5000);
  EXPECT_GT(KeptSlabs(program.heap()), SpareRoom()) << "and again";
}

HK_FRESH_TEST(RunFill, RunsThatAreHalfFilledDoNot) {
  Program program(0.5);
  program.Replace(5000);
  EXPECT_TRUE(program.heap()->run_fill.is_vain);
  EXPECT_LE(KeptSlabs(program.heap()), SpareRoom());
  hk_spare_flush(program.heap());
  EXPECT_FALSE(program.heap()->run_fill.is_vain) << "the program may do something else next";
}

HK_FRESH_TEST(RunFill, SpansDoNotDisplaceThem) {
  Program program(0);
  program.Replace(5000);
  hk_heap_t *heap = program.heap();
  uint32_t of_runs = heap->spare_run_slabs;
  ASSERT_GT(of_runs, SpareRoom());
  unsigned class_index = OneClassOfEachLength().back();
  std::vector<hk_slab_t *> spans;
  for (size_t i = 0; i < 2 * SpareRoom(); i++) spans.push_back(hk_span_acquire(heap, class_index));
  of_runs = heap->spare_run_slabs;
  for (hk_slab_t *span : spans) {
    hk_span_release(heap, span);
    ASSERT_EQ(heap->spare_run_slabs, of_runs);
    ASSERT_LE(KeptSlabs(heap) - of_runs, SpareRoom());
  }
}

HK_FRESH_TEST(RunFill, NotNearALimitOnMemory) {
  Program program(0);
  program.Replace(5000);
  ASSERT_GT(KeptSlabs(program.heap()), SpareRoom());
  hk_store_relaxed(&hk_dirty_is_near_limit, true);
  program.Replace(1);
  EXPECT_LE(KeptSlabs(program.heap()), SpareRoom());
}

HK_FRESH_TEST(RunFill, NotUnderALimitOnAddresses) {
  Program program(0);
  program.Replace(5000);
  ASSERT_GT(KeptSlabs(program.heap()), SpareRoom());
  fake_os_limit_mapped(HK_TIB);
  program.Replace(500);
  EXPECT_LE(KeptSlabs(program.heap()), SpareRoom());
}

HK_FRESH_TEST(RunFill, NotWhereTheSystemDoesNotTell) {
  fake_os_fail_all(fake_os_resident, true);
  Program program(0);
  program.Replace(5000);
  EXPECT_LE(KeptSlabs(program.heap()), SpareRoom());
}

HK_FRESH_TEST(RunFill, NotWhereNoneMayBeKept) {
  hk_option.spare_slabs = 0;
  Program program(0);
  program.Replace(1000);
  EXPECT_EQ(KeptSlabs(program.heap()), 0u);
}

}  // namespace
