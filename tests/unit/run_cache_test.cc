// heap/run_cache: freed runs that a heap keeps: which it gives out again, how many it keeps at most, and what a kept run is
// for everybody else.
#include <atomic>
#include <cstring>
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
using hk_test::StatOf;

bool zero;

hk_slab_t *HeadOf(const void *run) { return hk_slab_of(run); }

void *NewRun(size_t slabs) { return hk_run_alloc(slabs * HK_SLAB_BYTES, 1, &zero); }

bool Put(hk_heap_t *heap, void *run) { return hk_run_cache_put(heap, HeadOf(run)); }

void *Take(hk_heap_t *heap, size_t slabs) { return hk_run_cache_take(heap, slabs * HK_SLAB_BYTES); }

// What is in the lists, and whether each run lies where it belongs.
size_t KeptSlabs(hk_heap_t *heap) {
  size_t slabs = 0;
  for (unsigned i = 0; i < HK_RUN_MAX_SLABS; i++) {
    for (hk_list_t *node = heap->run_cache[i].next; node != &heap->run_cache[i]; node = node->next) {
      const hk_slab_t *head = HK_CONTAINER_OF(node, hk_slab_t, link);
      EXPECT_EQ(head->slab_count, i + 1);
      EXPECT_EQ(hk_slab_state(head), hk_slab_free);
      slabs += head->slab_count;
    }
  }
  EXPECT_EQ(slabs, heap->run_cache_slabs);
  EXPECT_LE(slabs, HK_RUN_CACHE_SLABS);
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

HK_FRESH_TEST(RunCache, AKeptRunIsGivenOutAgain) {
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
  EXPECT_EQ(StatOf(heap, hk_stat_run_reuse), HK_RUN_MAX_SLABS);
}

HK_FRESH_TEST(RunCache, OnlyForTheSameNumberOfSlabs) {
  for (size_t kept = 1; kept <= HK_RUN_MAX_SLABS; kept++) {
    hk_heap_t *heap = hk_heap_take();
    void *run = NewRun(kept);
    ASSERT_TRUE(Put(heap, run));
    for (size_t asked = 1; asked <= HK_RUN_MAX_SLABS; asked++) {
      if (asked != kept) EXPECT_EQ(Take(heap, asked), nullptr) << asked << " of " << kept;
    }
    EXPECT_EQ(hk_run_cache_take(heap, kept * HK_SLAB_BYTES + 1 - (kept == HK_RUN_MAX_SLABS)),
              kept == HK_RUN_MAX_SLABS ? run : nullptr);
    if (kept == HK_RUN_MAX_SLABS) continue;
    EXPECT_EQ(hk_run_cache_take(heap, (kept - 1) * HK_SLAB_BYTES + 1), run) << "a byte more than one slab less";
    ExpectRun(run, kept);
  }
}

HK_FRESH_TEST(RunCache, TheLastOneFreedIsTheFirstOut) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<void *> runs;
  for (int i = 0; i < 5; i++) runs.push_back(NewRun(3));
  for (void *run : runs) ASSERT_TRUE(Put(heap, run));
  for (size_t i = runs.size(); i-- > 0;) EXPECT_EQ(Take(heap, 3), runs[i]);
}

HK_FRESH_TEST(RunCache, ItKeepsItsContents) {
  hk_heap_t *heap = hk_heap_take();
  char *run = static_cast<char *>(NewRun(2));
  memset(run, 0x5a, 2 * HK_SLAB_BYTES);
  ASSERT_TRUE(Put(heap, run));
  ASSERT_EQ(Take(heap, 2), run);
  for (size_t i = 0; i < 2 * HK_SLAB_BYTES; i += 4096) ASSERT_EQ(run[i], 0x5a) << "nobody may call it zero";
}

HK_FRESH_TEST(RunCache, WhatWasMadeShorterIsKeptAsThat) {
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

HK_FRESH_TEST(RunCache, ANeighbourCannotGrowIntoAKeptRun) {
  hk_heap_t *heap = hk_heap_take();
  char *run = static_cast<char *>(NewRun(2));
  char *neighbour = static_cast<char *>(NewRun(2));
  ASSERT_EQ(neighbour, run + 2 * HK_SLAB_BYTES);
  ASSERT_TRUE(Put(heap, neighbour));
  EXPECT_FALSE(hk_run_resize(HeadOf(run), 3 * HK_SLAB_BYTES));
  hk_run_cache_flush(heap);
  EXPECT_TRUE(hk_run_resize(HeadOf(run), 3 * HK_SLAB_BYTES));
}

HK_FRESH_TEST(RunCache, TheHeapThatFreesKeepsIt) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  void *first = NewRun(2);
  ASSERT_TRUE(Put(heap, first));
  ASSERT_EQ(Take(heap, 2), first);
  ASSERT_TRUE(Put(other, first)) << "wherever it came from";
  EXPECT_EQ(Take(heap, 2), nullptr);
  EXPECT_EQ(Take(other, 2), first);
  EXPECT_EQ(StatOf(heap, hk_stat_run_reuse), 1u);
  EXPECT_EQ(StatOf(other, hk_stat_run_reuse), 1u);
}

HK_FRESH_TEST(RunCache, WhatIsKeptNeedsNoSystem) {
  hk_heap_t *heap = hk_heap_take();
  void *run = NewRun(HK_RUN_MAX_SLABS);
  ASSERT_TRUE(Put(heap, run));
  fake_os_fail_all(fake_os_reserve, true);
  uint64_t calls = fake_os_calls(fake_os_reserve);
  EXPECT_EQ(Take(heap, HK_RUN_MAX_SLABS), run);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), calls);
}

// ---- How many are kept.

HK_FRESH_TEST(RunCache, WhenItIsFullAllOfItGoesFirst) {
  for (size_t slabs = 1; slabs <= HK_RUN_MAX_SLABS; slabs++) {
    SCOPED_TRACE(slabs);
    hk_heap_t *heap = hk_heap_take();
    size_t before = InUseSlabs();
    size_t fit = HK_RUN_CACHE_SLABS / slabs;
    std::vector<void *> runs;
    for (size_t i = 0; i <= fit; i++) runs.push_back(NewRun(slabs));
    for (size_t i = 0; i < fit; i++) {
      ASSERT_TRUE(Put(heap, runs[i]));
      ASSERT_EQ(KeptSlabs(heap), (i + 1) * slabs);
    }
    EXPECT_EQ(InUseSlabs() - before, (fit + 1) * slabs);
    ASSERT_TRUE(Put(heap, runs[fit]));
    EXPECT_EQ(KeptSlabs(heap), slabs) << "the new one alone";
    EXPECT_EQ(InUseSlabs() - before, slabs);
    EXPECT_EQ(Take(heap, slabs), runs[fit]);
  }
}

HK_FRESH_TEST(RunCache, RunsOfAllSizesShareTheRoom) {
  hk_heap_t *heap = hk_heap_take();
  void *large = NewRun(16), *middle = NewRun(10), *small = NewRun(6), *last = NewRun(1);
  for (void *run : {large, middle, small}) ASSERT_TRUE(Put(heap, run));
  EXPECT_EQ(KeptSlabs(heap), HK_RUN_CACHE_SLABS) << "exactly full is not too full";
  ASSERT_TRUE(Put(heap, last));
  EXPECT_EQ(KeptSlabs(heap), 1u);
  EXPECT_EQ(InUseSlabs(), 1u);
  for (void *run : {large, middle, small}) EXPECT_EQ(hk_verify(run).verdict, hk_verdict_free_range);
}

HK_FRESH_TEST(RunCache, AFlushGivesAllOfItBack) {
  hk_heap_t *heap = hk_heap_take();
  hk_run_cache_flush(heap);
  std::vector<void *> runs;
  for (size_t slabs : {1, 2, 2, 5, 7, 15}) runs.push_back(NewRun(slabs));
  for (void *run : runs) ASSERT_TRUE(Put(heap, run));
  EXPECT_EQ(KeptSlabs(heap), 32u);
  hk_run_cache_flush(heap);
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), 0u);
  for (size_t slabs = 1; slabs <= HK_RUN_MAX_SLABS; slabs++) EXPECT_EQ(Take(heap, slabs), nullptr);
  hk_run_cache_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
}

HK_FRESH_TEST(RunCache, GoesWithItsHeap) {
  hk_heap_t *heap = hk_heap_take();
  void *run = NewRun(4);
  ASSERT_TRUE(Put(heap, run));
  hk_heap_give_back(heap); /* as an orphan's is */
  ASSERT_EQ(hk_heap_take(), heap);
  EXPECT_EQ(Take(heap, 4), run);
}

// ---- What a kept run is for others.

HK_FRESH_TEST(RunCache, APointerIntoAKeptRunIsMisuse) {
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

HK_FRESH_TEST(RunCache, ASecondFreeIsNoticedAndChangesNothing) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  void *run = NewRun(5);
  ASSERT_TRUE(Put(heap, run));
  for (hk_heap_t *any : {heap, other}) {
    EXPECT_FALSE(Put(any, run));
    EXPECT_FALSE(hk_run_cache_put(any, HeadOf(run) + 1)) << "a tail, once";
  }
  EXPECT_FALSE(hk_run_free(HeadOf(run)));
  EXPECT_EQ(KeptSlabs(heap), 5u);
  EXPECT_EQ(KeptSlabs(other), 0u);
  hk_run_cache_flush(heap);
  EXPECT_FALSE(Put(heap, run));
  EXPECT_EQ(KeptSlabs(heap), 0u);
  EXPECT_EQ(InUseSlabs(), 0u);
}

HK_FRESH_TEST(RunCache, ATailIsNoRun) {
  hk_heap_t *heap = hk_heap_take();
  void *run = NewRun(5);
  EXPECT_FALSE(hk_run_cache_put(heap, HeadOf(run) + 2));
  ExpectRun(run, 5);
  EXPECT_EQ(KeptSlabs(heap), 0u);
}

// ---- Threads.

HK_FRESH_TEST(RunCacheThreads, OfTwoThatFreeOneRunOneIsTheFirst) {
  constexpr int kRounds = 10000;
  hk_heap_t *heaps[2] = {hk_heap_take(), hk_heap_take()};
  hk_test::Rendezvous rendezvous(2);
  hk_slab_t *head = nullptr;
  std::atomic<int> freed{0};
  auto free_once = [&](hk_heap_t *heap) {
    rendezvous.Wait();
    if (hk_run_cache_put(heap, head)) freed++;
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
  for (hk_heap_t *heap : heaps) hk_run_cache_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
}

// One thread allocates what another frees and keeps; both take what they kept.
HK_FRESH_TEST(RunCacheThreads, RunsGoRound) {
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
  for (hk_heap_t *heap : heaps) hk_run_cache_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
}

// ---- Against a model: which runs are held.

HK_FRESH_TEST(RunCacheModel, AnyOrder) {
  hk_heap_t *heap = hk_heap_take();
  TestRandom random(7);
  std::vector<void *> held;
  size_t held_slabs = 0;
  for (int i = 0; i < 20000 && !testing::Test::HasFailure(); i++) {
    if (held.size() < 40 && random.OneIn(2)) {
      size_t slabs = random.Between(1, HK_RUN_MAX_SLABS);
      void *run = Take(heap, slabs);
      if (run == nullptr) run = NewRun(slabs);
      ASSERT_NE(run, nullptr);
      ExpectRun(run, slabs);
      held.push_back(run);
      held_slabs += slabs;
    } else if (!held.empty()) {
      std::swap(held[random.Below(held.size())], held.back());
      held_slabs -= HeadOf(held.back())->slab_count;
      ASSERT_TRUE(Put(heap, held.back()));
      EXPECT_FALSE(Put(heap, held.back()));
      held.pop_back();
    }
    if (random.OneIn(500)) hk_run_cache_flush(heap);
    ASSERT_EQ(InUseSlabs(), held_slabs + KeptSlabs(heap));
  }
  for (void *run : held) EXPECT_TRUE(Put(heap, run));
  hk_run_cache_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
}

}  // namespace
