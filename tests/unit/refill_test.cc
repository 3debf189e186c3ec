// heap/refill: where the next block comes from. carving_test.cc has how many are carved at a time.
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
    hk_heap_flush(heap);
    EXPECT_EQ(InUseSlabs(), 0u);
  }
}

}  // namespace
