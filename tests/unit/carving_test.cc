// heap/refill: how many blocks are carved at a time. refill_test.cc has where the next block comes from.
#include <algorithm>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

using namespace hk_test;

namespace {

enum class Memory { kNeverUsed, kUsed };

void LeaveUsedMemory() {
  bool is_zero = false;
  std::vector<void *> runs;
  while (runs.size() < 3) runs.push_back(hk_run_alloc(HK_SUPERSLAB_BYTES, 1, &is_zero));
  for (void *run : runs) EXPECT_TRUE(hk_run_free(hk_slab_of(run)));
}

std::vector<unsigned> CarveCounts(unsigned class_index, unsigned times, Memory memory = Memory::kNeverUsed) {
  hk_heap_t *heap = hk_heap_take();
  if (memory == Memory::kUsed) LeaveUsedMemory();
  std::vector<unsigned> counts;
  for (unsigned i = 0; i < times; i++) {
    if (!hk_refill(heap, class_index, nullptr)) break;
    EXPECT_EQ(heap->state[class_index].active.load()->is_zero, memory == Memory::kNeverUsed);
    counts.push_back(ListLength(heap->bin[class_index].free));
    (void)PopAll(heap, class_index);
  }
  EXPECT_EQ(StatOf(heap, hk_stat_refill), times);
  EXPECT_EQ(StatOf(heap, hk_stat_carve), times);
  return counts;
}

HK_FRESH_TEST(Carving, OfUsedMemoryAQuarterMoreBlocksAreCarvedEachTimeInWholePages) {
  using Counts = std::vector<unsigned>;
  EXPECT_EQ(CarveCounts(hk_class_of(16), 14, Memory::kUsed),
            (Counts{256, 256, 256, 256, 512, 768, 768, 1024, 1792, 2048, 256, 2048, 2048, 2048}))
      << "a page, and up to half a slab; a slab's last blocks are fewer";
  EXPECT_EQ(CarveCounts(hk_class_of(1024), 14, Memory::kUsed),
            (Counts{4, 4, 4, 8, 12, 12, 16, 4, 32, 32, 32, 32, 32, 32}));
}

// Links are written to the beginnings of blocks. So each refill takes at most one page fault.
HK_FRESH_TEST(Carving, OfNeverUsedMemoryTheBlocksThatBeginInAPageAreCarvedAtATime) {
  const size_t page = hk_os_page_size();
  for (unsigned class_index = 1; class_index <= HK_TINY_CLASS_MAX; class_index++) {
    SCOPED_TRACE(class_index);
    const size_t bytes = hk_class_bytes(class_index), most = hk_class_blocks_per_slab(class_index) * bytes;
    size_t begin = 0;
    unsigned carvings_of_page = 0;
    for (unsigned count : CarveCounts(class_index, 60)) {
      const size_t next = begin + count * bytes;
      EXPECT_LT(next - bytes, begin / page * page + page) << "the last block begins in the same page as the first";
      carvings_of_page = begin % page < bytes ? 1 : carvings_of_page + 1;
      EXPECT_LE(carvings_of_page, 2u) << "the first carving of a class may leave a last block";
      begin = next < most ? next : 0;
    }
  }
}

HK_FRESH_TEST(Carving, OfALargePageHalfASlabIsCarvedAtMost) {
  fake_os_set_page_size(64 * HK_KIB);
  for (unsigned class_index = 1; class_index <= HK_TINY_CLASS_MAX; class_index++) {
    SCOPED_TRACE(class_index);
    const size_t bytes = hk_class_bytes(class_index);
    unsigned left = hk_class_blocks_per_slab(class_index);
    for (unsigned count : CarveCounts(class_index, 20)) {
      EXPECT_GE(count, 1u);
      EXPECT_LE(count * bytes, 32 * HK_KIB);
      ASSERT_LE(count, left) << "of one slab";
      left = count < left ? left - count : hk_class_blocks_per_slab(class_index);
    }
  }
}

HK_FRESH_TEST(Carving, WhatIsCarvedOfUsedMemoryForATinyClassEndsWithAPage) {
  const size_t page = hk_os_page_size();
  for (unsigned class_index = 1; class_index <= HK_TINY_CLASS_MAX; class_index++) {
    SCOPED_TRACE(class_index);
    const size_t bytes = hk_class_bytes(class_index), most = hk_class_blocks_per_slab(class_index) * bytes;
    size_t end = 0;
    for (unsigned count : CarveCounts(class_index, 30, Memory::kUsed)) {
      EXPECT_GE(count * bytes, std::min(page - bytes, most - end)) << "and is not much less than a page";
      end += count * bytes;
      if (end < most) {
        EXPECT_TRUE(end % page == 0 || end % page + bytes > page) << "the next block reaches into the next page";
      } else {
        end = 0;
      }
    }
  }
}

// A page fault each is what they cost; a refill beside it is nothing.
HK_FRESH_TEST(Carving, OfAMidClassAPagesWorthOrOneBlockIsCarvedAtATime) {
  for (unsigned class_index = HK_TINY_CLASS_MAX + 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    unsigned count = std::max(1u, static_cast<unsigned>(4 * HK_KIB / hk_class_bytes(class_index)));
    unsigned capacity = CapacityOf(class_index);
    std::vector<unsigned> expected;
    while (expected.size() < 20) {
      for (unsigned left = capacity; left > 0; left -= expected.back()) expected.push_back(std::min(count, left));
    }
    std::vector<unsigned> counts = CarveCounts(class_index, static_cast<unsigned>(expected.size()));
    EXPECT_EQ(counts, expected) << "of a span's last blocks what there is";
  }
}

// The first page comes in the program's own time, when it writes to the block.
HK_FRESH_TEST(Carving, ABlockThatWasNeverUsedIsNotTouched) {
  hk_heap_t *heap = hk_heap_take();
  unsigned class_index = hk_class_of(8 * HK_KIB);
  hk_block_t *untouched = nullptr;
  ASSERT_TRUE(hk_refill(heap, class_index, &untouched));
  ASSERT_NE(untouched, nullptr);
  EXPECT_EQ(hk_os_resident_bytes(untouched, 8 * HK_KIB), 0u);
  EXPECT_EQ(ListLength(heap->bin[class_index].free), 0u);
  EXPECT_EQ(heap->bin[class_index].countdown, RoomOf(heap, class_index));
  CheckSpan(heap, SpanOf(untouched), 1);
  EXPECT_TRUE(hk_heap_was_fresh(heap, class_index));
  (void)FreeOwn(heap, untouched);
  hk_block_t *used = nullptr;
  EXPECT_EQ(Pop(heap, class_index), untouched);
  ASSERT_TRUE(hk_refill(heap, class_index, &used));
  EXPECT_NE(used, untouched);
}

// It is not known how much of used memory was touched. So a refill carves little at first, and each time more, but
// never so much that the list is full.
HK_FRESH_TEST(Carving, OfUsedMemoryMoreIsCarvedEachTime) {
  for (unsigned class_index = HK_TINY_CLASS_MAX + 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    hk_heap_t *heap = hk_heap_take();
    hk_option.spare_slabs = class_index % 2 == 0 ? 4 : 0; /* spare slabs, or a superslab's */
    (void)FreeOwn(heap, Alloc(heap, class_index));
    hk_mid_spill_all(heap);
    ASSERT_EQ(heap->state[class_index].active.load(), nullptr);
    unsigned expected = std::max(1u, static_cast<unsigned>(4 * HK_KIB / hk_class_bytes(class_index)));
    int checked = 0;
    for (int i = 0; i < 12; i++) {
      ASSERT_TRUE(hk_refill(heap, class_index, nullptr));
      const hk_slab_t *span = heap->state[class_index].active.load();
      if (span->is_zero) break;
      unsigned length = ListLength(heap->bin[class_index].free);
      expected = std::min(expected, RoomOf(heap, class_index) - 1);
      if (CarvedOf(span) < CapacityOf(class_index)) {
        EXPECT_EQ(length, expected);
        checked++;
      }
      EXPECT_FALSE(hk_heap_was_fresh(heap, class_index));
      CheckSpan(heap, span, CarvedOf(span) - length);
      (void)PopAll(heap, class_index);
      expected += (expected + 3) / 4;
    }
    EXPECT_GE(checked, 1) << "the span that was used";
  }
}

void SetMidRoom(hk_heap_t *heap, unsigned class_index, unsigned room) {
  ASSERT_EQ(ListLength(heap->bin[class_index].free), 0u);
  heap->state[class_index].room = static_cast<uint16_t>(room);
  heap->bin[class_index].countdown = room;
}

HK_FRESH_TEST(Carving, OfUsedMemoryACarvingGrowsUpToWhatAMidListHasRoomFor) {
  LeaveUsedMemory();
  hk_heap_t *heap = hk_heap_take();
  for (size_t bytes : {2 * HK_KIB, 5 * HK_KIB, 8 * HK_KIB, 16 * HK_KIB}) {
    SCOPED_TRACE(bytes);
    const unsigned class_index = hk_class_of(bytes), room = hk_class_room(class_index, HK_ROOM_MAX_BYTES);
    SetMidRoom(heap, class_index, room);
    unsigned count = std::max(1u, static_cast<unsigned>(4 * HK_KIB / bytes)), left = CapacityOf(class_index);
    size_t longest = 0;
    for (int i = 0; i < 16; i++) {
      if (left == 0) { /* a refill that finds a span's end asks twice */
        left = CapacityOf(class_index);
        count += (count + 3) / 4;
      }
      ASSERT_TRUE(hk_refill(heap, class_index, nullptr));
      ASSERT_FALSE(heap->state[class_index].active.load()->is_zero);
      const unsigned length = ListLength(heap->bin[class_index].free);
      EXPECT_EQ(length, std::min({count, room - 1, left})) << "refill " << i;
      CheckMidBin(heap, class_index);
      (void)PopAll(heap, class_index);
      longest = std::max(longest, length * bytes);
      left -= length;
      count += (count + 3) / 4;
    }
    EXPECT_GT(longest, 32 * HK_KIB);
  }
}

// Spills may have halved the room since the count was set.
HK_FRESH_TEST(Carving, ACarvingNeverFillsAMidListWhoseRoomHasShrunk) {
  LeaveUsedMemory();
  hk_heap_t *heap = hk_heap_take();
  const unsigned class_index = hk_class_of(8 * HK_KIB);
  heap->state[class_index].carve_count = static_cast<uint16_t>(hk_class_room(class_index, HK_ROOM_MAX_BYTES));
  SetMidRoom(heap, class_index, HK_ROOM_MIN_BLOCKS);
  ASSERT_TRUE(hk_refill(heap, class_index, nullptr));
  EXPECT_EQ(ListLength(heap->bin[class_index].free), HK_ROOM_MIN_BLOCKS - 1);
  CheckMidBin(heap, class_index);
}

HK_FRESH_TEST(Carving, EachClassStartsWithAtMostAPageOrOneBlock) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    ASSERT_TRUE(hk_refill(heap, class_index, nullptr));
    size_t bytes = ListLength(heap->bin[class_index].free) * hk_class_bytes(class_index);
    EXPECT_LE(bytes, std::max(4 * HK_KIB, hk_class_bytes(class_index)));
    EXPECT_GT(bytes + hk_class_bytes(class_index), 4 * HK_KIB);
    EXPECT_TRUE(hk_heap_was_fresh(heap, class_index));
    EXPECT_EQ(hk_bin_is_fresh(&heap->bin[class_index]), !hk_class_is_mid(class_index));
    CheckSpan(heap, heap->state[class_index].active.load(), 0);
    (void)Alloc(heap, class_index); /* so that the span is not taken for the next class */
  }
}

}  // namespace
