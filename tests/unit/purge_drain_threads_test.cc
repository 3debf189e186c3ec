// heap/purge_drain: owners that sleep now and then, threads that free what they have, and one that drains.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <thread>
#include <vector>

#include "fresh_test.h"
#include "scale.h"
#include "test_random.h"
#include "unit/held_blocks.h"
#include "unit/purge_drain_driver.h"

using namespace hk_test;

namespace {

// Owners that work and sleep in turns, threads that free what they took, and one that drains all owners, asleep or not.
class Course {
 public:
  void Run(size_t blocks_each) {
    is_over_ = false;
    std::vector<std::thread> owners, others;
    for (unsigned i = 0; i < kOwners; i++) owners.emplace_back([this, i, blocks_each] { Own(i, blocks_each); });
    for (unsigned i = 0; i < kFreers; i++) others.emplace_back([this, i] { FreeAll(i); });
    others.emplace_back([this] { KeepRescuing(); });
    for (std::thread &owner : owners) owner.join();
    is_over_ = true;
    for (std::thread &other : others) other.join();
    EXPECT_EQ(failures_, 0);
  }

  void ExpectAllHome(size_t blocks) {
    uint64_t home = ProcessStat(hk_stat_remote_drain), freed = 0;
    Settle();
    for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next) {
      hk_heap_flush(heap);
      EXPECT_EQ(heap->span_slabs, 0u);
      home += StatOf(heap, hk_stat_remote_drain);
      freed += StatOf(heap, hk_stat_remote_free);
    }
    EXPECT_EQ(InUseSlabs(), 0u) << "nothing lost";
    EXPECT_EQ(freed, blocks);
    EXPECT_EQ(home, blocks) << "nothing twice";
  }

 private:
  static constexpr unsigned kOwners = 2, kFreers = 2;
  static constexpr unsigned kClasses[] = {2, 33, 64, 80, 104};

  // The heap changes hands each time that its thread has slept, and the other owner may take a span out of it.
  void Own(unsigned number, size_t blocks) {
    TestRandom random(number);
    hk_heap_t *heap = hk_heap_take();
    for (size_t left = blocks; left > 0;) {
      unsigned class_index = kClasses[random.Below(std::size(kClasses))];
      for (size_t n = std::min<size_t>(left, 1 + random.Below(2000)); n > 0; n--, left--) {
        hk_block_t *block = Alloc(heap, class_index);
        if (block == nullptr || !Hold(block)) failures_++;
        if (block != nullptr) queues_[random.Below(kFreers)].Put(block);
      }
      if (heap->damaged != nullptr) failures_++;
      SleepUntilDrained();
      if (!random.OneIn(4)) continue;
      hk_heap_give_back(heap);
      std::this_thread::yield();
      heap = hk_heap_take();
    }
    hk_heap_give_back(heap);
  }

  void SleepUntilDrained() const {
    for (size_t until = drains_ + 2; drains_ < until;) std::this_thread::yield();
  }

  void FreeAll(unsigned number) {
    hk_heap_t *heap = hk_heap_take();
    for (bool is_last = false; !is_last;) {
      is_last = is_over_;
      for (hk_block_t *block : queues_[number].TakeAll()) {
        if (!LetGo(block)) failures_++;
        hk_remote_free(heap, hk_slab_of(block), block);
      }
      hk_remote_flush(heap);
      std::this_thread::yield();
    }
    hk_heap_give_back(heap);
  }

  void KeepRescuing() {
    while (!is_over_) {
      if (hk_purge_drain(kNow + drains_, 0) != nullptr) failures_++;
      drains_++;
    }
  }

  // Sends on the blocks that wait for a heap that their span has left.
  static void Settle() {
    for (bool is_pending = true; is_pending;) {
      is_pending = false;
      for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next) {
        Drain(heap);
        hk_remote_flush(heap);
      }
      for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next) {
        is_pending |= hk_heap_has_incoming(heap);
      }
    }
  }

  BlockQueue queues_[kFreers];
  std::atomic<size_t> drains_{0};
  std::atomic<bool> is_over_{false};
  std::atomic<int> failures_{0};
};

HK_FRESH_TEST(PurgeDrainThreads, NothingIsLostAndNothingTwice) {
  alarm(hk_test::kChildSeconds);
  const size_t blocks = Scaled(200000, 4000);
  Course course;
  size_t rounds = 0;
  /* The number of spans that are given up depends on the schedule: with fewer the test has not seen much. */
  do {
    course.Run(blocks);
    rounds++;
  } while (ProcessStat(hk_stat_slab_release) <= 10);
  course.ExpectAllHome(2 * blocks * rounds);
}

// A block of a span that has moved waits for the old owner. The new owner makes the span shorter, of which the purge
// thread sees the owner alone. ThreadSanitizer notices more: the two threads have no order, though one comes after the
// other.
void ShortenAMovedSpanThatIsMet(hk_heap_t *first, hk_heap_t *second, hk_heap_t *other, unsigned class_index) {
  hk_block_t *block = Alloc(first, class_index);
  hk_slab_t *span = SpanOf(block);
  RemoteFree(other, block);
  EXPECT_FALSE(hk_heap_give_back(first));
  ASSERT_EQ(SpanOf(Alloc(second, class_index)), span);
  ASSERT_EQ(hk_load_relaxed(&span->owner), second) << "the span has moved";
  ASSERT_TRUE(hk_heap_take_this(first));
  hk_remote_flush(other);
  ExpectWaiting(first, 1);
  unsigned slabs = span->slab_count;
  std::atomic<bool> is_drained{false};
  std::thread shortener([&] {
    while (!is_drained.load(std::memory_order_relaxed)) std::this_thread::yield();
    EXPECT_TRUE(hk_heap_claim_spans(second));
    EXPECT_EQ(hk_span_shorten(second, span), hk_shorten_done);
    hk_heap_unclaim_spans(second);
  });
  std::thread purger([&] {
    EXPECT_EQ(hk_purge_drain(kNow, 0), nullptr);
    is_drained.store(true, std::memory_order_relaxed);
  });
  purger.join();
  shortener.join();
  EXPECT_LT(span->slab_count, slabs);
  ExpectWaiting(first, 1);
  (void)hk_remote_drain(first);
  hk_remote_flush(first);
}

// Spans of several slabs, of whose blocks a batch has room for more than one.
HK_FRESH_TEST(PurgeDrainThreads, ReadsNoMoreOfAnotherHeapsSpanThanItsOwner) {
  hk_heap_t *first = hk_heap_take(), *second = hk_heap_take(), *other = hk_heap_take();
  for (unsigned class_index = hk_class_of(8 * HK_KIB) + 1; hk_class_bytes(class_index) <= 16 * HK_KIB; class_index++)
    ShortenAMovedSpanThatIsMet(first, second, other, class_index);
}

}  // namespace
