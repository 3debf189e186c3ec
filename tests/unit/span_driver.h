// Makes, carves and empties spans without refills.
#ifndef HK_TESTS_UNIT_SPAN_DRIVER_H
#define HK_TESTS_UNIT_SPAN_DRIVER_H

#include <gtest/gtest.h>

#include <vector>

#include "unit/heap_driver.h"

namespace hk_test {
inline namespace span_driver {

// Of many blocks and of few.
inline constexpr unsigned kTinyClasses[] = {1, 3, 37, 64};
inline hk_heap_t *NewHeap() {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) hk_list_init(&heap->state[i].partial);
  return heap;
}

inline hk_slab_t *NewActive(hk_heap_t *heap, unsigned class_index) {
  hk_slab_t *span = hk_span_acquire(heap, class_index);
  if (hk_class_is_mid(class_index)) {
    heap->state[class_index].active = span; /* that is all there is to it */
  } else {
    hk_span_activate(heap, span);
  }
  return span;
}

// An active span with every block carved and handed out.
struct Full {
  hk_slab_t *span;
  std::vector<hk_block_t *> blocks;
};

inline Full NewFull(hk_heap_t *heap, unsigned class_index) {
  Full full = {NewActive(heap, class_index), {}};
  hk_span_carve(heap, full.span, CapacityOf(class_index));
  full.blocks = PopAll(heap, class_index);
  return full;
}

// The same, not active any more.
inline Full NewFullInactive(hk_heap_t *heap, unsigned class_index) {
  Full full = NewFull(heap, class_index);
  hk_span_deactivate(heap, class_index);
  return full;
}

inline hk_block_t *TakeLast(Full *full) {
  hk_block_t *block = full->blocks.back();
  full->blocks.pop_back();
  return block;
}

inline void ExpectReleased(const hk_slab_t *span, unsigned slab_count) {
  for (unsigned i = 0; i < slab_count; i++) {
    EXPECT_EQ(hk_slab_state(&span[i]), hk_slab_free) << i;
    EXPECT_EQ(hk_load_relaxed(&span[i].owner), nullptr) << i;
  }
}

}  // namespace span_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_SPAN_DRIVER_H
