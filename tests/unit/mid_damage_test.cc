// heap/mid: damaged blocks, when a list is spilled and when it is filled.
#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "fresh_test.h"
#include "unit/mid_driver.h"

using namespace hk_test;

namespace {

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
      ASSERT_TRUE(hk_free_list_push(slab->free_list, blocks[room - 1]));
      if (place == 0) damaged->seal ^= 1;
      hk_bin_countdown_over(heap, slab);

      EXPECT_EQ(heap->damaged, damaged);
      CheckMidBin(heap, class_index);
      Blocks kept = ListOf(heap->bin[class_index].free);
      ASSERT_EQ(kept.size(), std::min(place, room / 2)) << "those that were freed after it";
      for (size_t i = 0; i < kept.size(); i++) EXPECT_EQ(kept[i], blocks[room - 1 - i]);
      unsigned at_home = 0;
      for (hk_slab_t *span : PartialOf(heap, class_index)) {
        WalkSpan(heap, span);
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

// A damaged block behind the blocks that are taken waits until its turn comes.
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

}  // namespace
