// heap/search: a block that looks free is searched for, wherever free blocks can be.
#include <atomic>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "os/call_count.h"
#include "os/copy_out.h"
#include "unit/verify_driver.h"

extern "C" {
#include "heap/sample_countdown.h"
}

using namespace hk_test;

namespace {

#if HK_SAFETY

// Makes a block that is in use look as if it were free, as a copy of stale contents does.
void MakeLookFree(hk_block_t *block, const hk_block_t *model) {
  *block = *model;
  ASSERT_TRUE(hk_block_looks_free(block));
}

HK_FRESH_TEST(Search, ABlockInUseThatLooksFreeIsLive) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  for (unsigned class_index : {20u, 66u, 104u}) {
    std::vector<hk_block_t *> blocks;
    for (int i = 0; i < 12; i++) blocks.push_back(Alloc(heap, class_index));
    (void)FreeOwn(heap, blocks[0]);
    (void)FreeOwn(heap, blocks[1]);
    hk_remote_free(other, SpanOf(blocks[2]), blocks[2]);
    hk_remote_free(other, SpanOf(blocks[3]), blocks[3]);
    hk_remote_free_now(SpanOf(blocks[4]), blocks[4]);
    for (int of : {0, 1, 2, 3, 4}) { /* whatever it was copied from */
      MakeLookFree(blocks[5], blocks[of]);
      EXPECT_FALSE(hk_search_free(SpanOf(blocks[5]), blocks[5]));
      ExpectLive(blocks[5], hk_class_bytes(class_index), SpanOf(blocks[5]));
    }
  }
}

// A tiny span that is active, full and partial; a mid span whose blocks are in the bin and in the span's own list.
HK_FRESH_TEST(Search, FindsEachBlockOfABinAndOfASpan) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : {64u, 66u, 104u}) {
    SCOPED_TRACE(class_index);
    std::vector<hk_block_t *> blocks;
    for (unsigned i = 0; i < 3 * CapacityOf(class_index); i++) blocks.push_back(Alloc(heap, class_index));
    std::vector<hk_block_t *> freed, held;
    for (unsigned i = 0; i < blocks.size(); i++) {
      if (i % 3 == 0) {
        (void)FreeOwn(heap, blocks[i]);
        freed.push_back(blocks[i]);
      } else {
        held.push_back(blocks[i]);
      }
    }
    for (hk_block_t *block : freed) ASSERT_TRUE(hk_search_free(SpanOf(block), block));
    for (hk_block_t *block : held) ASSERT_FALSE(hk_search_free(SpanOf(block), block));
    for (hk_block_t *block : freed) EXPECT_EQ(VerdictOf(block), hk_verdict_free_block);
  }
}

// The lists that blocks of several spans share lead from span to span, and from class to class.
HK_FRESH_TEST(Search, FollowsListsAcrossSpans) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take(), *third = hk_heap_take();
  std::vector<hk_block_t *> sent, waiting;
  for (unsigned class_index : {1u, 20u, 64u, 66u, 80u}) {
    for (int i = 0; i < 4; i++) {
      for (unsigned k = 0; k < CapacityOf(class_index) / 2; k++) (void)Alloc(heap, class_index);
      sent.push_back(Alloc(heap, class_index));
      waiting.push_back(Alloc(heap, class_index));
    }
  }
  for (hk_block_t *block : sent) hk_remote_free(other, SpanOf(block), block);
  hk_remote_flush(other);
  for (hk_block_t *block : waiting) hk_remote_free(third, SpanOf(block), block);
  for (hk_block_t *block : sent) EXPECT_TRUE(hk_search_free(SpanOf(block), block)) << "in incoming";
  for (hk_block_t *block : waiting) EXPECT_TRUE(hk_search_free(SpanOf(block), block)) << "in a batch, or sent";
  hk_remote_flush(third);
  for (hk_block_t *block : waiting) EXPECT_TRUE(hk_search_free(SpanOf(block), block));
}

HK_FRESH_TEST(Search, FindsBlocksInAnyHeapsOutbox) {
  hk_heap_t *owner = hk_heap_take();
  std::vector<hk_heap_t *> others;
  std::vector<hk_block_t *> blocks;
  for (int i = 0; i < 40; i++) {
    others.push_back(hk_heap_take());
    blocks.push_back(Alloc(owner, i % 2 ? 20 : 66));
    hk_remote_free(others.back(), SpanOf(blocks.back()), blocks.back());
  }
  hk_block_t *held = Alloc(owner, 20);
  hk_remote_link(held, HK_LIST_END); /* looks under way */
  for (hk_block_t *block : blocks) EXPECT_TRUE(hk_search_free(SpanOf(block), block));
  EXPECT_FALSE(hk_search_free(SpanOf(held), held));
  for (hk_heap_t *other : others) hk_remote_flush(other);
  hk_remote_drain(owner);
  for (hk_block_t *block : blocks) EXPECT_TRUE(hk_search_free(SpanOf(block), block));
}

// A search among what other threads have on its way takes a system call a block, and a copy of what a block of the
// thread's own lists holds cannot be there.
HK_FRESH_TEST(Search, WalksNoOtherThreadsBlocksForACopyOfALocalOne) {
  enum { sent_count = 3000, calls_most = 100 };
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  hk_block_t *model = Alloc(heap, 20), *held = Alloc(heap, 20);
  (void)FreeOwn(heap, model);
  MakeLookFree(held, model);
  for (int i = 0; i < 40; i++) (void)hk_heap_take();
  for (int i = 0; i < sent_count; i++) {
    hk_block_t *block = Alloc(heap, 1);
    hk_remote_free_now(SpanOf(block), block);
  }
  hk_block_t *waiting = Alloc(heap, 20);
  hk_remote_free(other, SpanOf(waiting), waiting);
  uint64_t before = hk_call_count(hk_call_other);
  EXPECT_FALSE(hk_search_free(SpanOf(held), held));
  EXPECT_LT(hk_call_count(hk_call_other) - before, uint64_t{calls_most});
  EXPECT_TRUE(hk_search_free(SpanOf(waiting), waiting));
}

// The lists that two threads can make by freeing one block.
HK_FRESH_TEST(Search, EndsOnARing) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  std::vector<hk_block_t *> blocks;
  for (int i = 0; i < 12; i++) blocks.push_back(Alloc(heap, 66));
  hk_slab_t *span = SpanOf(blocks[0]);
  hk_remote_link(blocks[11], HK_LIST_END); /* looks under way: each list is searched */
  auto make_ring = [](hk_block_t *a, hk_block_t *b) {
    hk_block_link(a, b);
    hk_block_link(b, a);
  };
  auto under_way = [](hk_block_t *block) {
    return reinterpret_cast<hk_block_t *>(reinterpret_cast<uintptr_t>(block) | 1);
  };

  make_ring(blocks[0], blocks[1]);
  heap->bin[66].free = blocks[0];
  EXPECT_TRUE(hk_search_free(span, blocks[1]));
  EXPECT_FALSE(hk_search_free(span, blocks[11]));
  heap->bin[66].free = HK_LIST_END;

  make_ring(blocks[2], blocks[3]);
  span->own.free = blocks[2];
  EXPECT_TRUE(hk_search_free(span, blocks[3]));
  EXPECT_FALSE(hk_search_free(span, blocks[11]));
  span->own.free = HK_LIST_END;

  hk_block_link(blocks[4], under_way(blocks[5]));
  hk_block_link(blocks[5], under_way(blocks[4]));
  hk_store_relaxed(&heap->shared.incoming, blocks[4]);
  EXPECT_TRUE(hk_search_free(span, blocks[5]));
  EXPECT_FALSE(hk_search_free(span, blocks[11]));
  hk_store_relaxed(&heap->shared.incoming, HK_LIST_END);

  hk_remote_free(other, span, blocks[6]);
  hk_remote_free(other, span, blocks[7]);
  hk_block_link(blocks[6], under_way(blocks[7]));
  EXPECT_TRUE(hk_search_free(span, blocks[6]));
  EXPECT_FALSE(hk_search_free(span, blocks[11]));
}

// A list that was damaged, or that its owner changes meanwhile, may lead anywhere.
HK_FRESH_TEST(Search, FollowsNoLinkThatLeadsOutOfTheOwnersBlocks) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  for (unsigned class_index : {20u, 66u, 93u}) {
    hk_block_t *first = Alloc(heap, class_index), *held = Alloc(heap, class_index);
    hk_block_t *theirs = Alloc(other, class_index);
    while (Pop(heap, class_index) != nullptr) {
    }
    hk_slab_t *span = SpanOf(held);
    static hk_block_t elsewhere;
    uintptr_t inside = AddressOf(first) + 16, unmapped = AddressOf(first) + HK_GIB;
    ASSERT_FALSE(fake_os_is_mapped(At(unmapped), 16));
    void *run = hk_run_alloc(HK_SLAB_BYTES, 1, &is_zero);
    uintptr_t not_cut = hk_slab_start(span) + (span->slab_count - 1) * HK_SLAB_BYTES +
                        (hk_class_blocks_per_slab(class_index) - 1) * hk_class_bytes(class_index);
    for (uintptr_t place : {AddressOf(&elsewhere), AddressOf(theirs), inside, AddressOf(run), not_cut}) {
      hk_block_link(reinterpret_cast<hk_block_t *>(place), held); /* a search that follows it there finds its block */
    }
    for (uintptr_t link : {uintptr_t{0}, uintptr_t{1}, uintptr_t{16}, AddressOf(&elsewhere), AddressOf(theirs), inside,
                           unmapped, AddressOf(run), not_cut, AddressOf(heap), ~uintptr_t{0},
                           AddressOf(held) | uintptr_t{1} << HK_ADDRESS_BITS, uintptr_t{1} << 63}) {
      hk_block_link(first, reinterpret_cast<hk_block_t *>(link));
      heap->bin[class_index].free = first;
      EXPECT_FALSE(hk_search_free(span, held)) << link;
      EXPECT_TRUE(hk_search_free(span, first)) << "that far it goes";
      heap->bin[class_index].free = reinterpret_cast<hk_block_t *>(link);
      EXPECT_FALSE(hk_search_free(span, held)) << link;
    }
    heap->bin[class_index].free = HK_LIST_END;
  }
}

// While another thread's heap becomes sampled, its new lists may be seen before the record that they are in. Free
// blocks are in the bins, and in the shadow lists of those that are closed.
HK_FRESH_TEST(Search, OfASampledHeapReadsTheListsAlone) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> freed, held;
  for (unsigned class_index : {20u, 66u}) {
    for (int i = 0; i < 6; i++) (i % 2 ? freed : held).push_back(Alloc(heap, class_index));
  }
  ASSERT_TRUE(hk_sampling_begin(HK_MIB));
  hk_sample_countdown_follow(heap);
  ASSERT_TRUE(hk_heap_is_sampled(heap));
  for (hk_block_t *block : freed) (void)FreeOwn(heap, block);
  ASSERT_NE(hk_heap_effective_list(heap, 20), &heap->bin[20]);
  ASSERT_EQ(hk_heap_effective_list(heap, 66), &heap->bin[66]);
  hk_sample_countdowns_t *countdowns = heap->countdowns;
  heap->countdowns = nullptr;
  for (hk_block_t *block : freed) EXPECT_TRUE(hk_search_free(SpanOf(block), block));
  for (hk_block_t *block : held) EXPECT_FALSE(hk_search_free(SpanOf(block), block));
  heap->countdowns = countdowns;
}

#if !HK_SANITIZED /* it reads what the owner writes plainly, and says so */

void SearchWhileTheOwnerGivesMemoryBack() {
  hk_option.retain = 0;
  hk_option.spare_slabs = 0;
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  hk_block_t *held = Alloc(heap, 66);
  hk_remote_link(held, HK_LIST_END); /* looks under way: all lists are searched */
  std::atomic<bool> done{false};
  std::thread owner([heap, other, &done] {
    for (unsigned round = 0; !done; round++) {
      std::vector<hk_block_t *> blocks;
      for (unsigned class_index : {20u, 66u, 104u}) {
        for (int i = 0; i < 100; i++) blocks.push_back(Alloc(heap, class_index));
      }
      for (size_t i = 0; i < blocks.size(); i++) {
        if ((i + round) % 3 == 0) {
          hk_remote_free(other, SpanOf(blocks[i]), blocks[i]);
        } else {
          (void)FreeOwn(heap, blocks[i]);
        }
      }
      hk_remote_flush(other);
      hk_remote_drain(heap);
      hk_heap_flush(heap);
      (void)hk_purge_down_to(0);
    }
  });
  int found = 0;
  for (int i = 0; i < 3000; i++) found += hk_search_free(SpanOf(held), held);
  done = true;
  owner.join();
  EXPECT_EQ(found, 0);
}

// The owner's lists change all the time, and the spans that they lead to are unmapped: the search ends, in bounds, and
// finds no block that is in use. Only the kernel can read a span that may be unmapped at that moment (os/peek.h), and
// some emulators do not offer that.
TEST(Search, WhileTheOwnerWorksAndGivesMemoryBack) {
  int word = 1, copy = 0;
  if (!hk_os_copy(&copy, &word, sizeof word)) GTEST_SKIP() << "the system does not copy memory here";
  EXPECT_EQ(hk_test::RunFresh(SearchWhileTheOwnerGivesMemoryBack), 0);
}

#endif

HK_FRESH_TEST(Search, FindsNothingInASpanThatWasGivenUp) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *block = Alloc(heap, 66);
  hk_slab_t *span = SpanOf(block);
  (void)FreeOwn(heap, block);
  hk_heap_flush(heap);
  EXPECT_FALSE(hk_search_free(span, block));
  (void)hk_purge_down_to(0);
  EXPECT_FALSE(hk_search_free(span, block)) << "nor where nothing is mapped";
}

#endif

}  // namespace
