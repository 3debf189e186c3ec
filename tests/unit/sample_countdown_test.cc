// heap/sample_countdown as api/alloc uses it: an open bin of a tiny class that frees close while it is refilled.
// Its blocks afterwards are counted already, and the block behind them is the next to be sampled.
#include <memory>
#include <thread>
#include <vector>

#include "fresh_test.h"
#include "hakmem/hakmem.h"
#include "unit/heap_driver.h"

extern "C" {
#include "heap/sample_countdown.h"
#include "inspect/profile.h"
}

using namespace hk_test;

namespace {

// Between two sampled blocks there are many of the smallest ones, and fewer than a span has.
constexpr uint64_t kRate = 16 * HK_KIB;
constexpr size_t kSize = 16, kSizeOfSample = kSize + HK_BLOCK_ALIGNMENT;

bool IsSampled(const void *block) { return hk_verify(block).offset != 0; }

// A class's bin, open and without a block, and the blocks allocated of the class.
class OpenBin {
 public:
  explicit OpenBin(size_t size) : size_(size), class_index_(hk_class_of(size)) {
    do {
      Take();
    } while (!IsOpen() || Bin()->free != HK_LIST_END || Left() < 2 || Left() > Homely());
  }

  bool IsOpen() const { return hk_load_relaxed(&hk_thread_own()->countdowns->of[class_index_].is_open); }

  // The number of frees that close it.
  uint32_t Left() const { return Bin()->countdown; }

  // Blocks that were freed and handed out again count, too.
  void Lower(uint32_t left) {
    uint32_t count = Left() - left;
    for (uint32_t i = 0; i < count; i++) hakmem_free(TakeHomely());
    for (uint32_t i = 0; i < count; i++) Take();
    ASSERT_TRUE(IsOpen());
    ASSERT_EQ(Bin()->free, HK_LIST_END);
    ASSERT_EQ(Left(), left);
  }

  // Frees them in another thread.
  void Send(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
      hk_block_t *block = TakeHomely();
      hk_remote_free_now(hk_slab_of(block), block);
    }
  }

  // For another thread to free.
  std::vector<hk_block_t *> GiveAway(uint32_t count) {
    std::vector<hk_block_t *> blocks;
    for (uint32_t i = 0; i < count; i++) blocks.push_back(TakeHomely());
    return blocks;
  }

  void *Take() {
    blocks_.push_back(hakmem_malloc(size_));
    return blocks_.back();
  }

  // One of the `left` blocks whose frees closed the bin was taken: takes the others.
  void ExpectClosed(uint32_t left) {
    EXPECT_FALSE(IsOpen());
    const hk_free_list_t *list = hk_heap_effective_list(hk_thread_own(), class_index_);
    uint32_t counted = hk_thread_own()->countdowns->of[class_index_].start_length + (list->start - list->countdown);
    EXPECT_EQ(counted, ListLength(list->free)) << "the taken block was none of the effective free list's";
    for (uint32_t i = 1; i < left; i++) ASSERT_FALSE(IsSampled(Take())) << i;
  }

  void FreeAll() {
    for (void *block : blocks_) hakmem_free(block);
    blocks_.clear();
  }

 private:
  const hk_free_list_t *Bin() const { return &hk_thread_own()->bin[class_index_]; }

  // A block of the span whose blocks return to the bin.
  bool IsHomely(const void *block) const {
    return IsActive(hk_thread_own(), SpanOf(block)) && SpanOf(block)->class_index == class_index_;
  }

  // Some more than that close the bin are wanted, too.
  uint32_t Homely() const {
    uint32_t count = 0;
    for (const void *block : blocks_) count += IsHomely(block);
    return count / 2;
  }

  hk_block_t *TakeHomely() {
    size_t i = blocks_.size();
    while (!IsHomely(blocks_[--i])) {
    }
    void *block = blocks_[i];
    blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(i));
    return static_cast<hk_block_t *>(block);
  }

  const size_t size_;
  const unsigned class_index_;
  std::vector<void *> blocks_;
};

void ExpectNothingLost() {
  EXPECT_TRUE(hakmem_profile_stop());
  (void)hakmem_collect();
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_misuse]), 0u);
}

void ExpectClosedByARequest(uint32_t left, uint32_t more) {
  ASSERT_TRUE(hakmem_profile_start(kRate));
  OpenBin bin(kSize);
  bin.Lower(left);
  bin.Send(left + more);
  EXPECT_FALSE(IsSampled(bin.Take()));
  bin.ExpectClosed(left);
  EXPECT_TRUE(IsSampled(bin.Take())) << "the one that was drawn";
  bin.FreeAll();
  ExpectNothingLost();
}

HK_FRESH_TEST(CountdownWhileFilled, WhereTheNextSampledBlockIsFar) { ExpectClosedByARequest(2, 0); }
HK_FRESH_TEST(CountdownWhileFilled, WhereTheNextSampledBlockIsFarAndMoreComeBack) { ExpectClosedByARequest(2, 10); }
HK_FRESH_TEST(CountdownWhileFilled, WhereTheNextSampledBlockIsTheOneAfter) { ExpectClosedByARequest(1, 0); }
HK_FRESH_TEST(CountdownWhileFilled, WhereTheNextSampledBlockIsTheOneAfterAndMoreComeBack) {
  ExpectClosedByARequest(1, 10);
}

// The request that closes it is for the larger block that a smaller sampled one is put into. The smaller one's
// bin needs no refill.
void ExpectClosedByASample(uint32_t left, uint32_t more) {
  ASSERT_TRUE(hakmem_profile_start(kRate));
  OpenBin smaller(kSize);
  smaller.Lower(1);
  smaller.Send(1);
  (void)smaller.Take();
  smaller.ExpectClosed(1);
  OpenBin bin(kSizeOfSample);
  bin.Lower(left);
  bin.Send(left + more);
  EXPECT_TRUE(IsSampled(smaller.Take()));
  bin.ExpectClosed(left);
  EXPECT_TRUE(IsSampled(bin.Take())) << "the one that was drawn";
  smaller.FreeAll();
  bin.FreeAll();
  ExpectNothingLost();
}

HK_FRESH_TEST(CountdownWhileFilled, ForABlockThatIsSampled) { ExpectClosedByASample(5, 0); }
HK_FRESH_TEST(CountdownWhileFilled, ForABlockThatIsSampledAndMoreComeBack) { ExpectClosedByASample(5, 10); }

// By remote frees to a heap that no thread has.
void ExpectClosedWhileIdle(uint32_t left, uint32_t more) {
  ASSERT_TRUE(hakmem_profile_start(kRate));
  unsigned class_index = hk_class_of(kSize);
  hk_heap_t *heap;
  std::vector<hk_block_t *> homely;
  std::unique_ptr<OpenBin> bin;
  std::thread([&] {
    bin = std::make_unique<OpenBin>(kSize);
    bin->Lower(left);
    homely = bin->GiveAway(left + more);
    heap = hk_thread_own();
    hk_thread_on_exit();
  }).join();
  ASSERT_EQ(hk_heap_life(heap), hk_heap_idle);
  for (hk_block_t *block : homely) hk_remote_free_now(hk_slab_of(block), block);
  EXPECT_EQ(heap->bin[class_index].free, HK_LIST_END) << "no request takes from it";
  EXPECT_EQ(ListLength(hk_heap_effective_list(heap, class_index)->free), left + more);
  std::thread([&] {
    EXPECT_FALSE(IsSampled(bin->Take()));
    EXPECT_EQ(hk_thread_own(), heap);
    bin->ExpectClosed(left);
    EXPECT_TRUE(IsSampled(bin->Take())) << "the one that was drawn";
    bin->FreeAll();
    hk_thread_on_exit();
  }).join();
  ExpectNothingLost();
}

HK_FRESH_TEST(CountdownWhileIdle, ItsBlocksGoBack) { ExpectClosedWhileIdle(5, 0); }
HK_FRESH_TEST(CountdownWhileIdle, WithThoseThatComeLater) { ExpectClosedWhileIdle(5, 10); }

// As the part of a named heap that ended, whose bin was open (heap/part.c).
HK_FRESH_TEST(SampleCountdown, AHeapThatWasResetHasNoOpenBin) {
  hk_heap_t *heap = hk_heap_take();
  const unsigned kClass = hk_class_of(kSize);
  ASSERT_TRUE(hk_sampling_begin(kRate));
  hk_sample_countdown_follow(heap);
  hk_span_set_open(heap, kClass, true);
  ASSERT_TRUE(hk_sampling_end());
  hk_heap_reset(heap);
  (void)Alloc(heap, kClass);
  hk_block_t *block = Alloc(heap, kClass);
  ASSERT_TRUE(hk_sampling_begin(kRate));
  hk_sample_countdown_follow(heap);
  EXPECT_EQ(SpanOf(block)->free_list, hk_heap_effective_list(heap, kClass));
  (void)FreeOwn(heap, block);
  EXPECT_EQ(hk_heap_effective_list(heap, kClass)->free, block);
}

}  // namespace
