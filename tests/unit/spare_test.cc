// heap/spare: free slabs that a heap keeps, in the ranges that spans and runs left, and those that it took in advance:
// which it gives out again, how many it keeps at most, and what they are for everybody else.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/heap_driver.h"
#include "unit/rendezvous.h"

namespace {

using hakmem_test::TestRandom;
using hk_test::InUseSlabs;
using hk_test::ReservedSlabs;
using hk_test::StatOf;

bool zero;

hk_slab_t *HeadOf(const void *run) { return hk_slab_of(run); }

void *NewRun(size_t slabs) { return hk_run_alloc(slabs * HK_SLAB_BYTES, 1, &zero); }

bool Put(hk_heap_t *heap, void *run) { return hk_test::SpareRun(heap, HeadOf(run)); }

void *Take(hk_heap_t *heap, size_t slabs) { return hk_test::TakeSpareRun(heap, slabs * HK_SLAB_BYTES); }

// What is in the lists, and whether each range lies where it belongs.
size_t KeptSlabs(hk_heap_t *heap) {
  size_t slabs = 0;
  for (unsigned i = 0; i < HK_RUN_MAX_SLABS; i++) {
    for (hk_list_t *node = heap->spare[i].next; node != &heap->spare[i]; node = node->next) {
      const hk_slab_t *head = HK_CONTAINER_OF(node, hk_slab_t, link);
      EXPECT_EQ(head->slab_count, i + 1);
      for (unsigned k = 0; k < head->slab_count; k++) {
        EXPECT_EQ(hk_slab_state(&head[k]), hk_slab_free);
        EXPECT_EQ(hk_load_relaxed(&head[k].owner), nullptr);
      }
      slabs += head->slab_count;
    }
  }
  EXPECT_EQ(slabs, heap->spare_slabs);
  EXPECT_LE(slabs, hk_test::SpareRoom());
  return slabs;
}

void ExpectRun(const void *run, size_t slabs) {
  hk_finding_t finding = hk_verify(run);
  EXPECT_EQ(finding.verdict, hk_verdict_live);
  EXPECT_EQ(finding.bytes, slabs * HK_SLAB_BYTES);
  EXPECT_FALSE(hk_list_is_linked(&HeadOf(run)->link));
  for (size_t i = 1; i < slabs; i++) {
    EXPECT_EQ(hk_slab_state(&HeadOf(run)[i]), hk_slab_run_tail) << i;
    EXPECT_EQ(HeadOf(run)[i].head, HeadOf(run)) << i;
  }
}

// ---- Which one is given out.

HK_FRESH_TEST(Spare, AKeptRunIsGivenOutAgain) {
  hk_heap_t *heap = hk_heap_take();
  for (size_t slabs = 1; slabs <= HK_RUN_MAX_SLABS; slabs++) {
    SCOPED_TRACE(slabs);
    EXPECT_EQ(Take(heap, slabs), nullptr);
    void *run = NewRun(slabs);
    ASSERT_TRUE(Put(heap, run));
    EXPECT_EQ(KeptSlabs(heap), slabs);
    EXPECT_EQ(InUseSlabs(), slabs) << "for its superslab it is in use";
    EXPECT_EQ(Take(heap, slabs), run);
    ExpectRun(run, slabs);
    EXPECT_EQ(KeptSlabs(heap), 0u);
    EXPECT_EQ(Take(heap, slabs), nullptr) << "once";
    EXPECT_TRUE(hk_run_free(HeadOf(run)));
    EXPECT_EQ(InUseSlabs(), 0u);
  }
  for (hk_stat_id_t id : {hk_stat_run_alloc, hk_stat_run_reuse, hk_stat_run_free}) {
    EXPECT_EQ(StatOf(heap, id), 0u) << "counted by whoever knows that they are runs";
  }
}

HK_FRESH_TEST(Spare, OnlyForTheSameNumberOfSlabs) {
  for (size_t kept = 1; kept <= HK_RUN_MAX_SLABS; kept++) {
    hk_heap_t *heap = hk_heap_take();
    void *run = NewRun(kept);
    ASSERT_TRUE(Put(heap, run));
    for (size_t asked = 1; asked <= HK_RUN_MAX_SLABS; asked++) {
      if (asked != kept) EXPECT_EQ(Take(heap, asked), nullptr) << asked << " of " << kept;
    }
    EXPECT_EQ(hk_test::TakeSpareRun(heap, kept * HK_SLAB_BYTES + 1 - (kept == HK_RUN_MAX_SLABS)),
              kept == HK_RUN_MAX_SLABS ? run : nullptr);
    if (kept == HK_RUN_MAX_SLABS) continue;
    EXPECT_EQ(hk_test::TakeSpareRun(heap, (kept - 1) * HK_SLAB_BYTES + 1), run) << "a byte more than one slab less";
    ExpectRun(run, kept);
  }
}

// One class of each span length.
std::vector<unsigned> OneClassOfEachLength() {
  std::vector<unsigned> classes(HK_SPAN_MAX_SLABS);
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) classes[hk_class_span_slabs(i) - 1] = i;
  for (unsigned class_index : classes) EXPECT_NE(class_index, 0u);
  return classes;
}

HK_FRESH_TEST(Spare, ASpansSlabsServeARunOfAsManyAndTheOtherWayRound) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_slab_t *> spans;
  for (unsigned class_index : OneClassOfEachLength()) spans.push_back(hk_span_acquire(heap, class_index));
  size_t in_use = InUseSlabs();
  for (hk_slab_t *span : spans) {
    unsigned class_index = span->class_index, slab_count = span->slab_count;
    SCOPED_TRACE(class_index);
    ASSERT_TRUE(span->zero);
    hk_span_release(heap, span);
    EXPECT_EQ(KeptSlabs(heap), slab_count);
    for (size_t asked = 1; asked <= HK_RUN_MAX_SLABS; asked++) {
      if (asked != slab_count) EXPECT_EQ(Take(heap, asked), nullptr) << asked;
    }
    void *run = Take(heap, slab_count);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(run), hk_slab_start(span));
    ExpectRun(run, slab_count);
    EXPECT_FALSE(HeadOf(run)->zero) << "it may have been written";
    memset(run, 0x5a, slab_count * HK_SLAB_BYTES);
    ASSERT_TRUE(Put(heap, run));
    EXPECT_EQ(KeptSlabs(heap), slab_count);
    EXPECT_EQ(hk_span_acquire(heap, class_index), span);
    EXPECT_FALSE(span->zero);
    for (unsigned i = 0; i < slab_count; i++) {
      EXPECT_EQ(hk_slab_state(&span[i]), hk_slab_small);
      EXPECT_EQ(span[i].head, span);
      EXPECT_EQ(hk_load_relaxed(&span[i].owner), heap);
    }
    EXPECT_EQ(KeptSlabs(heap), 0u);
    EXPECT_EQ(InUseSlabs(), in_use) << "nothing else was asked for";
  }
}

HK_FRESH_TEST(Spare, TheLastOneFreedIsTheFirstOut) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<void *> runs;
  for (int i = 0; i < 5; i++) runs.push_back(NewRun(3));
  for (void *run : runs) ASSERT_TRUE(Put(heap, run));
  for (size_t i = runs.size(); i-- > 0;) EXPECT_EQ(Take(heap, 3), runs[i]);
}

HK_FRESH_TEST(Spare, ItKeepsItsContents) {
  hk_heap_t *heap = hk_heap_take();
  char *run = static_cast<char *>(NewRun(2));
  memset(run, 0x5a, 2 * HK_SLAB_BYTES);
  ASSERT_TRUE(Put(heap, run));
  ASSERT_EQ(Take(heap, 2), run);
  for (size_t i = 0; i < 2 * HK_SLAB_BYTES; i += 4096) ASSERT_EQ(run[i], 0x5a) << "nobody may call it zero";
}

HK_FRESH_TEST(Spare, WhatWasMadeShorterIsKeptAsThat) {
  hk_heap_t *heap = hk_heap_take();
  void *run = NewRun(8);
  ASSERT_TRUE(hk_run_resize(HeadOf(run), 3 * HK_SLAB_BYTES));
  ASSERT_TRUE(Put(heap, run));
  EXPECT_EQ(KeptSlabs(heap), 3u);
  EXPECT_EQ(Take(heap, 8), nullptr);
  EXPECT_EQ(Take(heap, 3), run);
  ASSERT_TRUE(hk_run_resize(HeadOf(run), 6 * HK_SLAB_BYTES));
  ASSERT_TRUE(Put(heap, run));
  EXPECT_EQ(Take(heap, 6), run);
  ExpectRun(run, 6);
}

HK_FRESH_TEST(Spare, ANeighbourCannotGrowIntoAKeptRun) {
  hk_heap_t *heap = hk_heap_take();
  char *run = static_cast<char *>(NewRun(2));
  char *neighbour = static_cast<char *>(NewRun(2));
  ASSERT_EQ(neighbour, run + 2 * HK_SLAB_BYTES);
  ASSERT_TRUE(Put(heap, neighbour));
  EXPECT_FALSE(hk_run_resize(HeadOf(run), 3 * HK_SLAB_BYTES));
  hk_spare_flush(heap);
  EXPECT_TRUE(hk_run_resize(HeadOf(run), 3 * HK_SLAB_BYTES));
}

HK_FRESH_TEST(Spare, TheHeapThatFreesKeepsIt) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  void *first = NewRun(2);
  ASSERT_TRUE(Put(heap, first));
  ASSERT_EQ(Take(heap, 2), first);
  ASSERT_TRUE(Put(other, first)) << "wherever it came from";
  EXPECT_EQ(Take(heap, 2), nullptr);
  EXPECT_EQ(Take(other, 2), first);
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(KeptSlabs(other), 0u);
}

HK_FRESH_TEST(Spare, WhatIsKeptNeedsNoSystem) {
  hk_heap_t *heap = hk_heap_take();
  void *run = NewRun(HK_RUN_MAX_SLABS);
  ASSERT_TRUE(Put(heap, run));
  fake_os_fail_all(fake_os_reserve, true);
  uint64_t calls = fake_os_calls(fake_os_reserve);
  EXPECT_EQ(Take(heap, HK_RUN_MAX_SLABS), run);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), calls);
}

// ---- How many are kept.

void ExpectRoomFor(size_t room) {
  ASSERT_EQ(hk_test::SpareRoom(), room);
  for (size_t slabs = 1; slabs <= HK_RUN_MAX_SLABS; slabs++) {
    SCOPED_TRACE(slabs);
    hk_heap_t *heap = hk_heap_take();
    size_t before = InUseSlabs();
    size_t fit = room / slabs;
    std::vector<void *> runs;
    for (size_t i = 0; i <= fit; i++) runs.push_back(NewRun(slabs));
    for (size_t i = 0; i < fit; i++) {
      ASSERT_TRUE(Put(heap, runs[i]));
      ASSERT_EQ(KeptSlabs(heap), (i + 1) * slabs);
    }
    EXPECT_EQ(InUseSlabs() - before, (fit + 1) * slabs);
    ASSERT_TRUE(Put(heap, runs[fit]));
    size_t left = slabs <= room ? slabs : 0;
    EXPECT_EQ(KeptSlabs(heap), left) << "the new one alone, if that";
    EXPECT_EQ(InUseSlabs() - before, left);
    for (void *run : runs) EXPECT_NE(hk_verify(run).verdict, hk_verdict_live) << "free, if it is mapped any more";
    EXPECT_EQ(Take(heap, slabs), left > 0 ? runs[fit] : nullptr);
    EXPECT_EQ(Take(heap, slabs), nullptr);
  }
}

HK_FRESH_TEST(Spare, WhenItIsFullAllOfItGoesFirst) { ExpectRoomFor(hk_test::kSpareSlabs); }

HK_FRESH_TEST(Spare, TheOptionSaysForHowManyThereIsRoom) {
  for (unsigned room : {0u, 1u, 2u, 15u, 16u, 17u, 100u}) {
    SCOPED_TRACE(room);
    hk_option.spare_slabs = room;
    ExpectRoomFor(room);
  }
  hk_option.spare_slabs = 1024;
  ExpectRoomFor(128); /* 8 MiB, which `retain` is by default */
}

HK_FRESH_TEST(Spare, NoMoreThanMayStayResidentAtAll) {
  for (size_t room : {0, 1, 5, 16, 31}) {
    for (size_t more : {size_t{0}, HK_SLAB_BYTES - 1}) {
      SCOPED_TRACE(testing::Message() << room << " and " << more);
      hk_option.retain = room * HK_SLAB_BYTES + more;
      ExpectRoomFor(room);
    }
  }
  hk_option.retain = 32 * HK_SLAB_BYTES;
  ExpectRoomFor(32);
  hk_option.retain = HK_GIB;
  ExpectRoomFor(hk_test::kSpareSlabs);
}

HK_FRESH_TEST(Spare, WhatIsTooLargeToKeepTakesAllOfItAlong) {
  hk_option.spare_slabs = 4;
  hk_heap_t *heap = hk_heap_take();
  void *first = NewRun(1), *second = NewRun(2), *large = NewRun(5);
  for (void *run : {first, second}) ASSERT_TRUE(Put(heap, run));
  ASSERT_EQ(KeptSlabs(heap), 3u);
  ASSERT_TRUE(Put(heap, large));
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), 0u);
  for (void *run : {first, second, large}) EXPECT_EQ(hk_verify(run).verdict, hk_verdict_free_range);
}

HK_FRESH_TEST(Spare, SpansAndRunsShareTheRoom) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_slab_t *> spans;
  size_t slabs = 0;
  for (unsigned class_index : OneClassOfEachLength()) spans.push_back(hk_span_acquire(heap, class_index));
  void *large = NewRun(16), *exact = NewRun(6), *last = NewRun(2);
  for (hk_slab_t *span : spans) {
    slabs += span->slab_count;
    hk_span_release(heap, span);
    EXPECT_EQ(KeptSlabs(heap), slabs);
  }
  for (void *run : {large, exact}) ASSERT_TRUE(Put(heap, run));
  EXPECT_EQ(KeptSlabs(heap), hk_test::kSpareSlabs);
  hk_slab_t *span = hk_span_acquire(heap, OneClassOfEachLength()[3]);
  EXPECT_EQ(span, spans[3]);
  ASSERT_TRUE(Put(heap, last));
  EXPECT_EQ(KeptSlabs(heap), 30u) << "there was room again";
  hk_span_release(heap, span);
  EXPECT_EQ(KeptSlabs(heap), 4u);
  EXPECT_EQ(InUseSlabs(), 4u + ReservedSlabs(heap));
}

HK_FRESH_TEST(Spare, RunsOfAllSizesShareTheRoom) {
  hk_heap_t *heap = hk_heap_take();
  void *large = NewRun(16), *middle = NewRun(10), *small = NewRun(6), *last = NewRun(1);
  for (void *run : {large, middle, small}) ASSERT_TRUE(Put(heap, run));
  EXPECT_EQ(KeptSlabs(heap), hk_test::kSpareSlabs) << "exactly full is not too full";
  ASSERT_TRUE(Put(heap, last));
  EXPECT_EQ(KeptSlabs(heap), 1u);
  EXPECT_EQ(InUseSlabs(), 1u);
  for (void *run : {large, middle, small}) EXPECT_EQ(hk_verify(run).verdict, hk_verdict_free_range);
}

HK_FRESH_TEST(Spare, AFlushGivesAllOfItBack) {
  hk_heap_t *heap = hk_heap_take();
  hk_spare_flush(heap);
  std::vector<void *> runs;
  for (size_t slabs : {1, 2, 2, 5, 7, 15}) runs.push_back(NewRun(slabs));
  for (void *run : runs) ASSERT_TRUE(Put(heap, run));
  EXPECT_EQ(KeptSlabs(heap), 32u);
  hk_spare_flush(heap);
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), 0u);
  for (size_t slabs = 1; slabs <= HK_RUN_MAX_SLABS; slabs++) EXPECT_EQ(Take(heap, slabs), nullptr);
  hk_spare_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
}

HK_FRESH_TEST(Spare, GoesWithItsHeap) {
  hk_heap_t *heap = hk_heap_take();
  void *run = NewRun(4);
  ASSERT_TRUE(Put(heap, run));
  hk_heap_give_back(heap); /* as an orphan's is */
  ASSERT_EQ(hk_heap_take(), heap);
  EXPECT_EQ(Take(heap, 4), run);
}

// ---- The reserve.

// What a heap has taken in advance.
struct Reserve {
  hk_slab_t *first;
  size_t slabs;
  bool operator==(const Reserve &) const = default;
};

Reserve ReserveOf(const hk_heap_t *heap) { return {heap->reserve, ReservedSlabs(heap)}; }

// How much more than it asks for a heap takes, where nobody touched what lies below.
constexpr size_t kReserveMost = 16;
size_t ReserveShare(const hk_heap_t *heap) {
  return std::min({size_t{heap->span_slabs} / 4, kReserveMost, hk_test::SpareRoom()});
}

uint64_t *FirstWordOf(const hk_slab_t *slab) { return reinterpret_cast<uint64_t *>(hk_slab_start(slab)); }

void WriteInto(hk_slab_t *head) {
  for (unsigned i = 0; i < head->slab_count; i++) *FirstWordOf(head + i) = UINT64_MAX;
}

// Where each owner writes the first word of each slab: that is still zero if the range says so.
void ExpectKnownZero(const hk_slab_t *head) {
  if (!head->zero) return;
  for (unsigned i = 0; i < head->slab_count; i++) ASSERT_EQ(*FirstWordOf(head + i), 0u) << i;
}

unsigned PlaceOf(const hk_slab_t *slab) { return static_cast<unsigned>(slab - slab->superslab->slabs); }

hk_slab_t *NewSpan(hk_heap_t *heap, size_t slabs) { return hk_span_acquire(heap, OneClassOfEachLength()[slabs - 1]); }

// A span from memory that nobody has touched: exactly what it does to the reserve. Whether the heap had to grow.
bool GrowByOne(hk_heap_t *heap, size_t slabs, std::vector<hk_slab_t *> *spans) {
  Reserve old = ReserveOf(heap);
  size_t in_use = InUseSlabs(), kept = heap->spare_slabs, share = ReserveShare(heap);
  hk_slab_t *span = NewSpan(heap, slabs);
  spans->push_back(span);
  EXPECT_EQ(span->slab_count, slabs);
  EXPECT_TRUE(span->zero);
  ExpectKnownZero(span);
  WriteInto(span);
  Reserve now = ReserveOf(heap);
  if (InUseSlabs() == in_use) {
    EXPECT_EQ(now.slabs + heap->spare_slabs + slabs, old.slabs + kept) << "of what it had";
    return false;
  }
  EXPECT_LT(old.slabs, slabs) << "a reserve that is long enough comes first";
  if (now == old) {
    EXPECT_TRUE(share == 0 || PlaceOf(span) == 0) << "it takes what there is";
    return true;
  }
  EXPECT_EQ(now.first + now.slabs, span) << "what lies below";
  EXPECT_TRUE(now.slabs == share || PlaceOf(now.first) == 0) << "as much as it may, or as there is";
  EXPECT_LE(now.slabs, share);
  for (size_t i = 0; i < now.slabs; i++) {
    EXPECT_EQ(hk_slab_state(now.first + i), hk_slab_free);
    EXPECT_EQ(hk_load_relaxed(&now.first[i].owner), nullptr);
  }
  return true;
}

HK_FRESH_TEST(Reserve, AHeapThatGrowsTakesAQuarterOfWhatItHasInAdvance) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_slab_t *> spans;
  std::vector<size_t> grown; /* at which sizes */
  for (size_t slabs = 0; slabs < 60; slabs++) {
    if (GrowByOne(heap, 1, &spans)) grown.push_back(slabs);
    ASSERT_EQ(InUseSlabs(), slabs + 1 + ReservedSlabs(heap));
  }
  /* 1 each, then 1 + 1, 1 + 1, 1 + 2, 1 + 2, 1 + 3, 1 + 4; then the superslab ends. */
  std::vector<size_t> expected = {0, 1, 2, 3, 4, 6, 8, 11, 14, 18, 23, 29, 32, 41, 52};
  EXPECT_EQ(grown, expected);
  EXPECT_EQ(std::set<hk_slab_t *>(spans.begin(), spans.end()).size(), spans.size()) << "no slab twice";
}

// Each growth costs a lock, and a search for a place.
HK_FRESH_TEST(Reserve, ALargeHeapGrowsOncePerSixteenSlabs) {
  for (size_t slabs = 1; slabs <= HK_SPAN_MAX_SLABS; slabs++) {
    SCOPED_TRACE(slabs);
    hk_heap_t *heap = hk_heap_take();
    std::vector<hk_slab_t *> spans;
    size_t growths = 0;
    while (heap->span_slabs < 2000 && !testing::Test::HasFailure()) {
      growths += GrowByOne(heap, slabs, &spans);
      (void)KeptSlabs(heap);
    }
    EXPECT_LE(growths, 2000 / 16 + 20) << "those of the beginning, and one per 16 slabs";
    for (hk_slab_t *span : spans) hk_span_release(heap, span);
    hk_spare_flush(heap);
    EXPECT_EQ(InUseSlabs(), 0u);
    (void)hk_surplus_trim(0);
  }
}

// Lengths that leave a rest each time: it is kept, but of such rests no more than of other ranges.
HK_FRESH_TEST(Reserve, OneThatIsTooShortIsKeptAndStillZero) {
  for (size_t left = 1; left < HK_SPAN_MAX_SLABS; left++) {
    SCOPED_TRACE(left);
    hk_heap_t *heap = hk_heap_take();
    std::vector<hk_slab_t *> spans;
    while (ReservedSlabs(heap) != left) (void)GrowByOne(heap, 1, &spans);
    Reserve old = ReserveOf(heap);
    while (heap->reserve == old.first) ASSERT_TRUE(GrowByOne(heap, left + 1, &spans)); /* no more where it was */
    EXPECT_EQ(KeptSlabs(heap), left);
    EXPECT_EQ(InUseSlabs(), heap->span_slabs + left + ReservedSlabs(heap)) << "nothing is lost";
    hk_slab_t *span = NewSpan(heap, left);
    EXPECT_EQ(span, old.first);
    EXPECT_TRUE(span->zero);
    EXPECT_EQ(KeptSlabs(heap), 0u);
    hk_span_release(heap, span);
    ASSERT_EQ(NewSpan(heap, left), span);
    EXPECT_FALSE(span->zero) << "a span's, from now on";
    spans.push_back(span);
    for (hk_slab_t *one : spans) hk_span_release(heap, one);
    hk_spare_flush(heap);
    (void)hk_surplus_trim(0);
    ASSERT_EQ(InUseSlabs(), 0u);
  }
}

HK_FRESH_TEST(Reserve, ManyThatAreTooShortAreNotMoreThanAHeapMayKeep) {
  for (unsigned room : {1u, 2u, 5u, 32u}) {
    SCOPED_TRACE(room);
    hk_option.spare_slabs = room;
    hk_heap_t *heap = hk_heap_take();
    std::vector<hk_slab_t *> spans;
    size_t most = 0;
    for (int i = 0; i < 1000 && !testing::Test::HasFailure(); i++) {
      spans.push_back(NewSpan(heap, i % 3 == 0 ? 4 : 3));
      most = std::max(most, KeptSlabs(heap)); /* which looks, too */
      ASSERT_EQ(InUseSlabs(), heap->span_slabs + heap->spare_slabs + ReservedSlabs(heap));
    }
    EXPECT_GT(most, 0u) << "or nothing was tried";
    for (hk_slab_t *span : spans) hk_span_release(heap, span);
    hk_spare_flush(heap);
    EXPECT_EQ(InUseSlabs(), 0u);
    (void)hk_surplus_trim(0);
  }
}

void ExpectReserveOf(size_t most) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_slab_t *> spans;
  size_t largest = 0;
  while (spans.size() < 200) {
    (void)GrowByOne(heap, 1, &spans);
    largest = std::max(largest, ReservedSlabs(heap));
  }
  EXPECT_EQ(largest, most);
  for (hk_slab_t *span : spans) hk_span_release(heap, span);
  hk_spare_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
  (void)hk_surplus_trim(0);
}

HK_FRESH_TEST(Reserve, TheOptionsBoundItToo) {
  for (unsigned room : {0u, 1u, 2u, 15u, 16u, 17u, 1024u}) {
    SCOPED_TRACE(room);
    hk_option.spare_slabs = room;
    ExpectReserveOf(std::min<size_t>(room, kReserveMost));
  }
  for (unsigned room : {0u, 1u, 15u, 100u}) {
    SCOPED_TRACE(room);
    hk_option.retain = room * HK_SLAB_BYTES + HK_SLAB_BYTES - 1;
    ExpectReserveOf(std::min<size_t>(room, kReserveMost));
  }
}

// A heap with a reserve, and the spans that it has.
hk_heap_t *NewHeapWithReserve(std::vector<hk_slab_t *> *spans) {
  hk_heap_t *heap = hk_heap_take();
  while (ReservedSlabs(heap) < 5) (void)GrowByOne(heap, 1, spans);
  return heap;
}

HK_FRESH_TEST(Reserve, CostsNoMemoryAndIsGivenBackUntouched) {
  std::vector<hk_slab_t *> spans;
  hk_heap_t *heap = NewHeapWithReserve(&spans);
  Reserve reserve = ReserveOf(heap);
  ASSERT_TRUE(Put(heap, NewRun(2)));
  EXPECT_EQ(hk_superslab_usage().idle_bytes, 0u);
  hk_spare_flush(heap);
  EXPECT_EQ(heap->reserve, nullptr);
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), spans.size());
  EXPECT_EQ(hk_superslab_usage().idle_bytes, 2 * HK_SLAB_BYTES) << "the run, which was used";
  hk_spare_flush(heap);
  EXPECT_EQ(InUseSlabs(), spans.size());
  hk_slab_t *again = hk_superslab_acquire(static_cast<unsigned>(reserve.slabs), 1, hk_from_top);
  EXPECT_EQ(again, reserve.first);
  EXPECT_TRUE(again->zero);
}

HK_FRESH_TEST(Reserve, IsKeptWhenSlabsComeBack) {
  hk_option.spare_slabs = 8;
  std::vector<hk_slab_t *> spans;
  hk_heap_t *heap = NewHeapWithReserve(&spans);
  Reserve reserve = ReserveOf(heap);
  for (hk_slab_t *span : spans) hk_span_release(heap, span); /* more than there is room for */
  EXPECT_EQ(ReserveOf(heap), reserve) << "it costs nothing";
  EXPECT_EQ(InUseSlabs(), KeptSlabs(heap) + reserve.slabs);
}

HK_FRESH_TEST(Reserve, WhatWasUsedComesFirst) {
  std::vector<hk_slab_t *> spans;
  hk_heap_t *heap = NewHeapWithReserve(&spans);
  Reserve reserve = ReserveOf(heap);
  hk_span_release(heap, spans[3]);
  EXPECT_EQ(NewSpan(heap, 1), spans[3]);
  EXPECT_EQ(ReserveOf(heap), reserve);
  EXPECT_EQ(NewSpan(heap, 1), reserve.first + reserve.slabs - 1);
}

HK_FRESH_TEST(Reserve, IsNotForRuns) {
  std::vector<hk_slab_t *> spans;
  hk_heap_t *heap = NewHeapWithReserve(&spans);
  for (size_t slabs = 1; slabs <= HK_RUN_MAX_SLABS; slabs++) EXPECT_EQ(Take(heap, slabs), nullptr);
  EXPECT_GE(ReservedSlabs(heap), 5u);
}

// What others used lies below: the heap gets what it asks for, and no more.
HK_FRESH_TEST(Reserve, UsedMemoryIsNotTakenInAdvance) {
  hk_slab_t *used = hk_superslab_acquire(HK_SUPERSLAB_SLABS, 1, hk_from_bottom);
  hk_superslab_release(used, HK_SUPERSLAB_SLABS);
  hk_heap_t *heap = hk_heap_take();
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    hk_slab_t *span = NewSpan(heap, 1);
    EXPECT_EQ(span, used + HK_SUPERSLAB_SLABS - 1 - i);
    EXPECT_FALSE(span->zero);
    EXPECT_EQ(heap->reserve, nullptr);
  }
  EXPECT_TRUE(NewSpan(heap, 1)->zero);
  EXPECT_EQ(ReservedSlabs(heap), HK_SUPERSLAB_SLABS / 4u);
}

HK_FRESH_TEST(Reserve, EachHeapHasItsOwn) {
  hk_heap_t *heaps[] = {hk_heap_take(), hk_heap_take(), hk_heap_take()};
  std::set<hk_slab_t *> all;
  for (int i = 0; i < 900; i++) {
    hk_slab_t *span = NewSpan(heaps[i % 3], 1);
    ASSERT_TRUE(all.insert(span).second);
    ASSERT_TRUE(span->zero);
  }
  size_t reserved = 0;
  for (hk_heap_t *heap : heaps) reserved += ReservedSlabs(heap);
  EXPECT_EQ(InUseSlabs(), all.size() + reserved);
}

HK_FRESH_TEST(Reserve, APointerIntoItIsMisuseAndNobodyGrowsIntoIt) {
  std::vector<hk_slab_t *> spans;
  hk_heap_t *heap = NewHeapWithReserve(&spans);
  Reserve reserve = ReserveOf(heap);
  for (size_t offset : {size_t{0}, size_t{16}, HK_SLAB_BYTES, reserve.slabs * HK_SLAB_BYTES - 16}) {
    void *inside = reinterpret_cast<void *>(hk_slab_start(reserve.first) + offset);
    EXPECT_EQ(hk_verify(inside).verdict, hk_verdict_free_range) << offset;
  }
  size_t below = PlaceOf(reserve.first);
  while (below > HK_RUN_MAX_SLABS) { /* all that lies below, so that a run ends where the reserve begins */
    ASSERT_NE(NewRun(HK_RUN_MAX_SLABS), nullptr);
    below -= HK_RUN_MAX_SLABS;
  }
  hk_slab_t *run = HeadOf(NewRun(below));
  ASSERT_EQ(run + below, reserve.first);
  EXPECT_FALSE(hk_run_resize(run, (below + 1) * HK_SLAB_BYTES));
}

// ---- The reserve where the system refuses.

// Every slab that is mapped serves, whatever was taken in advance.
HK_FRESH_TEST(Reserve, NoSlabIsLostWhenTheSystemRefuses) {
  for (size_t slabs = 1; slabs <= HK_SPAN_MAX_SLABS; slabs++) {
    SCOPED_TRACE(slabs);
    hk_heap_t *heap = hk_heap_take();
    std::vector<hk_slab_t *> spans;
    while (hk_superslab_usage().superslab_count < 3) (void)GrowByOne(heap, slabs, &spans);
    fake_os_fail_all(fake_os_reserve, true);
    for (size_t length : {slabs, size_t{1}}) {
      for (hk_slab_t *span; (span = NewSpan(heap, length)) != nullptr;) spans.push_back(span);
    }
    EXPECT_EQ(heap->reserve, nullptr) << "every slab of it is a span's";
    EXPECT_EQ(heap->span_slabs + KeptSlabs(heap), 3 * HK_SUPERSLAB_SLABS);
    hk_spare_flush(heap); /* kept ranges serve those who ask for as many */
    for (hk_slab_t *span; (span = NewSpan(heap, 1)) != nullptr;) spans.push_back(span);
    EXPECT_EQ(heap->span_slabs, 3 * HK_SUPERSLAB_SLABS);
    EXPECT_EQ(KeptSlabs(heap), 0u);
    fake_os_fail_all(fake_os_reserve, false);
    ASSERT_TRUE(GrowByOne(heap, 1, &spans));
    EXPECT_EQ(ReservedSlabs(heap), kReserveMost);
    for (hk_slab_t *span : spans) hk_span_release(heap, span);
    hk_spare_flush(heap);
    (void)hk_surplus_trim(0);
    ASSERT_EQ(InUseSlabs(), 0u);
  }
}

HK_FRESH_TEST(Reserve, ARefusalLeavesOneThatIsTooShortAsItIs) {
  std::vector<hk_slab_t *> spans;
  hk_heap_t *heap = NewHeapWithReserve(&spans);
  while (ReservedSlabs(heap) != 2) (void)GrowByOne(heap, 1, &spans);
  Reserve reserve = ReserveOf(heap);
  fake_os_fail_all(fake_os_reserve, true);
  while (hk_superslab_acquire(1, 1, hk_from_bottom) != nullptr) continue;
  size_t in_use = InUseSlabs();
  EXPECT_EQ(NewSpan(heap, 3), nullptr);
  EXPECT_EQ(ReserveOf(heap), reserve);
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), in_use);
  EXPECT_EQ(NewSpan(heap, 2), reserve.first);
}

// ---- The reserve in a child of fork.

HK_FRESH_TEST(Reserve, AnOrphansIsWholeAndALostHeapsIsNobodys) {
  std::vector<hk_slab_t *> spans;
  hk_heap_t *resting = NewHeapWithReserve(&spans), *changing = NewHeapWithReserve(&spans);
  Reserve reserve = ReserveOf(resting), lost = ReserveOf(changing);
  hk_heap_enter(changing);
  size_t in_use = InUseSlabs();
  hk_shelf_repair();
  hk_heap_repair();
  hk_heap_adopt_orphans(HK_EMPTY_HEAP);
  EXPECT_EQ(InUseSlabs(), in_use);
  ASSERT_EQ(hk_heap_take(), resting);
  EXPECT_EQ(ReserveOf(resting), reserve);
  EXPECT_EQ(NewSpan(resting, 1), reserve.first + reserve.slabs - 1);
  hk_heap_trim(resting);
  EXPECT_EQ(InUseSlabs(), in_use - (reserve.slabs - 1));
  EXPECT_EQ(hk_heap_count(hk_heap_lost), 1u);
  std::set<hk_slab_t *> taken;
  for (int i = 0; i < 200; i++) taken.insert(NewSpan(resting, 1));
  for (size_t i = 0; i < lost.slabs; i++) EXPECT_EQ(taken.count(lost.first + i), 0u) << "it may be in use already";
}

// The thread vanished after the slabs were taken and before its heap had them: they are lost with it, and are no idle
// heap's.
HK_FRESH_TEST(Reserve, OneThatWasOnItsWayIsLostWithItsHeap) {
  std::vector<hk_slab_t *> spans;
  hk_heap_t *idle = NewHeapWithReserve(&spans), *changing = hk_heap_take();
  hk_spare_flush(idle);
  hk_heap_give_back(idle);
  hk_heap_enter(changing);
  hk_slab_t *half_taken = hk_superslab_acquire_some(1, 9);
  unsigned count = half_taken->slab_count;
  ASSERT_GT(count, 1u);
  hk_shelf_repair();
  hk_heap_repair();
  hk_heap_adopt_orphans(HK_EMPTY_HEAP);
  EXPECT_EQ(InUseSlabs(), spans.size() + count);
  EXPECT_EQ(idle->reserve, nullptr);
  ASSERT_EQ(hk_heap_take(), idle);
  for (int i = 0; i < 200; i++) {
    hk_slab_t *span = NewSpan(idle, 1);
    ASSERT_TRUE(span < half_taken || span >= half_taken + count);
  }
}

// ---- What a kept run is for others.

HK_FRESH_TEST(Spare, APointerIntoAKeptRunIsMisuse) {
  hk_heap_t *heap = hk_heap_take();
  char *run = static_cast<char *>(NewRun(5));
  ASSERT_TRUE(Put(heap, run));
  for (size_t offset : {size_t{0}, size_t{1}, size_t{16}, HK_SLAB_BYTES - 1, HK_SLAB_BYTES, 3 * HK_SLAB_BYTES + 8,
                        5 * HK_SLAB_BYTES - 1}) {
    for (hk_finding_t finding : {hk_verify(run + offset), hk_verify_thoroughly(run + offset)}) {
      EXPECT_EQ(finding.verdict, hk_verdict_free_range) << offset;
      EXPECT_EQ(finding.start, reinterpret_cast<uintptr_t>(run + offset));
    }
  }
  for (unsigned i = 0; i < 5; i++) EXPECT_EQ(hk_load_relaxed(&HeadOf(run)[i].owner), nullptr);
  ASSERT_EQ(Take(heap, 5), run);
  EXPECT_EQ(hk_verify(run).verdict, hk_verdict_live);
  EXPECT_EQ(hk_verify(run + HK_SLAB_BYTES).verdict, hk_verdict_interior);
}

HK_FRESH_TEST(Spare, ASecondFreeIsNoticedAndChangesNothing) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  void *run = NewRun(5);
  ASSERT_TRUE(Put(heap, run));
  for (hk_heap_t *any : {heap, other}) {
    EXPECT_FALSE(Put(any, run));
    EXPECT_FALSE(hk_test::SpareRun(any, HeadOf(run) + 1)) << "a tail, once";
  }
  EXPECT_FALSE(hk_run_free(HeadOf(run)));
  EXPECT_EQ(KeptSlabs(heap), 5u);
  EXPECT_EQ(KeptSlabs(other), 0u);
  hk_spare_flush(heap);
  EXPECT_FALSE(Put(heap, run));
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), 0u);
}

HK_FRESH_TEST(Spare, ATailIsNoRun) {
  hk_heap_t *heap = hk_heap_take();
  void *run = NewRun(5);
  EXPECT_FALSE(hk_test::SpareRun(heap, HeadOf(run) + 2));
  ExpectRun(run, 5);
  EXPECT_EQ(KeptSlabs(heap), 0u);
}

// ---- Threads.

HK_FRESH_TEST(SpareThreads, OfTwoThatFreeOneRunOneIsTheFirst) {
  constexpr int kRounds = 10000;
  hk_heap_t *heaps[2] = {hk_heap_take(), hk_heap_take()};
  hk_test::Rendezvous rendezvous(2);
  hk_slab_t *head = nullptr;
  std::atomic<int> freed{0};
  auto free_once = [&](hk_heap_t *heap) {
    rendezvous.Wait();
    if (hk_test::SpareRun(heap, head)) freed++;
    rendezvous.Wait();
  };
  std::thread other([&] {
    for (int round = 0; round < kRounds; round++) free_once(heaps[1]);
  });
  for (int round = 0; round < kRounds; round++) {
    head = HeadOf(NewRun(2));
    free_once(heaps[0]);
  }
  other.join();
  EXPECT_EQ(freed, kRounds);
  EXPECT_EQ(InUseSlabs(), KeptSlabs(heaps[0]) + KeptSlabs(heaps[1])) << "none is kept twice, and none is lost";
  for (hk_heap_t *heap : heaps) hk_spare_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
}

// One thread allocates what another frees and keeps; both take what they kept.
HK_FRESH_TEST(SpareThreads, RunsGoRound) {
  constexpr int kThreads = 3, kSteps = 6000;
  std::atomic<void *> slots[8] = {};
  std::atomic<int> failures{0};
  std::vector<hk_heap_t *> heaps;
  for (int t = 0; t < kThreads; t++) heaps.push_back(hk_heap_take());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&heaps, &slots, &failures, t] {
      TestRandom random(300 + t);
      for (int i = 0; i < kSteps; i++) {
        size_t slabs = 1 + random.Below(4);
        bool is_zero;
        void *run = Take(heaps[t], slabs);
        if (run == nullptr) run = hk_run_alloc(slabs * HK_SLAB_BYTES, 1, &is_zero);
        if (run == nullptr || HeadOf(run)->slab_count != slabs) failures++;
        if (run == nullptr) return;
        *static_cast<size_t *>(run) = slabs;
        void *old = slots[random.Below(8)].exchange(run);
        if (old == nullptr) continue;
        if (*static_cast<size_t *>(old) != HeadOf(old)->slab_count) failures++;
        if (!Put(heaps[t], old)) failures++;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  for (auto &slot : slots) {
    if (void *run = slot) EXPECT_TRUE(Put(heaps[0], run));
  }
  size_t kept = 0;
  for (hk_heap_t *heap : heaps) kept += KeptSlabs(heap);
  EXPECT_EQ(InUseSlabs(), kept);
  for (hk_heap_t *heap : heaps) hk_spare_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
}

// ---- Against a model: which runs and spans are held, and what a heap may keep.

void RunAgainstModel(uint64_t seed) {
  hk_heap_t *heap = hk_heap_take();
  size_t before = InUseSlabs();
  TestRandom random(seed);
  std::vector<void *> runs;
  std::vector<hk_slab_t *> spans;
  std::vector<void *> kept[HK_RUN_MAX_SLABS + 1]; /* by length, the last freed at the end */
  size_t held_slabs = 0, kept_slabs = 0, reserves = 0, room = hk_test::SpareRoom();
  auto take = [&](size_t slabs) -> void * {
    if (kept[slabs].empty()) return nullptr;
    void *range = kept[slabs].back();
    kept[slabs].pop_back();
    kept_slabs -= slabs;
    return range;
  };
  auto forget_all = [&] {
    for (std::vector<void *> &list : kept) list.clear();
    kept_slabs = 0;
  };
  auto put = [&](void *range, size_t slabs) {
    held_slabs -= slabs;
    if (kept_slabs + slabs > room) forget_all();
    if (slabs > room) return;
    kept[slabs].push_back(range);
    kept_slabs += slabs;
  };
  for (int i = 0; i < 20000 && !testing::Test::HasFailure(); i++) {
    if (runs.size() + spans.size() < 40 && random.OneIn(2)) {
      bool is_span = random.OneIn(2);
      unsigned class_index = static_cast<unsigned>(random.Between(1, HK_CLASS_COUNT - 1));
      size_t slabs = is_span ? hk_class_span_slabs(class_index) : random.Between(1, HK_RUN_MAX_SLABS);
      void *expected = take(slabs);
      if (is_span) {
        Reserve old = ReserveOf(heap);
        size_t share = ReserveShare(heap);
        spans.push_back(hk_span_acquire(heap, class_index));
        ASSERT_NE(spans.back(), nullptr);
        EXPECT_EQ(spans.back()->slab_count, slabs);
        ASSERT_NO_FATAL_FAILURE(ExpectKnownZero(spans.back()));
        Reserve now = ReserveOf(heap);
        if (expected != nullptr) {
          EXPECT_EQ(spans.back(), HeadOf(expected));
          EXPECT_EQ(now, old);
        } else if (old.slabs >= slabs) {
          EXPECT_EQ(spans.back(), old.first + (old.slabs - slabs)) << "from its upper end";
          EXPECT_EQ(now, (Reserve{old.slabs > slabs ? old.first : nullptr, old.slabs - slabs}));
        } else if (now != old) {
          EXPECT_LE(now.slabs, share);
          if (old.slabs > 0 && kept_slabs + old.slabs > room) {
            forget_all();
          } else if (old.slabs > 0) {
            kept[old.slabs].push_back(reinterpret_cast<void *>(hk_slab_start(old.first)));
            kept_slabs += old.slabs;
          }
        }
        reserves += now.slabs > old.slabs;
        WriteInto(spans.back());
      } else {
        void *run = Take(heap, slabs);
        ASSERT_EQ(run, expected);
        if (run == nullptr) run = NewRun(slabs);
        ASSERT_NE(run, nullptr);
        ExpectRun(run, slabs);
        WriteInto(HeadOf(run));
        runs.push_back(run);
      }
      held_slabs += slabs;
    } else if (!runs.empty() && random.OneIn(2)) {
      std::swap(runs[random.Below(runs.size())], runs.back());
      void *run = runs.back();
      put(run, HeadOf(run)->slab_count);
      ASSERT_TRUE(Put(heap, run));
      EXPECT_FALSE(Put(heap, run));
      runs.pop_back();
    } else if (!spans.empty()) {
      std::swap(spans[random.Below(spans.size())], spans.back());
      put(reinterpret_cast<void *>(hk_slab_start(spans.back())), spans.back()->slab_count);
      hk_span_release(heap, spans.back());
      spans.pop_back();
    }
    if (random.OneIn(200)) {
      hk_spare_flush(heap);
      forget_all();
      (void)hk_surplus_trim(0); /* what nobody has is untouched again */
    }
    ASSERT_EQ(KeptSlabs(heap), kept_slabs);
    ASSERT_EQ(InUseSlabs() - before, held_slabs + kept_slabs + ReservedSlabs(heap));
  }
  EXPECT_EQ(reserves > 20, room > 0) << "slabs were taken in advance, again and again";
  for (void *run : runs) EXPECT_TRUE(Put(heap, run));
  for (hk_slab_t *span : spans) hk_span_release(heap, span);
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), StatOf(heap, hk_stat_slab_release));
  hk_spare_flush(heap);
  EXPECT_EQ(InUseSlabs(), before);
}

HK_FRESH_TEST(SpareModel, AnyOrder) { RunAgainstModel(7); }
HK_FRESH_TEST(SpareModel, WithRoomForFew) {
  hk_option.spare_slabs = 5;
  RunAgainstModel(8);
}
HK_FRESH_TEST(SpareModel, WithRoomForNone) {
  hk_option.retain = 0;
  RunAgainstModel(9);
}

}  // namespace
