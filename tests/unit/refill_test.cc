// heap/refill: where the next block comes from, how many are carved at a time.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/heap_driver.h"

using namespace hk_test;

namespace {

// All blocks of one whole span, handed out; the span is the active one, and its bin is empty.
std::vector<hk_block_t *> TakeWholeSpan(hk_heap_t *heap, unsigned class_index) {
  std::vector<hk_block_t *> blocks = {Alloc(heap, class_index)};
  while (blocks.size() < CapacityOf(class_index)) blocks.push_back(Alloc(heap, class_index));
  return blocks;
}

// ---- Few blocks of a class.

hk_heap_t *SecondHeap() {
  (void)hk_heap_take();
  return hk_heap_take();
}

HK_FRESH_TEST(Refill, ACoarseClassServesTheFirstRequestsOfATinyClass) {
  hk_heap_t *heap = SecondHeap();
  for (int i = 0; i < 8; i++) EXPECT_EQ(hk_refill_choose_class(heap, hk_class_of(272), 16), hk_class_of(384)) << i;
  EXPECT_EQ(hk_refill_choose_class(heap, hk_class_of(272), 16), hk_class_of(272));
  EXPECT_EQ(hk_refill_choose_class(heap, hk_class_of(288), 16), hk_class_of(384)) << "each class counts for itself";
}

HK_FRESH_TEST(Refill, AClassWithBlocksServesItself) {
  hk_heap_t *heap = SecondHeap();
  ASSERT_TRUE(hk_refill(heap, hk_class_of(272), nullptr));
  EXPECT_EQ(hk_refill_choose_class(heap, hk_class_of(272), 16), hk_class_of(272));
}

HK_FRESH_TEST(Refill, MidClassesAndCoarseOnesServeThemselves) {
  hk_heap_t *heap = SecondHeap();
  for (size_t bytes : {16, 48, 64, 96, 128, 192, 1024, 1152, 5120}) {
    EXPECT_EQ(hk_refill_choose_class(heap, hk_class_of(bytes), 16), hk_class_of(bytes)) << bytes;
  }
}

HK_FRESH_TEST(Refill, ACoarseClassKeepsTheAlignment) {
  hk_heap_t *heap = SecondHeap();
  EXPECT_EQ(hk_refill_choose_class(heap, hk_class_of(320), 64), hk_class_of(384)) << "a multiple of 64";
  EXPECT_EQ(hk_refill_choose_class(heap, hk_class_of(160), 32), hk_class_of(192));
  EXPECT_EQ(hk_refill_choose_class(heap, hk_class_of(80), 80), hk_class_of(80)) << "96 is no multiple of 80";
}

HK_FRESH_TEST(Refill, TheNextThreadBeginsAnew) {
  hk_heap_t *heap = SecondHeap();
  for (int i = 0; i < 9; i++) (void)hk_refill_choose_class(heap, hk_class_of(272), 16);
  hk_heap_begin_small(heap);
  EXPECT_EQ(hk_refill_choose_class(heap, hk_class_of(272), 16), hk_class_of(384));
}

HK_FRESH_TEST(Refill, InTheFirstHeapEachClassServesItself) {
  hk_heap_t *heap = hk_heap_take();
  EXPECT_EQ(hk_refill_choose_class(heap, hk_class_of(272), 16), hk_class_of(272));
}

// ---- How many blocks are carved.

enum class Memory { kNeverUsed, kUsed };

void LeaveUsedMemory() {
  bool zero = false;
  std::vector<void *> runs;
  while (runs.size() < 3) runs.push_back(hk_run_alloc(HK_SUPERSLAB_BYTES, 1, &zero));
  for (void *run : runs) EXPECT_TRUE(hk_run_free(hk_slab_of(run)));
}

std::vector<unsigned> CarveCounts(unsigned class_index, unsigned times, Memory memory = Memory::kNeverUsed) {
  hk_heap_t *heap = hk_heap_take();
  if (memory == Memory::kUsed) LeaveUsedMemory();
  std::vector<unsigned> counts;
  for (unsigned i = 0; i < times; i++) {
    if (!hk_refill(heap, class_index, nullptr)) break;
    EXPECT_EQ(heap->state[class_index].active.load()->zero, memory == Memory::kNeverUsed);
    counts.push_back(ListLength(heap->bin[class_index].free));
    (void)PopAll(heap, class_index);
  }
  EXPECT_EQ(StatOf(heap, hk_stat_refill), times);
  EXPECT_EQ(StatOf(heap, hk_stat_carve), times);
  return counts;
}

HK_FRESH_TEST(Refill, OfUsedMemoryAQuarterMoreBlocksAreCarvedEachTimeInWholePages) {
  using Counts = std::vector<unsigned>;
  EXPECT_EQ(CarveCounts(hk_class_of(16), 14, Memory::kUsed),
            (Counts{256, 256, 256, 256, 512, 768, 768, 1024, 1792, 2048, 256, 2048, 2048, 2048}))
      << "a page, and up to half a slab; a slab's last blocks are fewer";
  EXPECT_EQ(CarveCounts(hk_class_of(1024), 14, Memory::kUsed),
            (Counts{4, 4, 4, 8, 12, 12, 16, 4, 32, 32, 32, 32, 32, 32}));
}

// Links are written to the beginnings of blocks. So each refill takes at most one page fault.
HK_FRESH_TEST(Refill, OfNeverUsedMemoryTheBlocksThatBeginInAPageAreCarvedAtATime) {
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

HK_FRESH_TEST(Refill, OfALargePageHalfASlabIsCarvedAtMost) {
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

HK_FRESH_TEST(Refill, WhatIsCarvedOfUsedMemoryForATinyClassEndsWithAPage) {
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
HK_FRESH_TEST(Refill, OfAMidClassAPagesWorthOrOneBlockIsCarvedAtATime) {
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
HK_FRESH_TEST(Refill, ABlockThatWasNeverUsedIsNotTouched) {
  hk_heap_t *heap = hk_heap_take();
  unsigned class_index = hk_class_of(8 * HK_KIB);
  hk_block_t *straight = nullptr;
  ASSERT_TRUE(hk_refill(heap, class_index, &straight));
  ASSERT_NE(straight, nullptr);
  EXPECT_EQ(hk_os_resident_bytes(straight, 8 * HK_KIB), 0u);
  EXPECT_EQ(ListLength(heap->bin[class_index].free), 0u);
  EXPECT_EQ(heap->bin[class_index].countdown, RoomOf(heap, class_index));
  CheckSpan(heap, SpanOf(straight), 1);
  EXPECT_TRUE(hk_heap_was_fresh(heap, class_index));
  (void)FreeOwn(heap, straight);
  hk_block_t *used = nullptr;
  EXPECT_EQ(Pop(heap, class_index), straight);
  ASSERT_TRUE(hk_refill(heap, class_index, &used));
  EXPECT_NE(used, straight);
}

// It is not known how much of used memory was touched. So a refill carves little at first, and each time more, but
// never so much that the list is full.
HK_FRESH_TEST(Refill, OfUsedMemoryMoreIsCarvedEachTime) {
  for (unsigned class_index = HK_TINY_CLASS_MAX + 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    hk_heap_t *heap = hk_heap_take();
    hk_option.spare_slabs = class_index % 2 == 0 ? 4 : 0; /* spare slabs, or a superslab's */
    (void)FreeOwn(heap, Alloc(heap, class_index));
    hk_mid_spill_all(heap);
    ASSERT_EQ(heap->state[class_index].active.load(), nullptr);
    unsigned expected = std::max(1u, static_cast<unsigned>(4 * HK_KIB / hk_class_bytes(class_index)));
    for (int i = 0; i < 12; i++) {
      ASSERT_TRUE(hk_refill(heap, class_index, nullptr));
      const hk_slab_t *span = heap->state[class_index].active.load();
      if (span->zero) break;
      unsigned length = ListLength(heap->bin[class_index].free);
      expected = std::min(expected, RoomOf(heap, class_index) - 1);
      if (CarvedOf(span) < CapacityOf(class_index)) EXPECT_EQ(length, expected);
      EXPECT_FALSE(hk_heap_was_fresh(heap, class_index));
      CheckSpan(heap, span, CarvedOf(span) - length);
      (void)PopAll(heap, class_index);
      expected += (expected + 3) / 4;
    }
    EXPECT_GE(expected, 2u);
  }
}

void SetMidRoom(hk_heap_t *heap, unsigned class_index, unsigned room) {
  ASSERT_EQ(ListLength(heap->bin[class_index].free), 0u);
  heap->state[class_index].room = static_cast<uint16_t>(room);
  heap->bin[class_index].countdown = room;
}

HK_FRESH_TEST(Refill, OfUsedMemoryACarvingGrowsUpToWhatAMidListHasRoomFor) {
  LeaveUsedMemory();
  hk_heap_t *heap = hk_heap_take();
  for (size_t bytes : {2 * HK_KIB, 5 * HK_KIB, 8 * HK_KIB, 16 * HK_KIB}) {
    SCOPED_TRACE(bytes);
    const unsigned class_index = hk_class_of(bytes), room = hk_class_room(class_index, HK_ROOM_MOST_BYTES);
    SetMidRoom(heap, class_index, room);
    unsigned count = std::max(1u, static_cast<unsigned>(4 * HK_KIB / bytes)), left = CapacityOf(class_index);
    size_t longest = 0;
    for (int i = 0; i < 16; i++) {
      if (left == 0) { /* a refill that finds a span's end asks twice */
        left = CapacityOf(class_index);
        count += (count + 3) / 4;
      }
      ASSERT_TRUE(hk_refill(heap, class_index, nullptr));
      ASSERT_FALSE(heap->state[class_index].active.load()->zero);
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
HK_FRESH_TEST(Refill, ACarvingNeverFillsAMidListWhoseRoomHasShrunk) {
  LeaveUsedMemory();
  hk_heap_t *heap = hk_heap_take();
  const unsigned class_index = hk_class_of(8 * HK_KIB);
  heap->state[class_index].carve_count = static_cast<uint16_t>(hk_class_room(class_index, HK_ROOM_MOST_BYTES));
  SetMidRoom(heap, class_index, HK_ROOM_LEAST_BLOCKS);
  ASSERT_TRUE(hk_refill(heap, class_index, nullptr));
  EXPECT_EQ(ListLength(heap->bin[class_index].free), HK_ROOM_LEAST_BLOCKS - 1);
  CheckMidBin(heap, class_index);
}

HK_FRESH_TEST(Refill, EachClassStartsWithAtMostAPageOrOneBlock) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    ASSERT_TRUE(hk_refill(heap, class_index, nullptr));
    size_t bytes = ListLength(heap->bin[class_index].free) * hk_class_bytes(class_index);
    EXPECT_LE(bytes, std::max(4 * HK_KIB, hk_class_bytes(class_index)));
    EXPECT_GT(bytes + hk_class_bytes(class_index), 4 * HK_KIB);
    EXPECT_TRUE(hk_heap_was_fresh(heap, class_index));
    EXPECT_EQ(hk_bin_is_fresh(&heap->bin[class_index]), !hk_class_is_mid(class_index));
    CheckSpan(heap, heap->state[class_index].active.load(), 0);
  }
}

// ---- Where blocks of a tiny class come from.

HK_FRESH_TEST(Refill, WhatOthersFreedComesFirst) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  std::vector<hk_block_t *> full = TakeWholeSpan(heap, 64); /* its span is worth it again below */
  hk_block_t *remote = Alloc(heap, 64);
  (void)PopAll(heap, 64);
  hk_slab_t *active = SpanOf(remote);
  for (unsigned i = 0; i < WorthOf(64); i++) (void)FreeOwn(heap, full[i]);
  ASSERT_TRUE(IsPartial(heap, SpanOf(full[0])));
  ASSERT_LT(CarvedOf(active), CapacityOf(64));

  hk_remote_free(other, active, remote);
  hk_remote_flush(other);
  ASSERT_TRUE(hk_refill(heap, 64, nullptr));
  EXPECT_EQ(PopAll(heap, 64), std::vector<hk_block_t *>{remote});
  EXPECT_TRUE(IsActive(heap, active));
  EXPECT_EQ(StatOf(heap, hk_stat_remote_drain), 1u);
  EXPECT_EQ(StatOf(heap, hk_stat_refill_remote), 1u);
  ExpectStagesAddUp(heap);
}

HK_FRESH_TEST(Refill, ThenASpanThatHasFreeBlocks) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> full = TakeWholeSpan(heap, 64);
  hk_block_t *one = Alloc(heap, 64);
  (void)PopAll(heap, 64);
  hk_slab_t *active = SpanOf(one);
  std::set<hk_block_t *> freed(full.begin(), full.begin() + WorthOf(64));
  for (hk_block_t *block : freed) (void)FreeOwn(heap, block);
  uint64_t carves = StatOf(heap, hk_stat_carve);

  ASSERT_TRUE(hk_refill(heap, 64, nullptr));
  std::vector<hk_block_t *> got = PopAll(heap, 64);
  EXPECT_EQ(std::set<hk_block_t *>(got.begin(), got.end()), freed);
  EXPECT_TRUE(IsActive(heap, SpanOf(full[0])));
  EXPECT_TRUE(IsPartial(heap, active)) << "it has room";
  EXPECT_EQ(StatOf(heap, hk_stat_carve), carves);
  EXPECT_EQ(StatOf(heap, hk_stat_refill_used), 1u);
  ExpectStagesAddUp(heap);
  CheckSpan(heap, active, CarvedOf(active));
}

HK_FRESH_TEST(Refill, ThenTheUnusedPartOfTheActiveSpan) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *one = Alloc(heap, 64);
  (void)PopAll(heap, 64);
  hk_slab_t *active = SpanOf(one);
  fake_os_fail_all(fake_os_reserve, true);
  ASSERT_TRUE(hk_refill(heap, 64, nullptr));
  EXPECT_EQ(SpanOf(heap->bin[64].free), active);
  EXPECT_EQ(InUseSlabs(), 1u);
  EXPECT_EQ(StatOf(heap, hk_stat_refill_carve), 1u);
  EXPECT_EQ(StatOf(heap, hk_stat_carve), 2u) << "the first was of a new span";
  ExpectStagesAddUp(heap);
}

HK_FRESH_TEST(Refill, TheUnusedPartOfASpanThatWasLeftIsComeBackTo) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> full = TakeWholeSpan(heap, 64);
  hk_slab_t *left = SpanOf(Alloc(heap, 64));
  (void)PopAll(heap, 64);
  for (unsigned i = 0; i < WorthOf(64); i++) (void)FreeOwn(heap, full[i]);
  (void)Alloc(heap, 64); /* leaves it */
  ASSERT_TRUE(IsPartial(heap, left));
  (void)PopAll(heap, 64);
  unsigned carved = CarvedOf(left);
  ASSERT_TRUE(hk_refill(heap, 64, nullptr));
  EXPECT_TRUE(IsActive(heap, left));
  EXPECT_GT(CarvedOf(left), carved);
  EXPECT_EQ(InUseSlabs(), 2u);
}

HK_FRESH_TEST(Refill, ThenTheSpareSlabsAndAtLastANewSpan) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> first = TakeWholeSpan(heap, 64);
  std::vector<hk_block_t *> second = TakeWholeSpan(heap, 64);
  hk_slab_t *spare = SpanOf(first[0]);
  for (hk_block_t *block : first) (void)FreeOwn(heap, block);
  ASSERT_EQ(heap->spare_slabs, 1u);

  EXPECT_EQ(SpanOf(Alloc(heap, 64)), spare);
  EXPECT_EQ(heap->spare_slabs, 0u);
  EXPECT_EQ(InUseSlabs(), 2u);
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), 3u) << "a span begun, whatever its slabs were";
  EXPECT_EQ(StatOf(heap, hk_stat_slab_reuse), 1u);
  EXPECT_EQ(StatOf(heap, hk_stat_slab_reserve), 0u);
  EXPECT_FALSE(hk_bin_is_fresh(&heap->bin[64]));
  while (StatOf(heap, hk_stat_slab_acquire) == 3) ASSERT_NE(Alloc(heap, 64), nullptr);
  EXPECT_EQ(InUseSlabs(), 3u);
  EXPECT_TRUE(hk_bin_is_fresh(&heap->bin[64]));
}

// ---- Where blocks of a mid class come from.

HK_FRESH_TEST(Refill, OfAMidClassToo) {
  for (unsigned class_index : {66u, 80u, 93u, 104u}) {
    SCOPED_TRACE(class_index);
    hk_option.spare_slabs = 0;
    hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
    hk_free_list_t *bin = &heap->bin[class_index];
    std::vector<hk_block_t *> full = TakeWholeSpan(heap, class_index);
    std::vector<hk_block_t *> some = {Alloc(heap, class_index)}; /* of another span, which has room */
    for (hk_block_t *block : PopAll(heap, class_index)) some.push_back(block);
    hk_slab_t *active = SpanOf(some[0]);
    ASSERT_TRUE(IsActive(heap, active));
    (void)FreeOwn(heap, full[0]);
    (void)FreeOwn(heap, full[1]);
    hk_mid_spill(heap, class_index, 0);
    heap->state[class_index].spilled = 0;
    hk_remote_free(other, SpanOf(full[2]), full[2]);
    hk_remote_flush(other);
    unsigned carved = CarvedOf(active);
    size_t in_use = InUseSlabs();

    ASSERT_TRUE(hk_refill(heap, class_index, nullptr)); /* what others freed */
    EXPECT_EQ(PopAll(heap, class_index), std::vector<hk_block_t *>{full[2]});
    EXPECT_FALSE(hk_heap_was_fresh(heap, class_index));
    ASSERT_TRUE(hk_refill(heap, class_index, nullptr)); /* what spans have */
    EXPECT_EQ(PopAll(heap, class_index), (std::vector<hk_block_t *>{full[0], full[1]}));
    EXPECT_FALSE(hk_heap_was_fresh(heap, class_index));
    EXPECT_TRUE(IsActive(heap, active)) << "a span that is filled from is not the active one by that";
    EXPECT_EQ(CarvedOf(active), carved);
    ASSERT_TRUE(hk_refill(heap, class_index, nullptr)); /* blocks that are not carved yet */
    EXPECT_EQ(SpanOf(bin->free), active);
    EXPECT_GT(CarvedOf(active), carved);
    EXPECT_TRUE(hk_heap_was_fresh(heap, class_index));
    EXPECT_EQ(InUseSlabs(), in_use);
    while (IsActive(heap, active)) ASSERT_NE(Alloc(heap, class_index), nullptr); /* a new span */
    EXPECT_EQ(InUseSlabs(), in_use + hk_class_span_slabs(class_index));
    EXPECT_EQ(CarvedOf(active), CapacityOf(class_index)) << "not before the last is used up";
    CheckMidBin(heap, class_index);
  }
}

HK_FRESH_TEST(Refill, ABlockOfAnotherClassIsNoBlockOfThisOne) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  hk_block_t *theirs = Alloc(heap, 80);
  hk_remote_free(other, SpanOf(theirs), theirs);
  hk_remote_flush(other);
  ASSERT_TRUE(hk_refill(heap, 66, nullptr)) << "the collected blocks were of no use here";
  EXPECT_NE(Pop(heap, 66), nullptr);
  EXPECT_EQ(heap->bin[80].free, theirs);
  EXPECT_TRUE(hk_heap_was_fresh(heap, 66));
}

// ---- Before growing.

HK_FRESH_TEST(Refill, WhatIsHeldBackForOthersIsSentBeforeGrowing) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  hk_block_t *theirs = Alloc(other, 64);
  hk_remote_free(heap, SpanOf(theirs), theirs);
  EXPECT_FALSE(hk_heap_has_incoming(other)) << "a batch of one waits";
  ASSERT_NE(Alloc(heap, 64), nullptr);
  EXPECT_TRUE(hk_heap_has_incoming(other));
}

HK_FRESH_TEST(Refill, WhatAnIdleHeapCanGiveBackIsTakenBeforeGrowing) {
  hk_option.spare_slabs = 0;
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  std::vector<hk_block_t *> theirs = TakeWholeSpan(other, 64);
  (void)Alloc(other, 64); /* so that the span is not the active one */
  for (hk_block_t *block : theirs) hk_remote_free(heap, SpanOf(block), block);
  hk_remote_flush(heap);
  hk_heap_give_back(other);
  ASSERT_EQ(InUseSlabs(), 2u);
  ASSERT_NE(Alloc(heap, 64), nullptr);
  EXPECT_EQ(StatOf(other, hk_stat_remote_drain), theirs.size());
  EXPECT_EQ(InUseSlabs(), 1u) << "the span of the collected blocks was released, and the other span moved here";
  EXPECT_EQ(StatOf(heap, hk_stat_slab_move), 1u);
  ExpectStagesAddUp(heap);
}

HK_FRESH_TEST(Refill, ARefusalIsSaidAndOvercome) {
  hk_heap_t *heap = hk_heap_take();
  fake_os_fail_all(fake_os_reserve, true);
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    EXPECT_FALSE(hk_refill(heap, class_index, nullptr));
    EXPECT_EQ(Pop(heap, class_index), nullptr);
  }
  EXPECT_EQ(StatOf(heap, hk_stat_refill_failed), HK_CLASS_COUNT - 1u);
  fake_os_fail_all(fake_os_reserve, false);
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    EXPECT_NE(Alloc(heap, class_index), nullptr);
    CheckSpan(heap, heap->state[class_index].active.load(), 1);
  }
  EXPECT_EQ(StatOf(heap, hk_stat_refill_failed), HK_CLASS_COUNT - 1u);
  ExpectStagesAddUp(heap);
}

HK_FRESH_TEST(Refill, AfterARefusalTheFullActiveSpanIsStillWhole) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> blocks = TakeWholeSpan(heap, 104);
  fake_os_fail_all(fake_os_reserve, true);
  while (Alloc(heap, 64) != nullptr) {
  }
  EXPECT_EQ(Alloc(heap, 104), nullptr);
  CheckSpan(heap, SpanOf(blocks[0]), CapacityOf(104));
  (void)FreeOwn(heap, blocks[3]);
  EXPECT_EQ(Alloc(heap, 104), blocks[3]);
  EXPECT_EQ(Alloc(heap, 104), nullptr);
}

// ---- Many.

HK_FRESH_TEST(Refill, SpansWithoutLimitAndNoBlockTwice) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : {40u, 104u}) {
    std::set<hk_block_t *> blocks;
    std::map<hk_slab_t *, unsigned> spans;
    constexpr unsigned kSpans = 400;
    for (size_t i = 0; i < size_t{kSpans} * CapacityOf(class_index); i++) {
      hk_block_t *block = Alloc(heap, class_index);
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(blocks.insert(block).second);
      spans[SpanOf(block)]++;
    }
    EXPECT_EQ(spans.size(), kSpans);
    for (const auto &[span, count] : spans) {
      ASSERT_EQ(count, CapacityOf(class_index)) << "neither more nor fewer than fit";
      CheckSpan(heap, span, count);
    }
    for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
    std::set<hk_slab_t *> kept; /* of a tiny class the active span stays, of a mid one those whose blocks the bin has */
    for (hk_block_t *block = heap->bin[class_index].free; block != HK_LIST_END; block = block->next) {
      kept.insert(SpanOf(block));
    }
    EXPECT_LE(kept.size(), class_index == 40 ? 1u : RoomOf(heap, class_index) - 1);
    EXPECT_EQ(InUseSlabs(), heap->spare_slabs + ReservedSlabs(heap) + kept.size() * hk_class_span_slabs(class_index));
    hk_heap_purge(heap);
    EXPECT_EQ(InUseSlabs(), 0u);
  }
}

}  // namespace
