// One heap whose blocks another frees.
#ifndef HK_TESTS_UNIT_REMOTE_DRIVER_H
#define HK_TESTS_UNIT_REMOTE_DRIVER_H

#include "unit/heap_driver.h"

namespace hk_test {
inline namespace remote_driver {

// The owner and one that frees the owner's blocks.
struct Heaps {
  hk_heap_t *owner = hk_heap_take();
  hk_heap_t *other = hk_heap_take();
};

inline void RemoteFreeAll(hk_heap_t *heap, const Blocks &blocks) {
  for (hk_block_t *block : blocks) RemoteFree(heap, block);
}

}  // namespace remote_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_REMOTE_DRIVER_H
