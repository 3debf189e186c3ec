// heap/spare: free slabs that a heap took in advance.
#include <algorithm>
#include <set>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/spare_driver.h"

using namespace hk_test;

namespace {

// ---- The reserve.

unsigned PlaceOf(const hk_slab_t *slab) { return static_cast<unsigned>(slab - slab->superslab->slabs); }

hk_slab_t *NewSpan(hk_heap_t *heap, size_t slabs) { return hk_span_acquire(heap, OneClassOfEachLength()[slabs - 1]); }

// Takes a span of untouched memory and checks the reserve exactly. Returns whether the heap had to grow.
bool GrowByOne(hk_heap_t *heap, size_t slabs, std::vector<hk_slab_t *> *spans) {
  Reserve old = ReserveOf(heap);
  size_t in_use = InUseSlabs(), kept = heap->spare_slabs, share = ReserveShare(heap);
  uint64_t reserve_count = hk_load_relaxed(&heap->stat.value[hk_stat_slab_reserve]);
  hk_slab_t *span = NewSpan(heap, slabs);
  spans->push_back(span);
  EXPECT_EQ(span->slab_count, slabs);
  EXPECT_TRUE(span->is_zero);
  ExpectKnownZero(span);
  WriteInto(span);
  Reserve now = ReserveOf(heap);
  if (InUseSlabs() == in_use) {
    EXPECT_EQ(now.slabs + heap->spare_slabs + slabs, old.slabs + kept) << "of what it had";
    uint64_t of_reserve = now.slabs != old.slabs ? 1 : 0;
    EXPECT_EQ(hk_load_relaxed(&heap->stat.value[hk_stat_slab_reserve]), reserve_count + of_reserve);
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
    (void)hk_purge_down_to(0);
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
    EXPECT_TRUE(span->is_zero);
    EXPECT_EQ(KeptSlabs(heap), 0u);
    hk_span_release(heap, span);
    ASSERT_EQ(NewSpan(heap, left), span);
    EXPECT_FALSE(span->is_zero) << "a span's, from now on";
    spans.push_back(span);
    for (hk_slab_t *one : spans) hk_span_release(heap, one);
    hk_spare_flush(heap);
    (void)hk_purge_down_to(0);
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
    (void)hk_purge_down_to(0);
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
  (void)hk_purge_down_to(0);
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
  EXPECT_EQ(hk_superslab_usage().dirty_bytes, 0u);
  hk_spare_flush(heap);
  EXPECT_EQ(heap->reserve, nullptr);
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), spans.size());
  EXPECT_EQ(hk_superslab_usage().dirty_bytes, 2 * HK_SLAB_BYTES) << "the run, which was used";
  hk_spare_flush(heap);
  EXPECT_EQ(InUseSlabs(), spans.size());
  hk_slab_t *again = hk_superslab_acquire(static_cast<unsigned>(reserve.slabs), 1, hk_from_top);
  EXPECT_EQ(again, reserve.first);
  EXPECT_TRUE(again->is_zero);
}

// A heap that has given up spans takes their slabs before untouched ones.
HK_FRESH_TEST(Reserve, GoesWithSpansThatFindNoRoom) {
  hk_option.spare_slabs = 8;
  std::vector<hk_slab_t *> spans;
  hk_heap_t *heap = NewHeapWithReserve(&spans);
  for (hk_slab_t *span : spans) hk_span_release(heap, span);
  EXPECT_EQ(heap->reserve, nullptr);
  EXPECT_EQ(InUseSlabs(), KeptSlabs(heap));
  for (size_t i = 0; i < spans.size(); i++) EXPECT_FALSE(NewSpan(heap, 1)->is_zero) << i;
  EXPECT_TRUE(NewSpan(heap, 1)->is_zero);
}

HK_FRESH_TEST(Reserve, StaysWhereRunsFindNoRoom) {
  hk_option.spare_slabs = 8;
  std::vector<hk_slab_t *> spans;
  hk_heap_t *heap = NewHeapWithReserve(&spans);
  Reserve reserve = ReserveOf(heap);
  for (size_t slabs : {4, 4, 4}) ASSERT_TRUE(Put(heap, NewRun(slabs)));
  EXPECT_EQ(ReserveOf(heap), reserve) << "it costs nothing, and the next runs leave it alone";
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

// Used slabs lie below: the heap gets as many as it asks for, and no more.
HK_FRESH_TEST(Reserve, UsedMemoryIsNotTakenInAdvance) {
  hk_slab_t *used = hk_superslab_acquire(HK_SUPERSLAB_SLABS, 1, hk_from_bottom);
  hk_superslab_release(used, HK_SUPERSLAB_SLABS);
  hk_heap_t *heap = hk_heap_take();
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    hk_slab_t *span = NewSpan(heap, 1);
    EXPECT_EQ(span, used + HK_SUPERSLAB_SLABS - 1 - i);
    EXPECT_FALSE(span->is_zero);
    EXPECT_EQ(heap->reserve, nullptr);
  }
  EXPECT_TRUE(NewSpan(heap, 1)->is_zero);
  EXPECT_EQ(ReservedSlabs(heap), HK_SUPERSLAB_SLABS / 4u);
}

HK_FRESH_TEST(Reserve, EachHeapHasItsOwn) {
  hk_heap_t *heaps[] = {hk_heap_take(), hk_heap_take(), hk_heap_take()};
  std::set<hk_slab_t *> all;
  for (int i = 0; i < 900; i++) {
    hk_slab_t *span = NewSpan(heaps[i % 3], 1);
    ASSERT_TRUE(all.insert(span).second);
    ASSERT_TRUE(span->is_zero);
  }
  size_t reserved = 0;
  for (hk_heap_t *heap : heaps) reserved += ReservedSlabs(heap);
  EXPECT_EQ(InUseSlabs(), all.size() + reserved);
}

HK_FRESH_TEST(Reserve, APointerIntoItIsMisuseAndNoBlockGrowsIntoIt) {
  std::vector<hk_slab_t *> spans;
  hk_heap_t *heap = NewHeapWithReserve(&spans);
  Reserve reserve = ReserveOf(heap);
  for (size_t offset : {size_t{0}, size_t{16}, HK_SLAB_BYTES, reserve.slabs * HK_SLAB_BYTES - 16}) {
    void *inside = reinterpret_cast<void *>(hk_slab_start(reserve.first) + offset);
    EXPECT_EQ(hk_verify(inside).verdict, hk_verdict_free) << offset;
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
    hk_spare_flush(heap); /* kept ranges serve requests of the same length */
    for (hk_slab_t *span; (span = NewSpan(heap, 1)) != nullptr;) spans.push_back(span);
    EXPECT_EQ(heap->span_slabs, 3 * HK_SUPERSLAB_SLABS);
    EXPECT_EQ(KeptSlabs(heap), 0u);
    fake_os_fail_all(fake_os_reserve, false);
    fake_os_advance(uint64_t{1000000000}); /* the shortage is over */
    ASSERT_TRUE(GrowByOne(heap, 1, &spans));
    EXPECT_EQ(ReservedSlabs(heap), kReserveMost);
    for (hk_slab_t *span : spans) hk_span_release(heap, span);
    hk_spare_flush(heap);
    (void)hk_purge_down_to(0);
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
  EXPECT_EQ(hk_spare_acquire(heap, 3), nullptr);
  EXPECT_EQ(ReserveOf(heap), reserve);
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), in_use);
  EXPECT_EQ(NewSpan(heap, 2), reserve.first);
}

// ---- The reserve in a child of fork.

HK_FRESH_TEST(Reserve, AnOrphansIsWholeAndALostHeapsIsLost) {
  std::vector<hk_slab_t *> spans;
  hk_heap_t *resting = NewHeapWithReserve(&spans), *changing = NewHeapWithReserve(&spans);
  Reserve reserve = ReserveOf(resting), lost = ReserveOf(changing);
  hk_heap_enter(changing);
  size_t in_use = InUseSlabs();
  hk_superslab_index_repair();
  hk_heap_repair();
  const hk_forker_t forker = {nullptr, HK_EMPTY_HEAP, HK_EMPTY_HEAP};
  hk_orphan_settle_all(&forker);
  EXPECT_EQ(InUseSlabs(), in_use);
  ASSERT_EQ(hk_heap_take(), resting);
  EXPECT_EQ(ReserveOf(resting), reserve);
  EXPECT_EQ(NewSpan(resting, 1), reserve.first + reserve.slabs - 1);
  hk_heap_flush(resting);
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
  hk_superslab_index_repair();
  hk_heap_repair();
  const hk_forker_t forker = {nullptr, HK_EMPTY_HEAP, HK_EMPTY_HEAP};
  hk_orphan_settle_all(&forker);
  EXPECT_EQ(InUseSlabs(), spans.size() + count);
  EXPECT_EQ(idle->reserve, nullptr);
  ASSERT_EQ(hk_heap_take(), idle);
  for (int i = 0; i < 200; i++) {
    hk_slab_t *span = NewSpan(idle, 1);
    ASSERT_TRUE(span < half_taken || span >= half_taken + count);
  }
}

}  // namespace
