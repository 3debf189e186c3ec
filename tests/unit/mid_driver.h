// Looks into a mid class's list and its spans, and returns blocks to their spans.
#ifndef HK_TESTS_UNIT_MID_DRIVER_H
#define HK_TESTS_UNIT_MID_DRIVER_H

#include <gtest/gtest.h>

#include <vector>

#include "unit/heap_driver.h"

namespace hk_test {
inline namespace mid_driver {

inline constexpr unsigned kFirstMid = HK_TINY_CLASS_MAX + 1;
// Spans of one slab and of several; room for many blocks and for as few as there may be.
inline constexpr unsigned kClasses[] = {65, 66, 70, 80, 88, 93, 104};

inline Blocks ListOf(const hk_block_t *list) {
  Blocks blocks;
  for (; list != HK_LIST_END; list = list->next) blocks.push_back(const_cast<hk_block_t *>(list));
  return blocks;
}

inline std::vector<hk_slab_t *> PartialOf(const hk_heap_t *heap, unsigned class_index) {
  const hk_list_t *list = &heap->state[class_index].partial;
  std::vector<hk_slab_t *> spans;
  for (hk_list_t *node = list->next; node != list; node = node->next) {
    spans.push_back(HK_CONTAINER_OF(node, hk_slab_t, link));
  }
  return spans;
}

// All blocks of `count` spans, handed out, span by span; the bin is empty.
inline std::vector<Blocks> TakeWholeSpans(hk_heap_t *heap, unsigned class_index, unsigned count) {
  std::vector<Blocks> spans;
  for (unsigned i = 0; i < count; i++) {
    spans.push_back(AllocMany(heap, class_index, CapacityOf(class_index)));
    for (hk_block_t *block : spans.back()) EXPECT_EQ(SpanOf(block), SpanOf(spans.back()[0]));
  }
  EXPECT_EQ(heap->bin[class_index].free, HK_LIST_END);
  return spans;
}

// Returns all blocks of a span to it without the bin's own spills: the bin is empty before and after.
inline void SendHome(hk_heap_t *heap, const Blocks &blocks) {
  for (hk_block_t *block : blocks) {
    (void)FreeOwn(heap, block);
    hk_mid_spill(heap, SpanOf(block)->class_index, 0);
  }
}

}  // namespace mid_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_MID_DRIVER_H
