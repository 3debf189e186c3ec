// One heap whose blocks another heap sends back, and the results of a drain.
#ifndef HK_TESTS_UNIT_PURGE_DRAIN_DRIVER_H
#define HK_TESTS_UNIT_PURGE_DRAIN_DRIVER_H

#include <gtest/gtest.h>

#include <map>

#include "unit/heap_driver.h"

namespace hk_test {
inline namespace purge_drain_driver {

inline constexpr uint64_t kNow = 1000;
struct Heaps {
  hk_heap_t *owner = hk_heap_take();
  hk_heap_t *other = hk_heap_take();

  void Send(const Blocks &blocks) const { SendAll(other, blocks); }
};

// All blocks of one span, which its bin does not allocate from any more; and what had to be taken before and after.
struct FullSpan {
  Blocks blocks, others;
  hk_slab_t *span = nullptr;

  FullSpan(hk_heap_t *heap, unsigned class_index) {
    std::map<hk_slab_t *, Blocks> taken;
    while (span == nullptr) {
      hk_block_t *block = Alloc(heap, class_index);
      taken[SpanOf(block)].push_back(block);
      for (const auto &[each, of_it] : taken) {
        if (of_it.size() == CapacityOf(class_index) && !IsActive(heap, each)) span = each;
      }
    }
    blocks = taken[span];
    for (const auto &[each, of_it] : taken) {
      if (each != span) others.insert(others.end(), of_it.begin(), of_it.end());
    }
  }
};

inline Blocks AllBut(const Blocks &blocks, size_t count) { return Blocks(blocks.begin() + count, blocks.end()); }

inline void DrainAll() { EXPECT_EQ(hk_purge_drain(kNow, 0), nullptr); }

inline bool IsGivenBack(const hk_slab_t *span, unsigned slab_count) {
  for (unsigned i = 0; i < slab_count; i++) {
    if (hk_slab_state(&span[i]) != hk_slab_free || span[i].owner.load() != nullptr) return false;
  }
  return true;
}

// Requires that `count` blocks wait for the heap, intact and with the under-way bit.
inline void ExpectWaiting(hk_heap_t *heap, size_t count) {
  ASSERT_EQ(IncomingLength(heap), count);
  const hk_block_t *block = hk_load_relaxed(&heap->shared.incoming);
  for (; block != HK_LIST_END; block = hk_remote_next(block->next)) {
    ASSERT_TRUE(hk_block_is_intact(block));
    ASSERT_TRUE(hk_remote_is_under_way(block->next));
  }
}

inline uint64_t ProcessStat(hk_stat_id_t id) { return hk_load_relaxed(&hk_stat_process.value[id]); }

}  // namespace purge_drain_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_PURGE_DRAIN_DRIVER_H
