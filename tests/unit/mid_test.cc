// heap/mid: bins of 1 to 32 KiB: how long their lists get, what is spilled and what is filled in again, and which spans
// that empties. After each step bins and spans are checked against what the test itself knows.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/heap_driver.h"

namespace {

using hakmem_test::TestRandom;
using hk_test::Alloc;
using hk_test::AllocMany;
using hk_test::CapacityOf;
using hk_test::CarvedOf;
using hk_test::CheckMidBin;
using hk_test::CheckSpan;
using hk_test::CountOfSpan;
using hk_test::FreeOwn;
using hk_test::InUseSlabs;
using hk_test::IsActive;
using hk_test::IsPartial;
using hk_test::ListLength;
using hk_test::Pop;
using hk_test::PopAll;
using hk_test::ReservedSlabs;
using hk_test::RoomOf;
using hk_test::SpanOf;
using hk_test::StatOf;

using Blocks = std::vector<hk_block_t *>;

constexpr unsigned kFirstMid = HK_TINY_CLASS_MAX + 1;
// Spans of one slab and of several; room for many blocks and for as few as there may be.
constexpr unsigned kClasses[] = {65, 66, 70, 80, 88, 93, 104};

Blocks ListOf(const hk_block_t *list) {
  Blocks blocks;
  for (; list != HK_LIST_END; list = list->next) blocks.push_back(const_cast<hk_block_t *>(list));
  return blocks;
}

std::vector<hk_slab_t *> PartialOf(const hk_heap_t *heap, unsigned class_index) {
  const hk_list_t *list = &heap->state[class_index].partial;
  std::vector<hk_slab_t *> spans;
  for (hk_list_t *node = list->next; node != list; node = node->next) {
    spans.push_back(HK_CONTAINER_OF(node, hk_slab_t, link));
  }
  return spans;
}

// All blocks of `count` spans, handed out, span by span; the bin is empty.
std::vector<Blocks> TakeWholeSpans(hk_heap_t *heap, unsigned class_index, unsigned count) {
  std::vector<Blocks> spans;
  for (unsigned i = 0; i < count; i++) {
    spans.push_back(AllocMany(heap, class_index, CapacityOf(class_index)));
    for (hk_block_t *block : spans.back()) EXPECT_EQ(SpanOf(block), SpanOf(spans.back()[0]));
  }
  EXPECT_EQ(heap->bin[class_index].free, HK_LIST_END);
  return spans;
}

// Puts blocks of a whole span home without the bin's own spills: the bin is empty before and after.
void SendHome(hk_heap_t *heap, const Blocks &blocks) {
  for (hk_block_t *block : blocks) {
    (void)FreeOwn(heap, block);
    hk_mid_spill(heap, SpanOf(block)->class_index, 0);
  }
}

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
    EXPECT_FALSE(heap->state[i].spilled) << i;
    EXPECT_FALSE(hk_bin_was_fresh(&heap->bin[i], i)) << i;
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

// ---- Each slab's sink is the bin.

void ExpectSinkIsTheBin(const hk_heap_t *heap, const hk_slab_t *span) {
  for (unsigned i = 0; i < span->slab_count; i++) EXPECT_EQ(span[i].sink, &heap->bin[span->class_index]) << i;
}

HK_FRESH_TEST(Mid, TheSinkIsTheBinForGood) {
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
    ASSERT_TRUE(hk_refill(heap, class_index));
    EXPECT_EQ(SpanOf(heap->bin[class_index].free), span);
    ExpectSinkIsTheBin(heap, span);
    EXPECT_FALSE(IsActive(heap, span)) << "only one that has room is";
  }
}

// ---- Spill.

HK_FRESH_TEST(Mid, AFullListIsSpilledToItsNewerHalf) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = kFirstMid; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    unsigned room = RoomOf(heap, class_index);
    Blocks blocks = AllocMany(heap, class_index, 2 * room);
    (void)PopAll(heap, class_index); /* what was cut with the last one */
    for (unsigned i = 0; i < room; i++) {
      bool due = FreeOwn(heap, blocks[i]);
      ASSERT_EQ(due, i == room - 1) << i;
      ASSERT_EQ(heap->state[class_index].spilled, due);
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
    hk_heap_trim(heap);
  }
}

// A list that gets full again and was not used up in between.
HK_FRESH_TEST(Mid, AListThatIsFullAgainWithoutRunningDryIsSpilledWholeAndItsRoomHalves) {
  for (unsigned class_index = kFirstMid; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    hk_heap_t *heap = hk_heap_take();
    unsigned least = hk_class_room(class_index, 0);
    unsigned room = hk_class_room(class_index, HK_ROOM_MOST_BYTES);
    heap->state[class_index].room = static_cast<uint16_t>(room); /* as it gets in time: see below */
    heap->bin[class_index].countdown = room;
    Blocks blocks = AllocMany(heap, class_index, 8 * size_t{room});
    (void)PopAll(heap, class_index);
    ASSERT_EQ(RoomOf(heap, class_index), room);
    unsigned length = 0;
    for (size_t i = 0; i < blocks.size(); i++) {
      bool is_first = !heap->state[class_index].spilled;
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
    hk_heap_trim(heap);
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
    hk_heap_trim(heap);
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
        hk_heap_trim(heap);
        heap->state[class_index].spilled = false; /* so that the room stays */
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

// ---- A span whose blocks are all home.

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

HK_FRESH_TEST(Mid, TheActiveSpanIsReleasedTooHoweverMuchOfItIsCut) {
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
    hk_heap_trim(heap);
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
    heap->state[class_index].spilled = false; /* the room is another test's */
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
    hk_heap_trim(heap);
    ASSERT_EQ(InUseSlabs(), 0u);
  }
}

HK_FRESH_TEST(Mid, FillGivesOutWhatCameHomeLastFirst) {
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
    hk_heap_trim(heap);
    ASSERT_EQ(InUseSlabs(), 0u);
  }
}

// ---- A list that was too short.

HK_FRESH_TEST(Mid, TheRoomDoublesWhenAListThatWasSpilledRunsDry) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = kFirstMid; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    unsigned most = hk_class_room(class_index, HK_ROOM_MOST_BYTES);
    unsigned expected = RoomOf(heap, class_index);
    Blocks held;
    for (int round = 0; round < 6; round++) {
      while (held.size() < 300) held.push_back(Alloc(heap, class_index));
      (void)PopAll(heap, class_index);
      hk_mid_spill_all(heap);
      heap->state[class_index].spilled = false;
      ASSERT_EQ(RoomOf(heap, class_index), expected);
      for (unsigned i = 0; i < expected; i++) {
        (void)FreeOwn(heap, held.back());
        held.pop_back();
      }
      ASSERT_TRUE(heap->state[class_index].spilled);
      ASSERT_EQ(RoomOf(heap, class_index), expected) << "not yet";
      while (hk_block_t *block = Pop(heap, class_index)) held.push_back(block);
      ASSERT_EQ(RoomOf(heap, class_index), expected) << "not before it is asked for more";
      held.push_back(Alloc(heap, class_index));
      expected = std::min(2 * expected, most);
      ASSERT_EQ(RoomOf(heap, class_index), expected);
      EXPECT_FALSE(heap->state[class_index].spilled);
      CheckMidBin(heap, class_index);
      (void)PopAll(heap, class_index);
      held.push_back(Alloc(heap, class_index));
      ASSERT_EQ(RoomOf(heap, class_index), expected) << "once";
    }
    EXPECT_EQ(expected, most);
    hk_heap_trim(heap);
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
    EXPECT_EQ(RoomOf(heap, class_index), room) << "a list that nobody takes from";
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

// ---- Damage.

#if HK_SAFETY

// A block at each place of a list that is spilled, kept ones and spilled ones.
HK_FRESH_TEST(MidDamage, ASpillTellsOfABlockAndLosesWhatWasFreedBefore) {
  for (unsigned class_index : {66u, 88u, 104u}) {
    for (unsigned place = 0;; place++) {
      hk_heap_t *heap = hk_heap_take();
      unsigned room = RoomOf(heap, class_index);
      if (place == room) break;
      SCOPED_TRACE(place);
      Blocks blocks = AllocMany(heap, class_index, room + 1);
      (void)PopAll(heap, class_index);
      for (unsigned i = 0; i < room - 1; i++) ASSERT_FALSE(FreeOwn(heap, blocks[i]));
      hk_block_t *damaged = blocks[room - 1 - place];
      if (place > 0) damaged->seal ^= 1;
      hk_slab_t *slab = hk_slab_of(blocks[room - 1]);
      ASSERT_TRUE(hk_sink_push(slab->sink, blocks[room - 1]));
      if (place == 0) damaged->seal ^= 1;
      hk_bin_settle(heap, slab);

      EXPECT_EQ(heap->damaged, damaged);
      CheckMidBin(heap, class_index);
      Blocks kept = ListOf(heap->bin[class_index].free);
      ASSERT_EQ(kept.size(), std::min(place, room / 2)) << "those that were freed after it";
      for (size_t i = 0; i < kept.size(); i++) EXPECT_EQ(kept[i], blocks[room - 1 - i]);
      unsigned at_home = 0;
      for (hk_slab_t *span : PartialOf(heap, class_index)) {
        hk_test::WalkSpan(heap, span);
        at_home += ListLength(span->own.free);
      }
      EXPECT_EQ(at_home, place - kept.size());
      heap->damaged = nullptr;
      std::set<hk_block_t *> given;
      for (unsigned i = 0; i < 2 * room; i++) ASSERT_TRUE(given.insert(Alloc(heap, class_index)).second);
      EXPECT_EQ(given.count(damaged), 0u) << "it is never given out again";
      EXPECT_EQ(heap->damaged, nullptr);
    }
  }
}

// A block at each place of a span's own list that is filled from; another span waits behind it.
HK_FRESH_TEST(MidDamage, AFillTellsOfABlockAndLosesTheRestOfItsSpansList) {
  constexpr unsigned kClass = 104;
  for (unsigned place = 0; place < 5; place++) {
    SCOPED_TRACE(place);
    hk_heap_t *heap = hk_heap_take();
    std::vector<Blocks> spans = TakeWholeSpans(heap, kClass, 2);
    SendHome(heap, {spans[1][0], spans[1][1]});
    SendHome(heap, Blocks(spans[0].begin(), spans[0].begin() + 5));
    heap->state[kClass].spilled = false;
    heap->state[kClass].room = 12;
    hk_block_t *damaged = spans[0][4 - place];
    memset(static_cast<void *>(damaged), 'x', sizeof *damaged);
    ASSERT_TRUE(hk_mid_fill(heap, kClass));
    EXPECT_EQ(heap->damaged, damaged);
    unsigned expected = place + 2; /* those before it, and the other span's */
    EXPECT_EQ(ListLength(heap->bin[kClass].free), std::min(expected, RoomOf(heap, kClass) / 2));
    CheckMidBin(heap, kClass);
    EXPECT_EQ(SpanOf(spans[0][0])->own.free, HK_LIST_END);
    EXPECT_FALSE(IsPartial(heap, SpanOf(spans[0][0])));
    std::set<hk_block_t *> given;
    for (unsigned i = 0; i < 20; i++) ASSERT_TRUE(given.insert(Alloc(heap, kClass)).second);
    for (unsigned i = 0; i <= 4 - place; i++) EXPECT_EQ(given.count(spans[0][i]), 0u) << "lost";
  }
}

HK_FRESH_TEST(MidDamage, AFillThatFindsNothingElseSaysSo) {
  hk_heap_t *heap = hk_heap_take();
  Blocks blocks = TakeWholeSpans(heap, 88, 1)[0];
  SendHome(heap, {blocks[0], blocks[1]});
  blocks[1]->next = nullptr;
  EXPECT_FALSE(hk_mid_fill(heap, 88));
  EXPECT_EQ(heap->damaged, blocks[1]);
  EXPECT_TRUE(PartialOf(heap, 88).empty());
  CheckMidBin(heap, 88);
  EXPECT_NE(Alloc(heap, 88), nullptr);
}

// What is damaged behind the blocks that are taken waits until its turn comes.
HK_FRESH_TEST(MidDamage, AFillLooksNoFurtherThanItTakes) {
  hk_heap_t *heap = hk_heap_take();
  constexpr unsigned kClass = 66;
  Blocks blocks = TakeWholeSpans(heap, kClass, 1)[0];
  unsigned wanted = RoomOf(heap, kClass) / 2;
  SendHome(heap, Blocks(blocks.begin(), blocks.begin() + wanted + 3));
  heap->state[kClass].spilled = false;
  blocks[1]->next = nullptr;
  ASSERT_TRUE(hk_mid_fill(heap, kClass));
  EXPECT_EQ(heap->damaged, nullptr);
  EXPECT_EQ(ListLength(heap->bin[kClass].free), wanted);
  (void)PopAll(heap, kClass);
  ASSERT_TRUE(hk_mid_fill(heap, kClass));
  EXPECT_EQ(heap->damaged, blocks[1]);
  EXPECT_EQ(ListOf(heap->bin[kClass].free), Blocks{blocks[2]});
}

#endif

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
    if (random.OneIn(4000)) hk_heap_trim(heap);
    if (i % 1000 != 999) continue;
    std::set<hk_slab_t *> spans; /* of each span somebody holds a block, or the bin does */
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
  hk_heap_trim(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), StatOf(heap, hk_stat_slab_release));
}

}  // namespace
