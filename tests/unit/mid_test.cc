// heap/mid: bins of 1 to 32 KiB: how long their lists get, and how they are refilled. After each step bins and spans
// are checked against the test's own counts. mid_spill_test.cc tests the spilling.
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

// ---- The room.

HK_FRESH_TEST(Mid, ANewBinHasRoomForItsFirstBytes) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    if (!hk_class_is_mid(i)) {
      EXPECT_EQ(heap->state[i].room, 0) << i;
      continue;
    }
    EXPECT_EQ(RoomOf(heap, i), hk_class_room(i, HK_ROOM_FIRST_BYTES)) << i;
    EXPECT_EQ(heap->bin[i].countdown, RoomOf(heap, i)) << i;
    EXPECT_EQ(heap->state[i].spilled, 0) << i;
    EXPECT_FALSE(hk_heap_was_fresh(heap, i)) << i;
  }
}

HK_FRESH_TEST(Mid, TheBinCountsHowLongItsListIs) {
  hk_heap_t *heap = hk_heap_take();
  TestRandom random(1);
  for (unsigned class_index : kClasses) {
    Blocks held = AllocMany(heap, class_index, 3 * RoomOf(heap, class_index));
    for (int i = 0; i < 2000; i++) {
      if (held.empty() || (held.size() < 200 && random.OneIn(2))) {
        held.push_back(Alloc(heap, class_index));
      } else {
        (void)FreeOwn(heap, held.back());
        held.pop_back();
      }
      CheckMidBin(heap, class_index);
      ASSERT_FALSE(hk_bin_is_fresh(&heap->bin[class_index])) << "of a mid class that is not known";
    }
  }
}

HK_FRESH_TEST(Mid, APopThatGivesNothingCountsNothing) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : kClasses) {
    EXPECT_EQ(Pop(heap, class_index), nullptr);
    EXPECT_EQ(heap->bin[class_index].countdown, RoomOf(heap, class_index));
  }
  EXPECT_EQ(Pop(HK_EMPTY_HEAP, 80), nullptr) << "the empty heap is never written";
}

// ---- Each slab's free list is the bin.

void ExpectSinkIsTheBin(const hk_heap_t *heap, const hk_slab_t *span) {
  for (unsigned i = 0; i < span->slab_count; i++) EXPECT_EQ(span[i].free_list, &heap->bin[span->class_index]) << i;
}

HK_FRESH_TEST(Mid, TheFreeListIsTheBinForGood) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : kClasses) {
    std::vector<Blocks> spans = TakeWholeSpans(heap, class_index, 2);
    hk_slab_t *span = SpanOf(spans[0][0]);
    EXPECT_FALSE(IsActive(heap, span));
    ExpectSinkIsTheBin(heap, span); /* full */
    Blocks rest(spans[0].begin() + 1, spans[0].end());
    SendHome(heap, rest);
    EXPECT_TRUE(IsPartial(heap, span));
    ExpectSinkIsTheBin(heap, span);
    ASSERT_TRUE(hk_refill(heap, class_index, nullptr));
    EXPECT_EQ(SpanOf(heap->bin[class_index].free), span);
    ExpectSinkIsTheBin(heap, span);
    EXPECT_FALSE(IsActive(heap, span)) << "only one that has room is";
  }
}

// ---- Fill.

HK_FRESH_TEST(Mid, FillFindsNothingWhereThereIsNothing) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : kClasses) {
    Blocks blocks = TakeWholeSpans(heap, class_index, 1)[0];
    EXPECT_FALSE(hk_mid_fill(heap, class_index));
    EXPECT_EQ(heap->bin[class_index].free, HK_LIST_END);
    CheckMidBin(heap, class_index);
    CheckSpan(heap, SpanOf(blocks[0]), CapacityOf(class_index));
  }
}

HK_FRESH_TEST(Mid, FillTakesHalfTheRoomAndLeavesTheRestWhereItIs) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = kFirstMid; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    unsigned capacity = CapacityOf(class_index), wanted = RoomOf(heap, class_index) / 2;
    std::vector<Blocks> spans = TakeWholeSpans(heap, class_index, 3);
    for (const Blocks &span : spans) SendHome(heap, Blocks(span.begin() + 1, span.end()));
    heap->state[class_index].spilled = 0; /* the room is another test's */
    std::vector<hk_slab_t *> order = PartialOf(heap, class_index);
    ASSERT_EQ(order.size(), 3u);

    ASSERT_TRUE(hk_mid_fill(heap, class_index));
    EXPECT_EQ(ListLength(heap->bin[class_index].free), wanted);
    CheckMidBin(heap, class_index);
    unsigned left = wanted;
    for (hk_slab_t *span : order) { /* the first span's blocks first */
      unsigned taken = std::min(left, capacity - 1);
      EXPECT_EQ(CountOfSpan(heap->bin[class_index].free, span), taken);
      EXPECT_EQ(ListLength(span->own.free), capacity - 1 - taken);
      EXPECT_EQ(IsPartial(heap, span), taken < capacity - 1);
      CheckSpan(heap, span, 1);
      left -= taken;
    }
    EXPECT_EQ(left, 0u);
    for (const Blocks &span : spans) (void)FreeOwn(heap, span[0]);
    hk_heap_flush(heap);
    ASSERT_EQ(InUseSlabs(), 0u);
  }
}

HK_FRESH_TEST(Mid, FillGivesOutWhatCameBackLastFirst) {
  hk_heap_t *heap = hk_heap_take();
  Blocks blocks = TakeWholeSpans(heap, 80, 1)[0];
  SendHome(heap, {blocks[3], blocks[7], blocks[5]});
  ASSERT_TRUE(hk_mid_fill(heap, 80));
  EXPECT_EQ(ListOf(heap->bin[80].free), (Blocks{blocks[5], blocks[7], blocks[3]}));
  EXPECT_FALSE(IsPartial(heap, SpanOf(blocks[0]))) << "its list is used up";
  EXPECT_EQ(SpanOf(blocks[0])->own.free, HK_LIST_END);
}

HK_FRESH_TEST(Mid, NoBlockIsLostOrGivenTwiceInSpillsAndFills) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : kClasses) {
    Blocks blocks = AllocMany(heap, class_index, 5 * CapacityOf(class_index));
    std::set<hk_block_t *> all(blocks.begin(), blocks.end());
    ASSERT_EQ(all.size(), blocks.size());
    size_t in_use = InUseSlabs();
    for (int round = 0; round < 20; round++) {
      std::set<hk_block_t *> held;
      for (size_t i = 0; i < blocks.size(); i++) {
        if (i % CapacityOf(class_index) != 0) (void)FreeOwn(heap, blocks[i]);
      }
      for (size_t i = 0; i < blocks.size(); i++) {
        if (i % CapacityOf(class_index) != 0) blocks[i] = Alloc(heap, class_index);
        ASSERT_TRUE(held.insert(blocks[i]).second);
      }
      ASSERT_EQ(held, all);
      ASSERT_EQ(InUseSlabs(), in_use);
    }
    for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
    hk_heap_flush(heap);
    ASSERT_EQ(InUseSlabs(), 0u);
  }
}

// ---- A list that was too short.

HK_FRESH_TEST(Mid, TheRoomGrowsByWhatWasSpilledOrDoublesWhenTheListThenRunsDry) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = kFirstMid; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    unsigned most = hk_class_room(class_index, HK_ROOM_MAX_BYTES);
    unsigned expected = RoomOf(heap, class_index);
    Blocks held;
    for (int round = 0; round < 12; round++) {
      while (held.size() < 300) held.push_back(Alloc(heap, class_index));
      (void)PopAll(heap, class_index);
      hk_mid_spill_all(heap);
      heap->state[class_index].spilled = 0;
      ASSERT_EQ(RoomOf(heap, class_index), expected);
      for (unsigned i = 0; i < expected; i++) {
        (void)FreeOwn(heap, held.back());
        held.pop_back();
      }
      unsigned spilled = expected - expected / 2; /* the list's older half */
      ASSERT_EQ(heap->state[class_index].spilled, spilled);
      ASSERT_EQ(RoomOf(heap, class_index), expected) << "not yet";
      while (hk_block_t *block = Pop(heap, class_index)) held.push_back(block);
      ASSERT_EQ(RoomOf(heap, class_index), expected) << "not before a request for more";
      held.push_back(Alloc(heap, class_index));
      bool fits = spilled <= hk_class_room(class_index, HK_ROOM_AT_ONCE_BYTES);
      expected = std::min(expected + (fits ? spilled : expected), most);
      ASSERT_EQ(RoomOf(heap, class_index), expected);
      EXPECT_EQ(heap->state[class_index].spilled, 0);
      CheckMidBin(heap, class_index);
      (void)PopAll(heap, class_index);
      held.push_back(Alloc(heap, class_index));
      ASSERT_EQ(RoomOf(heap, class_index), expected) << "once";
    }
    EXPECT_EQ(expected, most);
    hk_heap_flush(heap);
  }
}

// Frees and requests that come in bursts, as when a server ends one request and begins another.
HK_FRESH_TEST(Mid, ABurstOfFreesThatIsUsedUpFitsTheNextTime) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = kFirstMid; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    unsigned burst = hk_class_room(class_index, HK_ROOM_AT_ONCE_BYTES);
    ASSERT_GT(burst, RoomOf(heap, class_index));
    Blocks blocks = AllocMany(heap, class_index, burst);
    (void)PopAll(heap, class_index);
    for (int round = 0; round < 3; round++) {
      unsigned spills = 0;
      for (hk_block_t *block : blocks) spills += FreeOwn(heap, block);
      EXPECT_LE(spills, round == 0 ? burst : 1u) << "the last free fills the list";
      blocks = AllocMany(heap, class_index, burst);
      (void)PopAll(heap, class_index);
    }
    hk_heap_flush(heap);
  }
}

HK_FRESH_TEST(Mid, TheRoomStaysWithoutASpillAndWithoutRunningDry) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : kClasses) {
    unsigned room = RoomOf(heap, class_index);
    Blocks held = AllocMany(heap, class_index, 10 * room); /* runs dry all the time, never spilled */
    EXPECT_EQ(RoomOf(heap, class_index), room);
    for (hk_block_t *block : held) (void)FreeOwn(heap, block); /* spilled all the time, never dry */
    room = hk_class_room(class_index, 0);
    EXPECT_EQ(RoomOf(heap, class_index), room) << "a list that no request takes from";
    (void)FreeOwn(heap, Alloc(heap, class_index));
    room = RoomOf(heap, class_index);
    for (int i = 0; i < 1000; i++) { /* up and down within the half */
      Blocks some;
      for (unsigned k = 0; k < room / 4; k++) some.push_back(Pop(heap, class_index));
      for (hk_block_t *block : some) (void)FreeOwn(heap, block);
    }
    EXPECT_EQ(RoomOf(heap, class_index), room);
  }
}

// ---- Settle.

HK_FRESH_TEST(Mid, SettleTellsTinyFromMid) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *tiny = Alloc(heap, 20), *mid = Alloc(heap, 80);
  heap->bin[20].countdown = 1; /* two thousand million frees later */
  EXPECT_TRUE(FreeOwn(heap, tiny));
  EXPECT_EQ(heap->bin[20].countdown, HK_COUNTDOWN_ACTIVE);
  heap->bin[80].countdown = 1;
  EXPECT_TRUE(FreeOwn(heap, mid));
  CheckMidBin(heap, 80);
}

// ---- Against a model: which blocks are held, by span.

HK_FRESH_TEST(MidModel, AnyOrder) {
  hk_option.spare_slabs = 2;
  hk_heap_t *heap = hk_heap_take();
  TestRandom random(11);
  Blocks held;
  std::map<hk_slab_t *, unsigned> live;
  unsigned growth = 70;
  for (int i = 0; i < 60000 && !testing::Test::HasFailure(); i++) {
    unsigned class_index = kClasses[random.Below(sizeof kClasses / sizeof kClasses[0])];
    if (random.OneIn(1500)) growth = random.OneIn(2) ? 80 : 20;
    if (held.size() < 3000 && random.Below(100) < growth) {
      held.push_back(Alloc(heap, class_index));
      ASSERT_NE(held.back(), nullptr);
      live[SpanOf(held.back())]++;
    } else if (!held.empty()) {
      std::swap(held[random.Below(held.size())], held.back());
      hk_slab_t *span = SpanOf(held.back());
      class_index = span->class_index;
      if (--live[span] == 0) live.erase(span);
      (void)FreeOwn(heap, held.back());
      held.pop_back();
    }
    CheckMidBin(heap, class_index);
    if (random.OneIn(2000)) hk_mid_spill_all(heap);
    if (random.OneIn(4000)) hk_heap_flush(heap);
    if (i % 1000 != 999) continue;
    std::set<hk_slab_t *> spans; /* of each span the test or the bin holds a block */
    for (const auto &[span, count] : live) spans.insert(span);
    for (unsigned c : kClasses) {
      for (hk_block_t *block : ListOf(heap->bin[c].free)) spans.insert(SpanOf(block));
    }
    size_t slabs = heap->spare_slabs + ReservedSlabs(heap);
    for (hk_slab_t *span : spans) {
      CheckSpan(heap, span, live.count(span) ? live[span] : 0);
      slabs += span->slab_count;
    }
    ASSERT_EQ(InUseSlabs(), slabs) << "no other slab is in use";
  }
  for (hk_block_t *block : held) (void)FreeOwn(heap, block);
  hk_heap_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), StatOf(heap, hk_stat_slab_release));
}

}  // namespace
