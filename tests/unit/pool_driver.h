// Fills the pool beyond its slots, visits its heaps, and repairs it as a child of fork does.
#ifndef HK_TESTS_UNIT_POOL_DRIVER_H
#define HK_TESTS_UNIT_POOL_DRIVER_H

#include <gtest/gtest.h>

#include <vector>

#include "unit/heap_driver.h"

namespace hk_test {
inline namespace pool_driver {

// What happens in the child of a fork whose thread has `mine`.
inline void Repair(const hk_heap_t *mine) {
  hk_heap_repair();
  const hk_forker_t forker = {nullptr, mine, mine};
  hk_orphan_settle_all(&forker);
}

inline constexpr unsigned kBeyond = 5;
inline constexpr unsigned kMany = HK_POOL_SLOTS + kBeyond;

inline std::vector<hk_heap_t *> GiveBackMany() {
  std::vector<hk_heap_t *> heaps = TakeMany(kMany);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
  return heaps;
}

}  // namespace pool_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_POOL_DRIVER_H
