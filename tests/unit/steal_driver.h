// One heap that is idle, another that takes spans from it, and looks at what has moved.
#ifndef HK_TESTS_UNIT_STEAL_DRIVER_H
#define HK_TESTS_UNIT_STEAL_DRIVER_H

#include "unit/heap_driver.h"

namespace hk_test {
inline namespace steal_driver {

struct Heaps {
  hk_heap_t *giver = hk_heap_take();
  hk_heap_t *taker = hk_heap_take();
};

// As before growing: the heap's own memory is used up.
inline bool Steal(hk_heap_t *heap, unsigned class_index) {
  hk_list_t *partial = &heap->state[class_index].partial;
  if (!hk_list_is_linked(partial)) hk_list_init(partial);
  return hk_steal_span(heap, class_index);
}

inline hk_heap_t *OwnerOf(hk_slab_t *span) { return hk_load_relaxed(&span->owner); }

}  // namespace steal_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_STEAL_DRIVER_H
