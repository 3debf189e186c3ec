// Frees blocks of another heap, and looks at what waits for the owner.
#ifndef HK_TESTS_UNIT_REMOTE_DRIVER_H
#define HK_TESTS_UNIT_REMOTE_DRIVER_H

#include <gtest/gtest.h>

#include <vector>

#include "unit/heap_driver.h"

namespace hk_test {

using Blocks = std::vector<hk_block_t *>;

// The owner and one that frees the owner's blocks.
struct Heaps {
  hk_heap_t *owner = hk_heap_take();
  hk_heap_t *other = hk_heap_take();
};

inline void RemoteFree(hk_heap_t *heap, hk_block_t *block) { hk_remote_free(heap, hk_slab_of(block), block); }

inline void RemoteFreeAll(hk_heap_t *heap, const Blocks &blocks) {
  for (hk_block_t *block : blocks) RemoteFree(heap, block);
}

inline void Drain(hk_heap_t *heap) {
  hk_remote_drain(heap);
  EXPECT_EQ(heap->damaged, nullptr);
  EXPECT_FALSE(hk_remote_is_pending(heap));
}

}  // namespace hk_test

#endif  // HK_TESTS_UNIT_REMOTE_DRIVER_H
