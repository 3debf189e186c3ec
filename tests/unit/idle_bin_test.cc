// heap/idle_bin: the memory of sizes that a heap no longer requests serves others when the heap grows.
#include <algorithm>
#include <numeric>
#include <vector>

#include "fresh_test.h"
#include "test_random.h"
#include "unit/heap_driver.h"

extern "C" {
#include "heap/idle_bin.h"
}

using namespace hk_test;

namespace {

// Lets the heap look at its bins `times` times.
void Look(hk_heap_t *heap, unsigned times) {
  for (unsigned i = 0; i < times; i++) (void)hk_idle_bin_flush_one(heap);
}

bool HasActive(hk_heap_t *heap, unsigned class_index) { return heap->state[class_index].active.load() != nullptr; }

bool IsCandidate(hk_heap_t *heap, unsigned class_index) {
  return hk_class_set_has(&heap->idle_bins.candidates, class_index);
}

constexpr unsigned kIdleClasses[] = {8, 40, 64};

HK_FRESH_TEST(IdleBin, IsFlushedAtTheSecondLookIntoIt) {
  for (unsigned class_index : kIdleClasses) {
    SCOPED_TRACE(class_index);
    hk_heap_t *heap = hk_heap_take();
    (void)FreeOwn(heap, Alloc(heap, class_index));
    Look(heap, 1);
    EXPECT_TRUE(HasActive(heap, class_index)) << "it was refilled since the last look";
    Look(heap, 1);
    EXPECT_FALSE(HasActive(heap, class_index));
    EXPECT_EQ(heap->bin[class_index].free, HK_LIST_END);
    EXPECT_EQ(StatOf(heap, hk_stat_slab_release), 1u);
    (void)FreeOwn(heap, Alloc(heap, class_index));
    EXPECT_TRUE(HasActive(heap, class_index)) << "and serves again";
  }
}

HK_FRESH_TEST(IdleBin, OneLookFlushesOneBin) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> blocks;
  for (unsigned class_index : {8u, 24u, 40u, 64u}) blocks.push_back(Alloc(heap, class_index));
  for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
  Look(heap, 1);
  for (unsigned looks = 0; looks <= blocks.size(); looks++) {
    EXPECT_EQ(StatOf(heap, hk_stat_slab_release), looks);
    Look(heap, 1);
  }
}

HK_FRESH_TEST(IdleBin, WithABlockInUseWaitsUntilItComesBack) {
  for (unsigned class_index : kIdleClasses) {
    SCOPED_TRACE(class_index);
    hk_heap_t *heap = hk_heap_take();
    hk_block_t *one = Alloc(heap, class_index), *other = Alloc(heap, class_index);
    (void)FreeOwn(heap, one);
    Look(heap, 3);
    EXPECT_TRUE(HasActive(heap, class_index));
    EXPECT_FALSE(IsCandidate(heap, class_index));
    (void)FreeOwn(heap, other);
    EXPECT_TRUE(IsCandidate(heap, class_index)) << "as many blocks came back as were in use";
    Look(heap, 1);
    EXPECT_FALSE(HasActive(heap, class_index));
  }
}

// No block came back, so all that were handed out are in use: a look would count the list for nothing.
HK_FRESH_TEST(IdleBin, ThatIsFreshStaysFresh) {
  hk_heap_t *heap = hk_heap_take();
  (void)Alloc(heap, 8);
  Look(heap, 4);
  EXPECT_TRUE(hk_bin_is_fresh(&heap->bin[8]));
}

HK_FRESH_TEST(IdleBin, OfManySmallBlocksIsNotCounted) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> blocks = AllocMany(heap, 1, 600);
  for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
  Look(heap, 4);
  EXPECT_TRUE(HasActive(heap, 1));
}

// The fewest blocks of a mid class that have more bytes than a slab.
unsigned BlocksOfASlab(unsigned class_index) {
  return static_cast<unsigned>(HK_SLAB_BYTES / hk_class_bytes(class_index)) + 1;
}

size_t ListBytes(hk_heap_t *heap, unsigned class_index) {
  return hk_free_list_length(heap->bin[class_index].free) * hk_class_bytes(class_index);
}

// Allocates blocks of a mid class and frees them: the bin's list has them.
void FillMidBin(hk_heap_t *heap, unsigned class_index, unsigned count) {
  heap->state[class_index].room = HK_ROOM_MAX_BLOCKS;
  for (hk_block_t *block : AllocMany(heap, class_index, count)) (void)FreeOwn(heap, block);
}

constexpr unsigned kMidClasses[] = {72, 80, 88};

HK_FRESH_TEST(IdleBin, OfAMidClassIsSpilledAtTheSecondLook) {
  for (unsigned class_index : kMidClasses) {
    SCOPED_TRACE(class_index);
    hk_heap_t *heap = hk_heap_take();
    FillMidBin(heap, class_index, BlocksOfASlab(class_index));
    Look(heap, 1);
    EXPECT_NE(heap->bin[class_index].free, HK_LIST_END) << "it was refilled since the last look";
    Look(heap, 1);
    EXPECT_EQ(heap->bin[class_index].free, HK_LIST_END);
    EXPECT_GE(StatOf(heap, hk_stat_slab_release), 1u);
    CheckMidBin(heap, class_index);
    FillMidBin(heap, class_index, BlocksOfASlab(class_index));
    Look(heap, 2);
    EXPECT_EQ(heap->bin[class_index].free, HK_LIST_END) << "and again";
  }
}

HK_FRESH_TEST(IdleBin, OfAMidClassWithFewBlocksIsLeft) {
  for (unsigned class_index : kMidClasses) {
    SCOPED_TRACE(class_index);
    hk_heap_t *heap = hk_heap_take();
    FillMidBin(heap, class_index, 2);
    ASSERT_LT(ListBytes(heap, class_index), HK_SLAB_BYTES);
    Look(heap, 4);
    EXPECT_NE(heap->bin[class_index].free, HK_LIST_END);
  }
}

// Allocates and frees a span's blocks of one class after the other. Returns the most slabs in use.
size_t GoThrough(hk_heap_t *heap, const std::vector<unsigned> &classes) {
  size_t most = 0;
  for (unsigned class_index : classes) {
    std::vector<hk_block_t *> blocks = AllocMany(heap, class_index, CapacityOf(class_index));
    most = std::max(most, InUseSlabs());
    for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
  }
  return most;
}

// A heap that goes from one size to the next takes the slabs of the sizes before.
HK_FRESH_TEST(IdleBin, IsFlushedWhenTheHeapGrows) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<unsigned> classes(HK_TINY_CLASS_MAX - 7);
  std::iota(classes.begin(), classes.end(), 8u);
  EXPECT_LE(GoThrough(heap, classes), 28u) << "spare slabs and the reserve among them";
}

HK_FRESH_TEST(IdleBin, IsNotFlushedWhereTheHeapHadAsManySlabs) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> blocks = AllocMany(heap, 64, 8 * CapacityOf(64));
  for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
  (void)GoThrough(heap, {20, 30, 40, 50});
  for (unsigned class_index : {20u, 30u, 40u, 50u}) EXPECT_TRUE(HasActive(heap, class_index)) << class_index;
  for (unsigned class_index : kMidClasses) FillMidBin(heap, class_index, BlocksOfASlab(class_index));
  (void)GoThrough(heap, {25, 35, 45});
  for (unsigned class_index : kMidClasses) EXPECT_GE(ListBytes(heap, class_index), HK_SLAB_BYTES) << class_index;
}

// A bin serves without a refill as long as the program frees each block before the next one.
HK_FRESH_TEST(IdleBin, OfASizeInUseIsFlushedFewTimes) {
  hk_heap_t *heap = hk_heap_take();
  TestRandom random{7};
  uint64_t acquired = 0;
  for (int round = 0; round < 2; round++) {
    acquired = StatOf(heap, hk_stat_slab_acquire);
    for (int i = 0; i < 20000; i++) {
      auto class_index = static_cast<unsigned>(random.Between(1, HK_TINY_CLASS_MAX));
      (void)FreeOwn(heap, Alloc(heap, class_index));
    }
    EXPECT_LT(StatOf(heap, hk_stat_slab_acquire), 4 * HK_TINY_CLASS_MAX);
  }
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), acquired) << "in the end none";
}

// A heap that goes through many mid sizes keeps the blocks of few.
HK_FRESH_TEST(IdleBin, OfAMidClassIsSpilledWhenTheHeapGrows) {
  hk_heap_t *heap = hk_heap_take();
  constexpr unsigned kFirst = 67, kEnd = 90;
  for (unsigned class_index = kFirst; class_index < kEnd; class_index++)
    FillMidBin(heap, class_index, BlocksOfASlab(class_index));
  unsigned filled = 0;
  for (unsigned class_index = kFirst; class_index < kEnd; class_index++)
    filled += heap->bin[class_index].free != HK_LIST_END;
  EXPECT_LT(filled, kEnd - kFirst);
}

}  // namespace
