// heap/mid: which blocks of a full list are spilled, and which spans that empties.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/mid_driver.h"

using namespace hk_test;

namespace {

// ---- Spill.

HK_FRESH_TEST(Mid, AFullListIsSpilledToItsNewerHalf) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = kFirstMid; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    unsigned room = RoomOf(heap, class_index);
    Blocks blocks = AllocMany(heap, class_index, 2 * room);
    (void)PopAll(heap, class_index); /* the blocks carved with the last one */
    for (unsigned i = 0; i < room; i++) {
      bool due = FreeOwn(heap, blocks[i]);
      ASSERT_EQ(due, i == room - 1) << i;
      ASSERT_EQ(heap->state[class_index].spilled, due ? room - room / 2 : 0);
      CheckMidBin(heap, class_index);
    }
    Blocks kept = ListOf(heap->bin[class_index].free);
    Blocks newest(blocks.begin() + (room - room / 2), blocks.begin() + room);
    std::reverse(newest.begin(), newest.end());
    EXPECT_EQ(kept, newest) << "in the order in which they were freed";
    std::map<hk_slab_t *, unsigned> spilled;
    for (unsigned i = 0; i < room - room / 2; i++) {
      hk_slab_t *span = SpanOf(blocks[i]);
      if (hk_slab_state(span) == hk_slab_small) spilled[span]++;
    }
    for (const auto &[span, count] : spilled) EXPECT_EQ(ListLength(span->own.free), count);
    hk_heap_flush(heap);
  }
}

// A list that gets full again and was not used up in between.
HK_FRESH_TEST(Mid, AListThatIsFullAgainWithoutRunningDryIsSpilledWholeAndItsRoomHalves) {
  for (unsigned class_index = kFirstMid; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    hk_heap_t *heap = hk_heap_take();
    unsigned least = hk_class_room(class_index, 0);
    unsigned room = hk_class_room(class_index, HK_ROOM_MAX_BYTES);
    heap->state[class_index].room = static_cast<uint16_t>(room); /* as it gets in time: see below */
    heap->bin[class_index].countdown = room;
    Blocks blocks = AllocMany(heap, class_index, 8 * size_t{room});
    (void)PopAll(heap, class_index);
    ASSERT_EQ(RoomOf(heap, class_index), room);
    unsigned length = 0;
    for (size_t i = 0; i < blocks.size(); i++) {
      bool is_first = heap->state[class_index].spilled == 0;
      length++;
      ASSERT_EQ(FreeOwn(heap, blocks[i]), length == room) << i;
      if (length == room) {
        length = is_first ? room / 2 : 0;
        if (!is_first) room = std::max(room / 2, least);
      }
      ASSERT_EQ(ListLength(heap->bin[class_index].free), length);
      ASSERT_EQ(RoomOf(heap, class_index), room);
      CheckMidBin(heap, class_index);
    }
    EXPECT_EQ(room, least) << "that is where it ends";
    hk_heap_flush(heap);
  }
}

HK_FRESH_TEST(Mid, ARunDryBetweenTwoFullListsKeepsTheHalf) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : kClasses) {
    Blocks held = AllocMany(heap, class_index, 1000);
    for (int round = 0; round < 8; round++) {
      while (!FreeOwn(heap, held.back())) held.pop_back();
      held.pop_back();
      ASSERT_EQ(ListLength(heap->bin[class_index].free), RoomOf(heap, class_index) / 2) << round;
      unsigned room = RoomOf(heap, class_index);
      while (hk_block_t *block = Pop(heap, class_index)) held.push_back(block);
      held.push_back(Alloc(heap, class_index));
      ASSERT_GE(RoomOf(heap, class_index), room);
    }
    for (hk_block_t *block : held) (void)FreeOwn(heap, block);
    hk_heap_flush(heap);
  }
}

HK_FRESH_TEST(Mid, SpillKeepsAsManyAsItIsTold) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : kClasses) {
    unsigned room = RoomOf(heap, class_index);
    for (unsigned length = 0; length < room; length++) {
      for (unsigned keep = 0; keep < room; keep += 3) {
        Blocks blocks = AllocMany(heap, class_index, length + 1); /* the last one pins its span */
        (void)PopAll(heap, class_index);
        hk_mid_spill_all(heap);
        for (unsigned i = 0; i < length; i++) (void)FreeOwn(heap, blocks[i]);
        hk_mid_spill(heap, class_index, keep);
        ASSERT_EQ(ListLength(heap->bin[class_index].free), std::min(keep, length));
        CheckMidBin(heap, class_index);
        if (length > 0 && keep > 0) ASSERT_EQ(heap->bin[class_index].free, blocks[length - 1]);
        hk_heap_flush(heap);
        heap->state[class_index].spilled = 0; /* so that the room stays */
      }
    }
  }
}

HK_FRESH_TEST(Mid, ASpanIsPartialAsSoonAsItHasABlock) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : kClasses) {
    std::vector<Blocks> spans = TakeWholeSpans(heap, class_index, 3);
    unsigned capacity = CapacityOf(class_index);
    EXPECT_TRUE(PartialOf(heap, class_index).empty());
    SendHome(heap, {spans[0][0]});
    SendHome(heap, {spans[1][0]});
    SendHome(heap, {spans[0][1]});
    EXPECT_EQ(PartialOf(heap, class_index), (std::vector<hk_slab_t *>{SpanOf(spans[1][0]), SpanOf(spans[0][0])}))
        << "each once, the one that came last first";
    CheckSpan(heap, SpanOf(spans[0][0]), capacity - 2);
    CheckSpan(heap, SpanOf(spans[1][0]), capacity - 1);
    CheckSpan(heap, SpanOf(spans[2][0]), capacity);
    SendHome(heap, {spans[2][0]});
    EXPECT_TRUE(IsActive(heap, SpanOf(spans[2][0])));
    EXPECT_TRUE(IsPartial(heap, SpanOf(spans[2][0]))) << "the active one too";
    CheckSpan(heap, SpanOf(spans[2][0]), capacity - 1);
  }
}

HK_FRESH_TEST(Mid, BlocksInTheBinCountAsLive) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : kClasses) {
    SCOPED_TRACE(class_index);
    Blocks blocks = TakeWholeSpans(heap, class_index, 1)[0];
    hk_slab_t *span = SpanOf(blocks[0]);
    unsigned capacity = CapacityOf(class_index);
    EXPECT_EQ(span->live, capacity);
    for (unsigned i = 0; i < 3; i++) {
      (void)FreeOwn(heap, blocks[i]);
      EXPECT_EQ(span->live, capacity);
      CheckSpan(heap, span, capacity - 1 - i);
    }
    hk_mid_spill(heap, class_index, 1);
    EXPECT_EQ(span->live, capacity - 2);
    CheckSpan(heap, span, capacity - 3);
    ASSERT_TRUE(Pop(heap, class_index));
    EXPECT_EQ(span->live, capacity - 2);
    CheckSpan(heap, span, capacity - 2);
  }
}

// ---- A span with all its blocks free.

HK_FRESH_TEST(Mid, ASpanIsReleasedWhenItsLastBlockIsSpilled) {
  for (unsigned spare : {0u, 1u, 3u, 4u}) {
    hk_option.spare_slabs = spare;
    hk_heap_t *heap = hk_heap_take();
    for (unsigned class_index = kFirstMid; class_index < HK_CLASS_COUNT; class_index++) {
      SCOPED_TRACE(class_index);
      std::vector<Blocks> spans = TakeWholeSpans(heap, class_index, 2);
      hk_slab_t *span = SpanOf(spans[0][0]);
      unsigned slab_count = span->slab_count, live = CapacityOf(class_index);
      size_t in_use = InUseSlabs();
      for (hk_block_t *block : spans[0]) {
        ASSERT_EQ(hk_slab_state(span), hk_slab_small);
        CheckSpan(heap, span, live--);
        (void)FreeOwn(heap, block);
        ASSERT_EQ(hk_slab_state(span), hk_slab_small) << "in the bin it counts";
        hk_mid_spill(heap, class_index, 0);
      }
      for (unsigned i = 0; i < slab_count; i++) {
        EXPECT_EQ(hk_slab_state(&span[i]), hk_slab_free);
        EXPECT_EQ(hk_load_relaxed(&span[i].owner), nullptr);
      }
      bool is_kept = slab_count <= spare;
      EXPECT_EQ(heap->spare_slabs, is_kept ? slab_count : 0u);
      EXPECT_EQ(InUseSlabs(), is_kept ? in_use : in_use - slab_count);
      EXPECT_TRUE(PartialOf(heap, class_index).empty());
      CheckSpan(heap, SpanOf(spans[1][0]), CapacityOf(class_index));
      SendHome(heap, spans[1]);
      hk_spare_flush(heap);
      ASSERT_EQ(InUseSlabs(), 0u);
    }
    EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), StatOf(heap, hk_stat_slab_release));
  }
}

HK_FRESH_TEST(Mid, TheActiveSpanIsReleasedTooHoweverMuchOfItIsCarved) {
  hk_option.spare_slabs = 0;
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = kFirstMid; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    for (unsigned count : {1u, 2u, 5u, CapacityOf(class_index)}) {
      Blocks blocks = AllocMany(heap, class_index, count);
      hk_slab_t *span = SpanOf(blocks[0]);
      ASSERT_TRUE(IsActive(heap, span));
      SendHome(heap, blocks);
      EXPECT_EQ(heap->state[class_index].active.load(), nullptr);
      EXPECT_EQ(hk_slab_state(span), hk_slab_free);
      EXPECT_EQ(InUseSlabs(), 0u);
      EXPECT_TRUE(PartialOf(heap, class_index).empty());
    }
    hk_block_t *next = Alloc(heap, class_index);
    ASSERT_NE(next, nullptr);
    CheckSpan(heap, SpanOf(next), 1);
    CheckMidBin(heap, class_index);
    (void)FreeOwn(heap, next);
    hk_heap_flush(heap);
  }
}

// One spill empties one span, makes others partial and leaves one as it is.
HK_FRESH_TEST(Mid, OneSpillServesSpansInEveryState) {
  hk_option.spare_slabs = 0;
  hk_heap_t *heap = hk_heap_take();
  constexpr unsigned kClass = 104;
  constexpr unsigned room = 10;
  heap->state[kClass].room = room;
  heap->bin[kClass].countdown = room;
  unsigned capacity = CapacityOf(kClass);
  ASSERT_EQ(capacity, 8u);
  std::vector<Blocks> spans = TakeWholeSpans(heap, kClass, 4);
  SendHome(heap, Blocks(spans[0].begin() + 2, spans[0].end()));                     /* partial, two in use */
  SendHome(heap, Blocks(spans[1].begin() + 1, spans[1].end()));                     /* partial, one in use */
  Blocks freed = {spans[0][0], spans[0][1], spans[1][0], spans[2][0], spans[3][0]}; /* in the older half */
  for (unsigned i = 1; freed.size() < room; i++) {
    freed.push_back(spans[2][i]);
    if (freed.size() < room) freed.push_back(spans[3][i]);
  }
  unsigned freed_of[4] = {};
  for (size_t i = 0; i < room; i++) {
    ASSERT_EQ(FreeOwn(heap, freed[i]), i == room - 1);
    for (int k = 0; k < 4; k++) freed_of[k] += SpanOf(freed[i]) == SpanOf(spans[k][0]);
  }
  EXPECT_EQ(hk_slab_state(SpanOf(spans[0][0])), hk_slab_free) << "partial to empty";
  EXPECT_EQ(hk_slab_state(SpanOf(spans[1][0])), hk_slab_free);
  for (int k = 2; k < 4; k++) {
    CheckSpan(heap, SpanOf(spans[k][0]), capacity - freed_of[k]);
    EXPECT_GE(ListLength(SpanOf(spans[k][0])->own.free), 1u) << "full to partial";
  }
  EXPECT_EQ(InUseSlabs(), 8u);
  CheckMidBin(heap, kClass);
}

// ---- All at once.

HK_FRESH_TEST(Mid, SpillAllEmptiesEachMidBinAndNoOther) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<Blocks> held(HK_CLASS_COUNT);
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    held[i] = AllocMany(heap, i, 6);
    (void)FreeOwn(heap, held[i].back());
    held[i].pop_back();
  }
  std::vector<unsigned> tiny_lengths;
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) tiny_lengths.push_back(ListLength(heap->bin[i].free));
  hk_mid_spill_all(heap);
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) EXPECT_EQ(ListLength(heap->bin[i].free), tiny_lengths[i - 1]);
  for (unsigned i = kFirstMid; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(heap->bin[i].free, HK_LIST_END) << i;
    EXPECT_EQ(heap->bin[i].countdown, RoomOf(heap, i)) << i;
    CheckSpan(heap, SpanOf(held[i][0]), 5);
    for (hk_block_t *block : held[i]) (void)FreeOwn(heap, block);
  }
  hk_mid_spill_all(heap);
  for (unsigned i = kFirstMid; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(heap->state[i].active.load(), nullptr) << i;
    EXPECT_TRUE(PartialOf(heap, i).empty()) << i;
  }
}

}  // namespace
