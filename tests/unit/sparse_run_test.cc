// heap/sparse_run: which free runs a heap keeps because few of their pages are resident.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/spare_driver.h"

using namespace hk_test;

namespace {

constexpr size_t kSlabPages = HK_SLAB_BYTES / 4096;

// Writes the first part of a run, at least a byte.
void Fill(void *run, double part) {
  size_t bytes = HeadOf(run)->slab_count * HK_SLAB_BYTES;
  memset(run, 1, std::max(static_cast<size_t>(part * static_cast<double>(bytes)), size_t{1}));
}

void *FilledRun(size_t slabs, double part) {
  void *run = NewRun(slabs);
  Fill(run, part);
  return run;
}

size_t KnownSlabs(const hk_heap_t *heap) { return heap->sparse.kept.slabs; }

// A heap whose lists of spare slabs are full: of runs with one slab each.
hk_heap_t *HeapWithFullLists() {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  std::vector<void *> runs;
  for (size_t i = 0; i < SpareRoom(); i++) runs.push_back(FilledRun(1, 1));
  for (void *run : runs) EXPECT_TRUE(Put(heap, run));
  EXPECT_EQ(heap->spare_slabs, SpareRoom());
  return heap;
}

// ---- One run.

HK_FRESH_TEST(SparseRun, ABorrowedHeapGivesItBack) {
  hk_heap_t *heap = HeapWithFullLists();
  EXPECT_TRUE(Put(heap, FilledRun(6, 0.1)));
  while (heap->spare_slabs > 0) EXPECT_NE(Take(heap, 1), nullptr);
  ASSERT_EQ(hk_heap_spare_slabs(heap), 6u);
  hk_thread_leave_borrowed(heap);
  EXPECT_EQ(hk_heap_spare_slabs(heap), 0u);
}

HK_FRESH_TEST(SparseRun, OneIsKeptBesideFullLists) {
  hk_heap_t *heap = HeapWithFullLists();
  void *run = FilledRun(6, 0.1);
  size_t pages = hk_os_resident_bytes(run, 6 * HK_SLAB_BYTES) / 4096;
  EXPECT_TRUE(Put(heap, run));
  EXPECT_EQ(KeptSlabs(heap), SpareRoom() + 6);
  EXPECT_EQ(heap->sparse.kept.pages, pages);
  EXPECT_FALSE(Put(heap, run)) << "it is free";
  EXPECT_EQ(Take(heap, 5), nullptr) << "of another length";
  EXPECT_EQ(Take(heap, 6), run);
  ExpectRun(run, 6);
  EXPECT_EQ(InUse(heap).slabs, 6u);
  EXPECT_EQ(InUse(heap).pages, pages);
  EXPECT_TRUE(Put(heap, run));
  EXPECT_EQ(InUse(heap).slabs, 0u);
  EXPECT_EQ(InUse(heap).pages, 0u);
}

HK_FRESH_TEST(SparseRun, UpToAThirdOfThePages) {
  struct {
    size_t pages;
    bool is_sparse;
  } cases[] = {{1, true}, {kSlabPages, true}, {kSlabPages + 1, false}, {3 * kSlabPages, false}};
  for (const auto &each : cases) {
    SCOPED_TRACE(each.pages);
    hk_heap_t *heap = HeapWithFullLists();
    void *run = NewRun(3);
    memset(run, 1, each.pages * 4096);
    EXPECT_TRUE(Put(heap, run));
    EXPECT_EQ(KnownSlabs(heap), each.is_sparse ? 3u : 0u);
    hk_spare_flush(heap);
    (void)hk_purge_down_to(0); /* the next run begins untouched */
  }
}

HK_FRESH_TEST(SparseRun, ThePagesWhereBlocksEndDoNotCount) {
  for (size_t slabs : {1, 2, 3, 16}) {
    SCOPED_TRACE(slabs);
    size_t end_pages = slabs == 1 ? kSlabPages / 2 : kSlabPages, begin_pages = slabs * kSlabPages - end_pages;
    for (size_t pages : {slabs * kSlabPages / 3, slabs * kSlabPages / 3 + 1}) {
      hk_heap_t *heap = HeapWithFullLists();
      char *run = static_cast<char *>(NewRun(slabs));
      ASSERT_TRUE(hk_os_purge(run, slabs * HK_SLAB_BYTES)); /* one slab may have been a run before */
      memset(run, 1, pages * 4096);
      memset(run + begin_pages * 4096, 1, end_pages * 4096);
      EXPECT_TRUE(Put(heap, run));
      bool is_sparse = pages == slabs * kSlabPages / 3;
      EXPECT_EQ(KnownSlabs(heap), is_sparse ? slabs : 0u);
      EXPECT_EQ(heap->sparse.kept.pages, is_sparse ? pages + end_pages : 0u) << "but they are kept, and counted";
      hk_spare_flush(heap);
      (void)hk_purge_down_to(0);
    }
  }
}

HK_FRESH_TEST(SparseRun, TheListsComeFirst) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  void *run = FilledRun(6, 0.1);
  EXPECT_TRUE(Put(heap, run));
  EXPECT_EQ(KnownSlabs(heap), 0u) << "there is room, and no look";
  EXPECT_EQ(Take(heap, 6), run);
}

HK_FRESH_TEST(SparseRun, ASpanDoesNotTakeOne) {
  hk_heap_t *heap = HeapWithFullLists();
  unsigned class_index = OneClassOfEachLength().back();
  size_t slabs = hk_class_span_slabs(class_index);
  ASSERT_GT(slabs, 1u);
  void *run = FilledRun(slabs, 0);
  EXPECT_TRUE(Put(heap, run));
  ASSERT_EQ(KnownSlabs(heap), slabs);
  hk_slab_t *span = hk_span_acquire(heap, class_index);
  EXPECT_NE(span, HeadOf(run));
  hk_span_release(heap, span);
  EXPECT_EQ(KnownSlabs(heap), slabs) << "nor does the room for it displace one";
}

HK_FRESH_TEST(SparseRun, OneThatHasGrownLongerThanAnyRequestIsNotKept) {
  hk_heap_t *heap = HeapWithFullLists();
  void *run = NewRun(HK_RUN_MAX_SLABS);
  for (size_t slabs = HK_RUN_MAX_SLABS + 1; slabs <= HK_SUPERSLAB_BYTES / HK_SLAB_BYTES; slabs++) {
    if (!hk_run_resize(HeadOf(run), slabs * HK_SLAB_BYTES)) break;
  }
  ASSERT_GT(HeadOf(run)->slab_count, HK_RUN_MAX_SLABS);
  Fill(run, 0);
  EXPECT_TRUE(Put(heap, run));
  EXPECT_EQ(KnownSlabs(heap), 0u);
}

// ---- Where a known run ends elsewhere.

struct Known {
  hk_heap_t *heap = HeapWithFullLists();
  void *run = FilledRun(6, 0);
  Known() {
    EXPECT_TRUE(Put(heap, run));
    EXPECT_EQ(Take(heap, 6), run);
    EXPECT_EQ(InUse(heap).slabs, 6u);
    EXPECT_EQ(InUse(heap).pages, 1u);
  }
  void ExpectNoneInUse() const {
    EXPECT_EQ(InUse(heap).slabs, 0u);
    EXPECT_EQ(InUse(heap).pages, 0u);
  }
};

HK_FRESH_TEST(SparseRun, FreedWithoutAHeap) {
  Known at;
  EXPECT_TRUE(hk_run_free(HeadOf(at.run)));
  at.ExpectNoneInUse();
  EXPECT_EQ(HeadOf(at.run)->resident_pages, 0u);
}

HK_FRESH_TEST(SparseRun, FreedInAnotherHeap) {
  Known at;
  hk_heap_t *other = WithAllRoom(hk_heap_take());
  hk_option.spare_slabs = 0;
  EXPECT_TRUE(Put(other, at.run));
  at.ExpectNoneInUse();
  EXPECT_EQ(KnownSlabs(other), 0u) << "one page is more than no room";
}

HK_FRESH_TEST(SparseRun, KeptByAnotherHeap) {
  Known at;
  hk_heap_t *other = HeapWithFullLists();
  EXPECT_TRUE(Put(other, at.run));
  at.ExpectNoneInUse();
  EXPECT_EQ(KnownSlabs(other), 6u);
  EXPECT_EQ(Take(other, 6), at.run);
  EXPECT_EQ(InUse(other).slabs, 6u);
}

HK_FRESH_TEST(SparseRun, MadeShorterOrLonger) {
  for (size_t slabs : {4, 8}) {
    Known at;
    EXPECT_TRUE(hk_run_resize(HeadOf(at.run), slabs * HK_SLAB_BYTES));
    at.ExpectNoneInUse();
    EXPECT_TRUE(Put(at.heap, at.run));
    EXPECT_EQ(KnownSlabs(at.heap), slabs) << "it is looked at anew";
  }
}

HK_FRESH_TEST(SparseRun, AHeapThatIsGivenBackStillCounts) {
  Known at;
  hk_heap_give_back(at.heap);
  EXPECT_TRUE(hk_run_free(HeadOf(at.run)));
  at.ExpectNoneInUse();
}

HK_FRESH_TEST(SparseRun, APartThatEndsLeavesNoPagesToTheNextRun) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  hk_slab_t *span = hk_span_acquire(heap, OneClassOfEachLength().front());
  size_t slabs = span->slab_count;
  hk_span_release(heap, span);
  span->live = 3; /* a named heap ends with its blocks */
  void *run = Take(heap, slabs);
  ASSERT_EQ(HeadOf(run), span);
  EXPECT_FALSE(hk_sparse_is_known(span));
}

// ---- The bound.

HK_FRESH_TEST(SparseRun, WithoutRunsInUseTheRoomIsTheBound) {
  hk_heap_t *heap = HeapWithFullLists();
  std::vector<void *> runs;
  for (size_t i = 0; i < 20; i++) runs.push_back(FilledRun(8, 0));
  for (void *run : runs) EXPECT_TRUE(Put(heap, run));
  EXPECT_EQ(KnownSlabs(heap), SpareRoom());
  EXPECT_EQ(Take(heap, 8), runs.back());
}

HK_FRESH_TEST(SparseRun, TheLengthThatCameLeastRecentlyGoesFirst) {
  hk_heap_t *heap = HeapWithFullLists();
  const size_t each = 4, few = SpareRoom() / each / 2;
  std::vector<void *> early, late;
  for (size_t i = 0; i < few; i++) early.push_back(FilledRun(each, 0));
  for (size_t i = 0; i < 2 * few; i++) late.push_back(FilledRun(2 * each, 0));
  for (void *run : early) EXPECT_TRUE(Put(heap, run));
  for (void *run : late) EXPECT_TRUE(Put(heap, run));
  EXPECT_EQ(Take(heap, each), nullptr);
  EXPECT_EQ(KnownSlabs(heap), SpareRoom());
}

// Frees 40 runs that are filled to `part`, while `in_use` known runs of one page each are in use; all are of `slabs`.
// Returns the resident pages of one of the 40.
size_t FreeBesideRunsInUse(hk_heap_t *heap, size_t slabs, size_t in_use, double part) {
  std::vector<void *> known, others;
  for (size_t i = 0; i < in_use; i++) known.push_back(FilledRun(slabs, 0));
  for (size_t i = 0; i < 40; i++) others.push_back(FilledRun(slabs, part));
  for (void *run : known) EXPECT_TRUE(Put(heap, run));
  for (size_t i = 0; i < in_use; i++) EXPECT_NE(Take(heap, slabs), nullptr);
  for (void *run : others) EXPECT_TRUE(Put(heap, run));
  return hk_os_resident_bytes(others.back(), slabs * HK_SLAB_BYTES) / 4096;
}

HK_FRESH_TEST(SparseRun, FourTimesWhatIsInUseIsKept) {
  hk_heap_t *heap = HeapWithFullLists();
  (void)FreeBesideRunsInUse(heap, 8, 4, 0);
  EXPECT_EQ(KnownSlabs(heap), SpareRoom() + 4 * (4 * 8));
}

HK_FRESH_TEST(SparseRun, ResidentPagesCountToo) {
  hk_heap_t *heap = HeapWithFullLists();
  size_t pages = FreeBesideRunsInUse(heap, 16, 2, 0.25);
  EXPECT_EQ(KnownSlabs(heap), (SpareRoom() * kSlabPages + 4 * 2) / pages * 16) << "not 32 + 4 * 32 slabs";
}

// ---- A program.

class Program {
 public:
  // Writes the first part of each run.
  explicit Program(double part) : part_(part) {}

  hk_heap_t *heap() { return heap_; }
  size_t hits() const { return hits_; }
  void FillFromNowOn(double part) { part_ = part; }

  void Replace(size_t count) {
    for (size_t i = 0; i < count; i++) {
      void *&run = runs_[random_.Below(runs_.size())];
      if (run != nullptr) EXPECT_TRUE(Put(heap_, run));
      size_t slabs = static_cast<size_t>(random_.Between(1, HK_RUN_MAX_SLABS));
      run = Take(heap_, slabs);
      hits_ += run != nullptr;
      if (run == nullptr) run = NewRun(slabs);
      Fill(run, part_);
    }
  }
  void FreeAll() {
    for (void *&run : runs_) {
      if (run != nullptr) EXPECT_TRUE(Put(heap_, run));
      run = nullptr;
    }
  }
  size_t Slabs() {
    size_t slabs = 0;
    for (void *run : runs_) slabs += run != nullptr ? HeadOf(run)->slab_count : 0;
    return slabs;
  }

 private:
  hk_heap_t *heap_ = WithAllRoom(hk_heap_take());
  double part_;
  TestRandom random_{7};
  std::vector<void *> runs_ = std::vector<void *>(60);
  size_t hits_ = 0;
};

HK_FRESH_TEST(SparseRun, AProgramThatFillsFewPagesFindsItsRunsAgain) {
  Program program(0);
  program.Replace(5000);
  EXPECT_GT(KnownSlabs(program.heap()), program.Slabs());
  size_t hits = program.hits();
  program.Replace(1000);
  EXPECT_GT(program.hits(), hits + 950) << "nearly each is one of the same length";
  EXPECT_LT(program.heap()->sparse.kept.pages, KnownSlabs(program.heap()) * kSlabPages / 8)
      << "and as sparse as before";
}

HK_FRESH_TEST(SparseRun, OneThatFillsItsRunsKeepsTheRoomAlone) {
  Program program(1);
  for (int i = 0; i < 100; i++) {
    program.Replace(20);
    ASSERT_LE(KeptSlabs(program.heap()), SpareRoom());
  }
}

HK_FRESH_TEST(SparseRun, OneThatBeginsToFillThemGivesThemBack) {
  Program program(0);
  program.Replace(5000);
  ASSERT_GT(KnownSlabs(program.heap()), SpareRoom());
  program.FillFromNowOn(1);
  program.Replace(200);
  EXPECT_LE(KnownSlabs(program.heap()), SpareRoom());
}

HK_FRESH_TEST(SparseRun, WhenTheRunsAreFreedTheRoomIsTheBoundAgain) {
  Program program(0.05);
  program.Replace(5000);
  program.FreeAll();
  EXPECT_EQ(InUse(program.heap()).slabs, 0u);
  EXPECT_LE(KnownSlabs(program.heap()), SpareRoom());
  program.Replace(5000);
  EXPECT_GT(KnownSlabs(program.heap()), SpareRoom()) << "and again";
}

HK_FRESH_TEST(SparseRun, LooksAreFewWhereRunsAreFilled) {
  Program program(1);
  program.Replace(5000);
  uint64_t before = fake_os_calls(fake_os_resident);
  program.Replace(6400);
  EXPECT_LE(fake_os_calls(fake_os_resident) - before, 2 * 6400u / 64) << "a look is two calls at most";
}

HK_FRESH_TEST(SparseRun, ACallGivesFewBack) {
  Program program(0);
  program.Replace(5000);
  hk_sparse_t &sparse = program.heap()->sparse;
  sparse.is_ending = true;
  hk_list_t rows;
  for (size_t most = 16; KnownSlabs(program.heap()) > 0;) {
    hk_list_init(&rows);
    hk_sparse_pass_time(&sparse, sparse.tick_ms, SpareRoom(), &rows);
    size_t count = 0;
    for (hk_list_t *node = rows.next; node != &rows; node = node->next) {
      hk_run_retire_tails(HK_CONTAINER_OF(node, hk_slab_t, link));
      count++;
    }
    ASSERT_GE(count, 1u);
    ASSERT_LE(count, most);
    hk_superslab_release_all(&rows);
  }
  EXPECT_FALSE(sparse.is_ending);
}

HK_FRESH_TEST(SparseRun, WithoutAUseForASecondTheyGo) {
  Program program(0);
  program.Replace(5000);
  ASSERT_GT(KnownSlabs(program.heap()), SpareRoom());
  hk_spare_pass_time_slow(program.heap());
  fake_os_advance(uint64_t{999} * 1000000);
  program.Replace(5);
  hk_spare_pass_time_slow(program.heap());
  fake_os_advance(uint64_t{1000} * 1000000);
  ASSERT_GT(KnownSlabs(program.heap()), SpareRoom()) << "some were used";
  for (int i = 0; i < 100; i++) hk_spare_pass_time_slow(program.heap());
  ASSERT_GT(KnownSlabs(program.heap()), SpareRoom()) << "in this second too";
  fake_os_advance(uint64_t{1000} * 1000000);
  for (int i = 0; i < 100; i++) hk_spare_pass_time_slow(program.heap());
  EXPECT_EQ(KnownSlabs(program.heap()), 0u);
}

HK_FRESH_TEST(SparseRun, TheyGoWhereOthersEndWhatIsInUse) {
  Known at;
  for (int i = 0; i < 4; i++) EXPECT_TRUE(Put(at.heap, FilledRun(12, 0)));
  ASSERT_GT(KnownSlabs(at.heap), SpareRoom());
  hk_spare_pass_time_slow(at.heap);
  ASSERT_GT(KnownSlabs(at.heap), SpareRoom());
  EXPECT_TRUE(hk_run_free(HeadOf(at.run)));
  hk_spare_pass_time_slow(at.heap);
  EXPECT_LE(KnownSlabs(at.heap), SpareRoom());
}

HK_FRESH_TEST(SparseRun, NotOnceTheSystemRefusesToTell) {
  Program program(0);
  program.Replace(5000);
  ASSERT_GT(KnownSlabs(program.heap()), SpareRoom());
  fake_os_fail_all(fake_os_resident, true); /* a filter was installed */
  program.Replace(300);
  EXPECT_EQ(KnownSlabs(program.heap()), 0u);
}

HK_FRESH_TEST(SparseRun, NotNearALimitOnMemory) {
  Known at;
  EXPECT_TRUE(Put(at.heap, FilledRun(7, 0)));
  ASSERT_EQ(KnownSlabs(at.heap), 7u);
  hk_store_relaxed(&hk_dirty_is_near_limit, true);
  EXPECT_TRUE(Put(at.heap, at.run));
  EXPECT_EQ(KnownSlabs(at.heap), 0u) << "nor is one kept on";
  at.ExpectNoneInUse();
}

HK_FRESH_TEST(SparseRun, NotUnderALimitOnAddresses) {
  fake_os_limit_mapped(HK_TIB);
  Program program(0);
  program.Replace(5000);
  EXPECT_EQ(KnownSlabs(program.heap()), 0u);
}

HK_FRESH_TEST(SparseRun, NotSoonAfterALimitOnAddressesIsSet) {
  hk_heap_t *heap = HeapWithFullLists();
  EXPECT_TRUE(Put(heap, FilledRun(3, 0)));
  ASSERT_EQ(KnownSlabs(heap), 3u);
  fake_os_limit_mapped(HK_TIB);
  fake_os_advance(100'000'000);
  (void)Put(heap, FilledRun(5, 0));
  EXPECT_EQ(KnownSlabs(heap), 3u);
}

HK_FRESH_TEST(SparseRun, NotWhereTheSystemDoesNotTell) {
  fake_os_fail_all(fake_os_resident, true);
  Program program(0);
  program.Replace(5000);
  EXPECT_EQ(KnownSlabs(program.heap()), 0u);
}

HK_FRESH_TEST(SparseRun, NotWhereNoneMayBeKept) {
  hk_option.spare_slabs = 0;
  Program program(0);
  program.Replace(1000);
  EXPECT_EQ(KeptSlabs(program.heap()), 0u);
}

}  // namespace
