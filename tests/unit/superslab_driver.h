// Takes and gives back ranges of slabs, and counts them afterwards.
#ifndef HK_TESTS_UNIT_SUPERSLAB_DRIVER_H
#define HK_TESTS_UNIT_SUPERSLAB_DRIVER_H

#include <gtest/gtest.h>

#include <vector>

#include "fake_os.h"
#include "unit/core_parts.h"

namespace hk_test {
inline namespace superslab_driver {

inline constexpr unsigned kAll = HK_SUPERSLAB_SLABS;

inline hk_slab_t *Acquire(unsigned count, unsigned alignment = 1, hk_end_t end = hk_from_bottom) {
  return hk_superslab_acquire(count, alignment, end);
}

inline void Release(hk_slab_t *first, unsigned count) {
  hk_slab_retire(first, count);
  hk_superslab_release(first, count);
}

inline void Release(hk_slab_t *first) { Release(first, first->slab_count); }

// Which of its superslab's slabs it is.
inline unsigned PlaceOf(const hk_slab_t *slab) { return static_cast<unsigned>(slab - slab->superslab->slabs); }

inline uint64_t *WordAt(uintptr_t address) { return reinterpret_cast<uint64_t *>(address); }

// Makes a range resident, and not zero.
inline void Touch(const hk_slab_t *first, unsigned count, uint64_t stamp = UINT64_MAX) {
  for (unsigned i = 0; i < count; i++) {
    uintptr_t start = hk_slab_start(first + i);
    *WordAt(start) = stamp;
    *WordAt(start + HK_SLAB_BYTES - sizeof(uint64_t)) = stamp;
  }
}

inline bool Holds(const hk_slab_t *first, unsigned count, uint64_t stamp) {
  for (unsigned i = 0; i < count; i++) {
    uintptr_t start = hk_slab_start(first + i);
    if (*WordAt(start) != stamp || *WordAt(start + HK_SLAB_BYTES - sizeof(uint64_t)) != stamp) return false;
  }
  return true;
}

// A superslab whose slabs were all taken singly, lowest first.
inline std::vector<hk_slab_t *> AcquireSingles() {
  std::vector<hk_slab_t *> slabs;
  for (unsigned i = 0; i < kAll; i++) slabs.push_back(Acquire(1));
  return slabs;
}

inline void ReleaseSingles(const std::vector<hk_slab_t *> &slabs, unsigned from, unsigned to) {
  for (unsigned i = from; i < to; i++) Release(slabs[i]);
}

inline void ExpectUsage(size_t superslabs, size_t in_use_slabs, size_t idle_slabs) {
  hk_superslab_usage_t usage = hk_superslab_usage();
  EXPECT_EQ(usage.superslab_count, superslabs);
  EXPECT_EQ(usage.mapped_bytes, superslabs * HK_SUPERSLAB_BYTES);
  EXPECT_EQ(usage.in_use_bytes, in_use_slabs * HK_SLAB_BYTES);
  EXPECT_EQ(usage.dirty_bytes, idle_slabs * HK_SLAB_BYTES);
}

// Superslabs that the system did not take back are free extents, zero or not.
inline void ExpectFreeRanges(size_t superslabs, size_t of_them_idle) {
  EXPECT_EQ(hk_extent_usage().free_bytes, superslabs * HK_SUPERSLAB_BYTES);
  EXPECT_EQ(hk_load_relaxed(&hk_dirty_extents.dirty_bytes), of_them_idle * HK_SUPERSLAB_BYTES);
}

// All that is mapped is a superslab, a free extent, a leaf of the region map or a chunk of records: nothing was lost on
// the way.
inline void ExpectNothingLost() {
  size_t ours = hk_superslab_usage().mapped_bytes + hk_extent_usage().free_bytes;
  ours += hk_region_map_mapped_bytes() + hk_meta_mapped_bytes();
  EXPECT_EQ(fake_os_mapped_bytes(), ours);
}

inline void RetainEverything() { hk_option.retain = HK_TIB; }

// A list of ranges, each known to be zero or not, as its head says.
inline void ReleaseAll(const std::vector<hk_slab_t *> &extents) {
  hk_list_t list;
  hk_list_init(&list);
  for (hk_slab_t *first : extents) {
    hk_slab_retire(first, first->slab_count);
    hk_list_push_back(&list, &first->link);
  }
  hk_superslab_release_all(&list);
  EXPECT_TRUE(hk_list_is_empty(&list));
  for (hk_slab_t *first : extents) EXPECT_FALSE(hk_list_is_linked(&first->link));
}

}  // namespace superslab_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_SUPERSLAB_DRIVER_H
