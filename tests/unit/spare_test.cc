// heap/spare: free slabs that a heap keeps, in the ranges that spans and runs left: which it gives out again, how many
// it keeps at most, and what other threads see of them.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "scale.h"
#include "test_random.h"
#include "unit/rendezvous.h"
#include "unit/spare_driver.h"

using namespace hk_test;

namespace {

// ---- Which one is given out.

HK_FRESH_TEST(Spare, AKeptRunIsGivenOutAgain) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
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
    EXPECT_EQ(StatOf(heap, id), 0u) << "counted by the caller, which knows that they are runs";
  }
}

HK_FRESH_TEST(Spare, NoSlabThatGoesBackIsARunsTail) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  std::vector<hk_slab_t *> heads;
  for (size_t slabs = 1; slabs <= 6; slabs++) heads.push_back(HeadOf(NewRun(slabs)));
  for (hk_slab_t *head : heads) ASSERT_TRUE(Put(heap, reinterpret_cast<void *>(hk_slab_start(head))));
  hk_spare_flush(heap);
  heap->spare_overflows = 0;
  heads.push_back(HeadOf(NewRun(HK_RUN_MAX_SLABS)));
  ASSERT_TRUE(Put(heap, reinterpret_cast<void *>(hk_slab_start(heads.back()))));
  ASSERT_EQ(KeptSlabs(heap), 0u) << "it exceeds the heap's room";
  for (hk_slab_t *head : heads) {
    for (size_t i = 0; i < head->slab_count; i++) EXPECT_EQ(hk_slab_state(&head[i]), hk_slab_free) << i;
  }
}

HK_FRESH_TEST(Spare, OnlyForTheSameNumberOfSlabs) {
  for (size_t kept = 1; kept <= HK_RUN_MAX_SLABS; kept++) {
    hk_heap_t *heap = WithAllRoom(hk_heap_take());
    void *run = NewRun(kept);
    ASSERT_TRUE(Put(heap, run));
    for (size_t asked = 1; asked <= HK_RUN_MAX_SLABS; asked++) {
      if (asked != kept) EXPECT_EQ(Take(heap, asked), nullptr) << asked << " of " << kept;
    }
    EXPECT_EQ(TakeSpareRun(heap, kept * HK_SLAB_BYTES + 1 - (kept == HK_RUN_MAX_SLABS)),
              kept == HK_RUN_MAX_SLABS ? run : nullptr);
    if (kept == HK_RUN_MAX_SLABS) continue;
    EXPECT_EQ(TakeSpareRun(heap, (kept - 1) * HK_SLAB_BYTES + 1), run) << "a byte more than one slab less";
    ExpectRun(run, kept);
  }
}

HK_FRESH_TEST(Spare, ASpansSlabsServeARunOfAsManyAndTheOtherWayRound) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  std::vector<hk_slab_t *> spans;
  for (unsigned class_index : OneClassOfEachLength()) spans.push_back(hk_span_acquire(heap, class_index));
  size_t in_use = InUseSlabs();
  for (hk_slab_t *span : spans) {
    unsigned class_index = span->class_index, slab_count = span->slab_count;
    SCOPED_TRACE(class_index);
    ASSERT_TRUE(span->is_zero);
    hk_span_release(heap, span);
    EXPECT_EQ(KeptSlabs(heap), slab_count);
    for (size_t asked = 1; asked <= HK_RUN_MAX_SLABS; asked++) {
      if (asked != slab_count) EXPECT_EQ(Take(heap, asked), nullptr) << asked;
    }
    void *run = Take(heap, slab_count);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(run), hk_slab_start(span));
    ExpectRun(run, slab_count);
    EXPECT_FALSE(HeadOf(run)->is_zero) << "it may have been written";
    memset(run, 0x5a, slab_count * HK_SLAB_BYTES);
    ASSERT_TRUE(Put(heap, run));
    EXPECT_EQ(KeptSlabs(heap), slab_count);
    EXPECT_EQ(hk_span_acquire(heap, class_index), span);
    EXPECT_FALSE(span->is_zero);
    for (unsigned i = 0; i < slab_count; i++) {
      EXPECT_EQ(hk_slab_state(&span[i]), hk_slab_small);
      EXPECT_EQ(span[i].head, span);
      EXPECT_EQ(hk_load_relaxed(&span[i].owner), heap);
    }
    EXPECT_EQ(KeptSlabs(heap), 0u);
    EXPECT_EQ(InUseSlabs(), in_use) << "no other slabs were taken";
  }
}

HK_FRESH_TEST(Spare, TheLastOneFreedIsTheFirstOut) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  std::vector<void *> runs;
  for (int i = 0; i < 5; i++) runs.push_back(NewRun(3));
  for (void *run : runs) ASSERT_TRUE(Put(heap, run));
  for (size_t i = runs.size(); i-- > 0;) EXPECT_EQ(Take(heap, 3), runs[i]);
}

HK_FRESH_TEST(Spare, ItKeepsItsContents) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  char *run = static_cast<char *>(NewRun(2));
  memset(run, 0x5a, 2 * HK_SLAB_BYTES);
  ASSERT_TRUE(Put(heap, run));
  ASSERT_EQ(Take(heap, 2), run);
  for (size_t i = 0; i < 2 * HK_SLAB_BYTES; i += 4096) ASSERT_EQ(run[i], 0x5a) << "it must not count as zero";
}

HK_FRESH_TEST(Spare, WhatWasMadeShorterIsKeptAsThat) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
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
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  char *run = static_cast<char *>(NewRun(2));
  char *neighbour = static_cast<char *>(NewRun(2));
  ASSERT_EQ(neighbour, run + 2 * HK_SLAB_BYTES);
  ASSERT_TRUE(Put(heap, neighbour));
  EXPECT_FALSE(hk_run_resize(HeadOf(run), 3 * HK_SLAB_BYTES));
  hk_spare_flush(heap);
  EXPECT_TRUE(hk_run_resize(HeadOf(run), 3 * HK_SLAB_BYTES));
}

HK_FRESH_TEST(Spare, TheHeapThatFreesKeepsIt) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take()), *other = WithAllRoom(hk_heap_take());
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
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  void *run = NewRun(HK_RUN_MAX_SLABS);
  ASSERT_TRUE(Put(heap, run));
  fake_os_fail_all(fake_os_reserve, true);
  uint64_t calls = fake_os_calls(fake_os_reserve);
  EXPECT_EQ(Take(heap, HK_RUN_MAX_SLABS), run);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), calls);
}

// ---- How many are kept.

void ExpectRoomFor(size_t room) {
  ASSERT_EQ(SpareRoom(), room);
  for (size_t slabs = 1; slabs <= HK_RUN_MAX_SLABS; slabs++) {
    SCOPED_TRACE(slabs);
    hk_heap_t *heap = WithAllRoom(hk_heap_take());
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

HK_FRESH_TEST(Spare, WhenItIsFullAllOfItGoesFirst) { ExpectRoomFor(kSpareSlabs); }

HK_FRESH_TEST(Spare, TheOptionSaysForHowManyThereIsRoom) {
  for (unsigned room : {0u, 1u, 2u, 15u, 16u, 17u, 100u}) {
    SCOPED_TRACE(room);
    hk_option.spare_slabs = room;
    ExpectRoomFor(room);
  }
  hk_option.spare_slabs = 1024;
  ExpectRoomFor(128); /* 8 MiB, which `retain` is by default */
}

HK_FRESH_TEST(Spare, TheRoomGrowsAsOftenAsItWasTooShort) {
  hk_heap_t *heap = hk_heap_take();
  void *runs[kSpareSlabs + 1];
  for (size_t room = 4, shortages = 0; room <= kSpareSlabs; shortages++, room = 4 + shortages / 16) {
    SCOPED_TRACE(room);
    for (size_t i = 0; i <= room; i++) runs[i] = NewRun(1);
    for (size_t i = 0; i < room; i++) ASSERT_TRUE(Put(heap, runs[i]));
    ASSERT_EQ(KeptSlabs(heap), room);
    ASSERT_TRUE(Put(heap, runs[room]));
    ASSERT_EQ(KeptSlabs(heap), 1u) << "the others went first";
    hk_spare_flush(heap);
  }
}

HK_FRESH_TEST(Spare, ARunLargerThanTheRoomCountsAsWell) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned i = 0; i < 16; i++) ASSERT_TRUE(Put(heap, NewRun(5)));
  EXPECT_EQ(KeptSlabs(heap), 5u) << "the sixteenth found room";
}

HK_FRESH_TEST(Spare, TheNextThreadBeginsWithLittleRoom) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  hk_heap_begin_small(heap);
  for (unsigned i = 0; i < 5; i++) ASSERT_TRUE(Put(heap, NewRun(1)));
  EXPECT_EQ(KeptSlabs(heap), 1u);
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
  ExpectRoomFor(kSpareSlabs);
}

HK_FRESH_TEST(Spare, WhatIsTooLargeToKeepTakesAllOfItAlong) {
  hk_option.spare_slabs = 4;
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  void *first = NewRun(1), *second = NewRun(2), *large = NewRun(5);
  for (void *run : {first, second}) ASSERT_TRUE(Put(heap, run));
  ASSERT_EQ(KeptSlabs(heap), 3u);
  ASSERT_TRUE(Put(heap, large));
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), 0u);
  for (void *run : {first, second, large}) EXPECT_EQ(hk_verify(run).verdict, hk_verdict_free);
}

HK_FRESH_TEST(Spare, SpansAndRunsShareTheRoom) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
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
  EXPECT_EQ(KeptSlabs(heap), kSpareSlabs);
  hk_slab_t *span = hk_span_acquire(heap, OneClassOfEachLength()[3]);
  EXPECT_EQ(span, spans[3]);
  ASSERT_TRUE(Put(heap, last));
  EXPECT_EQ(KeptSlabs(heap), 30u) << "there was room again";
  hk_span_release(heap, span);
  EXPECT_EQ(KeptSlabs(heap), 4u);
  EXPECT_EQ(InUseSlabs(), 4u + ReservedSlabs(heap));
}

HK_FRESH_TEST(Spare, RunsOfAllSizesShareTheRoom) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  void *large = NewRun(16), *middle = NewRun(10), *small = NewRun(6), *last = NewRun(1);
  for (void *run : {large, middle, small}) ASSERT_TRUE(Put(heap, run));
  EXPECT_EQ(KeptSlabs(heap), kSpareSlabs) << "exactly full is not too full";
  ASSERT_TRUE(Put(heap, last));
  EXPECT_EQ(KeptSlabs(heap), 1u);
  EXPECT_EQ(InUseSlabs(), 1u);
  for (void *run : {large, middle, small}) EXPECT_EQ(hk_verify(run).verdict, hk_verdict_free);
}

HK_FRESH_TEST(Spare, AFlushGivesAllOfItBack) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
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
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  void *run = NewRun(4);
  ASSERT_TRUE(Put(heap, run));
  hk_heap_give_back(heap); /* as an orphan's is */
  ASSERT_EQ(WithAllRoom(hk_heap_take()), heap);
  EXPECT_EQ(Take(heap, 4), run);
}

// ---- What other threads see of a kept run.

HK_FRESH_TEST(Spare, APointerIntoAKeptRunIsMisuse) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  char *run = static_cast<char *>(NewRun(5));
  ASSERT_TRUE(Put(heap, run));
  for (size_t offset : {size_t{0}, size_t{1}, size_t{16}, HK_SLAB_BYTES - 1, HK_SLAB_BYTES, 3 * HK_SLAB_BYTES + 8,
                        5 * HK_SLAB_BYTES - 1}) {
    for (hk_finding_t finding : {hk_verify(run + offset), hk_verify_thoroughly(run + offset)}) {
      EXPECT_EQ(finding.verdict, hk_verdict_free) << offset;
      EXPECT_EQ(finding.start, reinterpret_cast<uintptr_t>(run + offset));
    }
  }
  for (unsigned i = 0; i < 5; i++) EXPECT_EQ(hk_load_relaxed(&HeadOf(run)[i].owner), nullptr);
  ASSERT_EQ(Take(heap, 5), run);
  EXPECT_EQ(hk_verify(run).verdict, hk_verdict_live);
  EXPECT_EQ(hk_verify(run + HK_SLAB_BYTES).verdict, hk_verdict_interior);
}

HK_FRESH_TEST(Spare, ASecondFreeIsNoticedAndChangesNothing) {
  hk_heap_t *heap = WithAllRoom(hk_heap_take()), *other = WithAllRoom(hk_heap_take());
  void *run = NewRun(5);
  ASSERT_TRUE(Put(heap, run));
  for (hk_heap_t *any : {heap, other}) {
    EXPECT_FALSE(Put(any, run));
    EXPECT_FALSE(SpareRun(any, HeadOf(run) + 1)) << "a tail, once";
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
  hk_heap_t *heap = WithAllRoom(hk_heap_take());
  void *run = NewRun(5);
  EXPECT_FALSE(SpareRun(heap, HeadOf(run) + 2));
  ExpectRun(run, 5);
  EXPECT_EQ(KeptSlabs(heap), 0u);
}

// ---- Threads.

HK_FRESH_TEST(SpareThreads, OfTwoThatFreeOneRunOneIsTheFirst) {
  const int kRounds = static_cast<int>(hk_test::Scaled(4000, 200));
  hk_heap_t *heaps[2] = {WithAllRoom(hk_heap_take()), WithAllRoom(hk_heap_take())};
  Rendezvous rendezvous(2);
  hk_slab_t *head = nullptr;
  std::atomic<int> freed{0};
  auto free_once = [&](hk_heap_t *heap) {
    rendezvous.Wait();
    if (SpareRun(heap, head)) freed++;
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
  for (int t = 0; t < kThreads; t++) heaps.push_back(WithAllRoom(hk_heap_take()));
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
  size_t kept = 0, puts = 0;
  for (hk_heap_t *heap : heaps) {
    kept += KeptSlabs(heap);
    puts += heap->sparse.puts;
    EXPECT_EQ(InUse(heap).slabs, 0u) << "whoever freed its sparse runs";
    EXPECT_EQ(InUse(heap).pages, 0u);
  }
  EXPECT_GT(puts, 0u) << "there were sparse runs";
  EXPECT_EQ(InUseSlabs(), kept);
  for (hk_heap_t *heap : heaps) hk_spare_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
}

}  // namespace
