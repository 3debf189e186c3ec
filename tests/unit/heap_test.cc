// heap/heap, heap/thread: what a heap is, which thread has which, and its fate when its thread ends.
#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

using namespace hk_test;

namespace {

// ---- The bins of the fast path, of a heap and of the empty one.

HK_FRESH_TEST(Heap, EachSizeFindsItsBin) {
  for (size_t size = 0; size <= HK_TINY_MAX_BYTES; size++) {
    ASSERT_EQ(hk_heap_tiny_bin(HK_EMPTY_HEAP, size), &HK_EMPTY_HEAP->bin[hk_class_of(size)]) << size;
  }
  for (size_t size = HK_TINY_MAX_BYTES + 1; size <= HK_MID_MAX_BYTES; size++) {
    ASSERT_EQ(hk_heap_mid_bin(HK_EMPTY_HEAP, size), &HK_EMPTY_HEAP->bin[hk_class_of(size)]) << size;
  }
}

HK_FRESH_TEST(Heap, TheEmptyHeapGivesNothing) {
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(hk_empty_heap.bin[i].free, HK_LIST_END) << i;
    EXPECT_EQ(Pop(HK_EMPTY_HEAP, i), nullptr) << i;
  }
}

HK_FRESH_TEST(Heap, ANewHeapIsEmpty) {
  EXPECT_EQ(hk_heap_first(), nullptr);
  hk_heap_t *heap = hk_heap_take();
  ASSERT_NE(heap, nullptr);
  EXPECT_NE(heap, HK_EMPTY_HEAP);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(heap) % HK_CACHE_LINE_BYTES, 0u);
  EXPECT_EQ(hk_heap_life(heap), hk_heap_attached);
  EXPECT_FALSE(hk_load_relaxed(&heap->is_busy));
  EXPECT_FALSE(hk_heap_has_incoming(heap));
  EXPECT_EQ(hk_load_relaxed(&heap->shared.incoming), HK_LIST_END);
  for (const hk_batch_t &batch : heap->outbox) EXPECT_EQ(batch.owner, nullptr);
  EXPECT_EQ(hk_heap_spare_slabs(heap), 0u);
  for (const hk_list_t &list : heap->spare) EXPECT_TRUE(hk_list_is_empty(&list));
  EXPECT_EQ(heap->damaged, nullptr);
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(Pop(heap, i), nullptr) << i;
    EXPECT_EQ(heap->bin[i].free, HK_LIST_END) << i;
    EXPECT_EQ(heap->state[i].active.load(), nullptr) << i;
    if (hk_class_is_mid(i)) CheckMidBin(heap, i);
  }
  EXPECT_EQ(hk_heap_first(), heap);
}

// ---- Take and give back.

HK_FRESH_TEST(Heap, EachTakerHasItsOwn) {
  std::vector<hk_heap_t *> heaps = TakeMany(100);
  EXPECT_EQ(std::set<hk_heap_t *>(heaps.begin(), heaps.end()).size(), 100u);
  hk_heap_t *next = hk_heap_first();
  for (size_t i = heaps.size(); i-- > 0; next = next->all_next) ASSERT_EQ(next, heaps[i]) << "newest first";
  EXPECT_EQ(next, nullptr);
}

HK_FRESH_TEST(Heap, IsAdoptedWhole) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *held = Alloc(heap, 4);
  hk_block_t *freed = Alloc(heap, 4);
  (void)FreeOwn(heap, freed);
  hk_slab_t *span = SpanOf(held);
  hk_heap_give_back(heap);

  std::thread([heap, held, freed, span] {
    ASSERT_EQ(hk_heap_take(), heap);
    EXPECT_EQ(hk_load_relaxed(&span->owner), heap) << "its spans stay its own";
    EXPECT_EQ(heap->state[4].active.load(), span);
    EXPECT_EQ(Pop(heap, 4), freed) << "its lists too";
    (void)FreeOwn(heap, held);
    (void)FreeOwn(heap, freed);
    CheckSpan(heap, span, 0);
    hk_heap_give_back(heap);
  }).join();
  EXPECT_EQ(HeapCount(), 1u);
}

HK_FRESH_TEST(Heap, IsAdoptedWithItsMidBinsAndWhatWaitsForIt) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  hk_block_t *freed = Alloc(heap, 80), *remote = Alloc(heap, 80), *held = Alloc(heap, 80);
  (void)FreeOwn(heap, freed);
  hk_remote_free(other, SpanOf(remote), remote);
  hk_remote_flush(other);
  hk_heap_give_back(heap); /* as it is */

  std::thread([heap, held, freed, remote] {
    ASSERT_EQ(hk_heap_take(), heap);
    CheckMidBin(heap, 80);
    EXPECT_EQ(Pop(heap, 80), freed);
    EXPECT_EQ(Alloc(heap, 80), remote) << "the first refill takes it back";
    for (hk_block_t *block : {held, freed, remote}) (void)FreeOwn(heap, block);
    CheckMidBin(heap, 80);
    hk_heap_flush(heap);
    EXPECT_EQ(InUseSlabs(), 0u);
  }).join();
}

HK_FRESH_TEST(Heap, ARefusedHeapIsAskedForAgain) {
  fake_os_fail_all(fake_os_reserve, true);
  while (hk_heap_take() != nullptr) ASSERT_LT(HeapCount(), 1000u) << "at most the rest of a chunk";
  size_t count = HeapCount();
  EXPECT_EQ(hk_heap_take(), nullptr);
  EXPECT_EQ(HeapCount(), count);
  fake_os_fail_all(fake_os_reserve, false);
  EXPECT_NE(hk_heap_take(), nullptr);
  EXPECT_EQ(HeapCount(), count + 1);
}

// ---- The end of a thread.

bool is_zero;

// Runs `body` in a thread that gets a heap as malloc does, and ends as a thread does. Returns its heap.
template <typename Body>
hk_heap_t *InThread(Body body) {
  hk_heap_t *heap = nullptr;
  std::thread([&heap, body] {
    hk_thread_lease_t lease = hk_thread_enter();
    ASSERT_NE(lease.heap, nullptr);
    EXPECT_FALSE(lease.is_borrowed);
    EXPECT_EQ(hk_thread_own(), lease.heap);
    heap = lease.heap;
    body(heap);
    hk_thread_leave(lease);
    hk_thread_on_exit();
    EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP);
  }).join();
  return heap;
}

HK_FRESH_TEST(HeapOfAThread, IsIdleAfterItsEndAndAdopted) {
  hk_heap_t *heap = InThread([](hk_heap_t *) {});
  EXPECT_EQ(hk_heap_life(heap), hk_heap_idle);
  EXPECT_FALSE(hk_load_relaxed(&heap->is_busy));
  EXPECT_EQ(InThread([](hk_heap_t *) {}), heap);
  EXPECT_EQ(HeapCount(), 1u);
}

HK_FRESH_TEST(HeapOfAThread, KeepsNoMidBlocksNoRunsAndNoBatches) {
  hk_option.spare_slabs = 0;
  hk_heap_t *other = hk_heap_take();
  hk_block_t *theirs = Alloc(other, 4);
  hk_block_t *held = nullptr;
  hk_heap_t *heap = InThread([theirs, &held](hk_heap_t *mine) {
    for (unsigned i = HK_TINY_CLASS_MAX + 1; i < HK_CLASS_COUNT; i++) {
      std::vector<hk_block_t *> blocks;
      for (int k = 0; k < 5; k++) blocks.push_back(Alloc(mine, i));
      for (hk_block_t *block : blocks) (void)FreeOwn(mine, block);
    }
    held = Alloc(mine, 104);
    (void)FreeOwn(mine, Alloc(mine, 104));
    for (size_t slabs : {1, 2, 7}) {
      void *run = hk_run_alloc(slabs * HK_SLAB_BYTES, 1, &is_zero);
      EXPECT_TRUE(SpareRun(mine, hk_slab_of(run)));
    }
    hk_remote_free(mine, SpanOf(theirs), theirs);
    EXPECT_FALSE(hk_heap_has_incoming(hk_load_relaxed(&SpanOf(theirs)->owner)));
  });
  EXPECT_TRUE(hk_heap_has_incoming(other)) << "the batch was sent";
  EXPECT_EQ(hk_heap_spare_slabs(heap), 0u);
  for (unsigned i = HK_TINY_CLASS_MAX + 1; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(heap->bin[i].free, HK_LIST_END) << i;
    CheckMidBin(heap, i);
    EXPECT_EQ(heap->state[i].active.load() != nullptr, i == 104) << i;
  }
  EXPECT_EQ(InUseSlabs(), 1 + 4u) << "the other's span, and the one with a block in use";
  CheckSpan(heap, SpanOf(held), 1);
}

// As destructors do whose thread's exit handler has run: each call borrows a heap. None keeps a span for the next call.
HK_FRESH_TEST(HeapOfAThread, BorrowedHeapsKeepNothingWhenManyAreIdle) {
  std::vector<hk_heap_t *> heaps = TakeMany(HK_POOL_WARM + 2);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  std::thread([] {
    hk_thread_on_exit();
    for (unsigned i : {4u, 20u, 64u, 80u}) {
      hk_thread_lease_t lease = hk_thread_enter();
      ASSERT_TRUE(lease.is_borrowed);
      hk_block_t *block = Alloc(lease.heap, i);
      hk_thread_leave(lease);
      EXPECT_EQ(InUseSlabs(), hk_class_span_slabs(i)) << i;
      hk_remote_free_now(SpanOf(block), block);
      EXPECT_EQ(InUseSlabs(), 0u) << i;
    }
  }).join();
}

// The pool has become deep since its last look: a heap that keeps something is in one of the first slots, or it is
// trimmed.
HK_FRESH_TEST(HeapOfAThread, OnlyHeapsInTheFirstSlotsKeepSpans) {
  std::vector<hk_heap_t *> heaps = TakeMany(2 * HK_POOL_WARM);
  for (hk_heap_t *heap : heaps) (void)FreeOwn(heap, Alloc(heap, 4));
  for (hk_heap_t *heap : heaps) hk_remote_give_back(heap);
  for (unsigned i = 0; i < heaps.size(); i++) {
    EXPECT_EQ(heaps[i]->state[4].active.load() != nullptr, i < HK_POOL_WARM) << i;
  }
  EXPECT_EQ(InUseSlabs(), HK_POOL_WARM * hk_class_span_slabs(4));
}

// Memory that is cheap to keep for the next thread stays, but not when many heaps wait for one.
HK_FRESH_TEST(HeapOfAThread, KeepsNothingWhenManyAreIdle) {
  for (unsigned idle : {HK_POOL_WARM - 1u, HK_POOL_WARM + 0u}) {
    SCOPED_TRACE(idle);
    std::vector<hk_heap_t *> heaps = TakeMany(static_cast<int>(idle) + 1);
    hk_heap_t *next = heaps.back(); /* the one that the thread gets */
    heaps.pop_back();
    std::thread([&heaps, next] {
      hk_heap_give_back(next);
      hk_thread_lease_t lease = hk_thread_enter();
      ASSERT_EQ(lease.heap, next);
      for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
      std::vector<hk_block_t *> blocks;
      for (unsigned i : {4u, 64u, 80u, 104u}) blocks.push_back(Alloc(next, i));
      for (hk_block_t *block : blocks) (void)FreeOwn(next, block);
      EXPECT_TRUE(SpareRun(next, hk_slab_of(hk_run_alloc(3 * HK_SLAB_BYTES, 1, &is_zero))));
      hk_thread_leave(lease);
      hk_thread_on_exit();
    }).join();
    EXPECT_EQ(hk_heap_spare_slabs(next), 0u);
    EXPECT_EQ(InUseSlabs(), idle >= HK_POOL_WARM ? 0u : 2u) << "of each tiny class the active span";
    for (unsigned i : {4u, 64u}) EXPECT_EQ(next->state[i].active.load() != nullptr, idle < HK_POOL_WARM) << i;
    for (unsigned i : {80u, 104u}) EXPECT_EQ(next->state[i].active.load(), nullptr) << i;
    ASSERT_EQ(hk_heap_take(), next);
    hk_heap_flush(next);
    for (size_t i = 0; i < heaps.size(); i++) (void)hk_heap_take();
  }
}

HK_FRESH_TEST(HeapOfAThread, ServesTheNextThreadFromWhatTheLastOneLeft) {
  hk_option.spare_slabs = 0;
  std::vector<hk_block_t *> held;
  hk_heap_t *heap = InThread([&held](hk_heap_t *mine) {
    std::vector<hk_block_t *> freed;
    for (int k = 0; k < 40; k++) (k % 2 ? held : freed).push_back(Alloc(mine, 80));
    for (hk_block_t *block : freed) (void)FreeOwn(mine, block);
  });
  size_t in_use = InUseSlabs();
  EXPECT_EQ(InThread([&held](hk_heap_t *mine) {
              CheckMidBin(mine, 80);
              std::vector<hk_block_t *> blocks;
              for (int k = 0; k < 20; k++) blocks.push_back(Alloc(mine, 80));
              for (hk_block_t *block : blocks) (void)FreeOwn(mine, block);
              for (hk_block_t *block : held) (void)FreeOwn(mine, block);
            }),
            heap);
  EXPECT_LE(InUseSlabs(), in_use);
  EXPECT_EQ(InUseSlabs(), 0u);
}

// Of the calls that come after its exit handler none is known to be the last.
HK_FRESH_TEST(HeapOfAThread, IsBorrowedForEachCallOnceItsExitHandlerHasRun) {
  std::thread([] {
    for (int round = 0; round < 4; round++) {
      hk_thread_lease_t lease = hk_thread_enter();
      ASSERT_NE(lease.heap, nullptr);
      EXPECT_EQ(lease.is_borrowed, round > 0);
      (void)FreeOwn(lease.heap, Alloc(lease.heap, 80));
      hk_thread_leave(lease);
      if (round == 0) hk_thread_on_exit();
      EXPECT_TRUE(hk_thread_keeps_no_heap());
      EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP);
      EXPECT_EQ(hk_heap_life(lease.heap), hk_heap_idle);
    }
  }).join();
  EXPECT_EQ(HeapCount(), 1u);
}

HK_FRESH_TEST(HeapOfAThread, IsBorrowedWhereTheThreadHasNoExitHandler) {
  std::thread([] {
    fake_os_be_bare();
    hk_thread_lease_t lease = hk_thread_enter();
    EXPECT_TRUE(lease.is_borrowed);
    hk_thread_leave(lease);
    EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP);
    EXPECT_EQ(hk_heap_life(lease.heap), hk_heap_idle);
    hk_thread_attach_if_idle(lease.heap);
    EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP);
  }).join();
}

// ---- Remote frees while a heap changes hands.

HK_FRESH_TEST(HeapOfAThread, TakesUpWhatWaitsForItWhenItsThreadEnds) {
  hk_heap_t *sender = hk_heap_take();
  hk_heap_t *heap = InThread([sender](hk_heap_t *mine) {
    Blocks blocks = AllocMany(mine, 64, 20);
    SendAll(sender, blocks);
    EXPECT_TRUE(hk_heap_has_incoming(mine));
  });
  EXPECT_FALSE(hk_heap_has_incoming(heap));
  EXPECT_EQ(StatOf(heap, hk_stat_remote_drain), 20u);
}

// A thread that sends while another one has the heap leaves it to that one, which looks when the heap is idle again.
HK_FRESH_TEST(HeapOfAThread, TakesUpWhatCameBeforeItWasIdle) {
  hk_heap_t *sender = hk_heap_take(), *owner = hk_heap_take();
  hk_block_t *block = Alloc(owner, 64);
  SendAll(sender, {block});
  hk_remote_give_back(owner);
  EXPECT_FALSE(hk_heap_has_incoming(owner));
  EXPECT_EQ(hk_heap_life(owner), hk_heap_idle);
}

// ---- A thread whose first act is to free.

// Runs `body` in a thread that ends as one does.
template <typename Body>
void InNewThread(Body body) {
  std::thread([body] {
    body();
    hk_thread_on_exit();
  }).join();
}

HK_FRESH_TEST(HeapOfAThread, IsTheOneThatItsFirstBlockIsOf) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  for (hk_heap_t *heap : {heaps[1], heaps[0], heaps[2]}) {
    InNewThread([heap] {
      hk_thread_attach_if_idle(heap);
      ASSERT_EQ(hk_thread_own(), heap);
      EXPECT_EQ(hk_heap_life(heap), hk_heap_attached);
      hk_thread_lease_t lease = hk_thread_enter();
      EXPECT_EQ(lease.heap, heap);
      EXPECT_FALSE(lease.is_borrowed);
      hk_thread_leave(lease);
    });
    EXPECT_EQ(hk_heap_life(heap), hk_heap_idle) << "it is given back as every other is";
  }
  EXPECT_EQ(HeapCount(), 3u);
}

HK_FRESH_TEST(HeapOfAThread, IsNotOneThatAnotherThreadHas) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  hk_heap_give_back(heaps[1]);
  InNewThread([&heaps] {
    hk_thread_attach_if_idle(heaps[0]);
    EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP);
    hk_thread_lease_t lease = hk_thread_enter();
    EXPECT_EQ(lease.heap, heaps[1]);
    hk_thread_leave(lease);
  });
}

HK_FRESH_TEST(HeapOfAThread, StaysWhateverElseItFrees) {
  std::vector<hk_heap_t *> heaps = TakeMany(2);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  InNewThread([&heaps] {
    hk_thread_leave(hk_thread_enter());
    hk_heap_t *mine = hk_thread_own();
    hk_heap_t *other = mine == heaps[0] ? heaps[1] : heaps[0];
    hk_thread_attach_if_idle(other);
    EXPECT_EQ(hk_thread_own(), mine);
    EXPECT_EQ(hk_heap_life(other), hk_heap_idle);
  });
}

// At a thread's end the C library frees the memory of other threads' stacks, when no exit handler is to come any more.
HK_FRESH_TEST(HeapOfAThread, IsNotNeededByOneThatIsEnding) {
  hk_heap_t *owner = hk_heap_take();
  hk_heap_give_back(owner);
  std::thread([owner] {
    fake_os_be_ending();
    for (int i = 0; i < 3000; i++) ASSERT_TRUE(hk_thread_frees_without_heap(i % 2 == 0 ? nullptr : owner)) << i;
    EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP);
    EXPECT_EQ(hk_heap_life(owner), hk_heap_idle);
  }).join();
}

HK_FRESH_TEST(HeapOfAThread, IsTheOneThatTheThreadFreesBlocksOf) {
  std::vector<hk_heap_t *> heaps = TakeMany(3);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  for (bool may_be_ending : {false, true}) {
    InNewThread([&heaps, may_be_ending] {
      if (may_be_ending) fake_os_be_ending();
      EXPECT_EQ(hk_thread_frees_without_heap(heaps[1]), may_be_ending);
      for (int i = 0; i < 1 << 16 && hk_thread_frees_without_heap(heaps[0]); i++) continue;
      EXPECT_FALSE(hk_thread_frees_without_heap(heaps[0])) << "one that frees this often sends batches";
      hk_thread_lease_t lease = hk_thread_enter();
      EXPECT_EQ(lease.heap, heaps[1]);
      EXPECT_FALSE(lease.is_borrowed);
      EXPECT_FALSE(hk_thread_frees_without_heap(heaps[0]));
      hk_thread_leave(lease);
    });
  }
  EXPECT_EQ(HeapCount(), 3u);
}

HK_FRESH_TEST(HeapOfAThread, IsNotFollowedByOneThatIsLeaving) {
  hk_heap_t *heap = hk_heap_take();
  hk_heap_give_back(heap);
  std::thread([heap] {
    while (!hk_thread_keeps_no_heap()) hk_thread_on_exit();
    hk_thread_attach_if_idle(heap);
    EXPECT_EQ(hk_thread_own(), HK_EMPTY_HEAP);
    EXPECT_EQ(hk_heap_life(heap), hk_heap_idle);
  }).join();
}

HK_FRESH_TEST(HeapOfAThread, ThatIsFollowedIsGivenBackByTheExitHandler) {
  ASSERT_TRUE(hk_os_thread_exit_init(hk_thread_on_exit));
  hk_heap_t *heap = hk_heap_take();
  hk_heap_give_back(heap);
  std::thread([heap] { hk_thread_attach_if_idle(heap); }).join();
  EXPECT_EQ(hk_heap_life(heap), hk_heap_idle);
  EXPECT_EQ(hk_heap_take(), heap);
}

// ---- The heap of a thread that is about to end.

std::atomic<int> yields;
std::function<void(int)> at_yield;

// A thread that frees a block of `heap` first, and then needs a heap. Returns which it gets, and how often it yields.
std::pair<hk_heap_t *, int> BeginWithAFree(hk_heap_t *heap) {
  std::pair<hk_heap_t *, int> result;
  yields = 0;
  InNewThread([&result, heap] {
    (void)hk_thread_frees_without_heap(heap);
    hk_thread_lease_t lease = hk_thread_enter();
    result.first = lease.heap;
    hk_thread_leave(lease);
  });
  result.second = yields;
  return result;
}

void LetYields(std::function<void(int)> act) {
  at_yield = std::move(act);
  fake_os_set_yield_hook([] { at_yield(++yields); });
}

HK_FRESH_TEST(HeapOfAnEndingThread, GoesToTheThreadThatWaitsForIt) {
  hk_heap_t *heap = hk_heap_take();
  LetYields([heap](int yield) {
    if (yield == 3) hk_heap_give_back(heap);
  });
  auto [found, waits] = BeginWithAFree(heap);
  EXPECT_EQ(found, heap);
  EXPECT_EQ(waits, 3);
  EXPECT_EQ(hk_heap_total(), 1u);
}

HK_FRESH_TEST(HeapOfAnEndingThread, ThatIsIdleIsNotWaitedFor) {
  hk_heap_t *heap = hk_heap_take();
  hk_heap_give_back(heap);
  LetYields([](int) {});
  auto [found, waits] = BeginWithAFree(heap);
  EXPECT_EQ(found, heap);
  EXPECT_EQ(waits, 0);
}

// Where threads do not end, ever fewer wait for them.
HK_FRESH_TEST(HeapOfAnEndingThread, ThatDoesNotEndIsWaitedForEverMoreRarely) {
  hk_heap_t *heap = hk_heap_take();
  LetYields([](int) {});
  std::vector<int> waits;
  for (int i = 0; i < 12; i++) {
    auto [found, count] = BeginWithAFree(heap);
    EXPECT_NE(found, heap);
    waits.push_back(count);
  }
  EXPECT_EQ(waits, (std::vector<int>{4, 4, 0, 4, 0, 0, 4, 0, 0, 0, 0, 4}));
  int threads = 0;
  while (BeginWithAFree(heap).second == 0) ASSERT_LT(++threads, 100);
  while (true) {
    LetYields([heap](int) { hk_heap_give_back(heap); });
    auto [found, count] = BeginWithAFree(heap);
    ASSERT_LT(++threads, 200);
    if (count == 0) continue;
    EXPECT_EQ(found, heap);
    break;
  }
  ASSERT_TRUE(hk_heap_take_this(heap));
  LetYields([](int) {});
  EXPECT_EQ(BeginWithAFree(heap).second, 4) << "a wait that was not in vain begins anew";
}

}  // namespace
