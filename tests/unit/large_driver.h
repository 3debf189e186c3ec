// Takes and gives back large blocks, and counts them afterwards.
#ifndef HK_TESTS_UNIT_LARGE_DRIVER_H
#define HK_TESTS_UNIT_LARGE_DRIVER_H

#include <gtest/gtest.h>

#include <cstring>

#include "fake_os.h"
#include "unit/core_parts.h"

namespace hk_test {
inline namespace large_driver {

inline bool is_zero;

inline char *Alloc(size_t bytes, size_t alignment = HK_BLOCK_ALIGNMENT) {
  return static_cast<char *>(hk_large_alloc(bytes, alignment, &is_zero));
}

inline hk_slab_t *SlabOf(const void *block) { return hk_slab_of(block); }

inline bool Free(void *block) { return hk_large_free(SlabOf(block), block); }

inline char *Resize(char *block, size_t bytes) {
  return static_cast<char *>(hk_large_resize(SlabOf(block), block, bytes, nullptr));
}

inline uintptr_t AddressOf(const void *block) { return reinterpret_cast<uintptr_t>(block); }

inline void ExpectUsage(size_t count, size_t bytes) {
  EXPECT_EQ(hk_large_usage().count, count);
  EXPECT_EQ(hk_large_usage().mapped_bytes, bytes);
}

// All that is mapped is what the usage says, and leaves of the region map.
inline void ExpectNothingLost() {
  hk_large_usage_t usage = hk_large_usage();
  EXPECT_EQ(fake_os_mapped_bytes(), usage.mapped_bytes + usage.cached_bytes + hk_region_map_mapped_bytes());
  EXPECT_LE(usage.dirty_bytes, usage.cached_bytes);
}

inline void ExpectCached(size_t bytes, size_t dirty_bytes) {
  EXPECT_EQ(hk_large_usage().cached_bytes, bytes);
  EXPECT_EQ(hk_large_usage().dirty_bytes, dirty_bytes);
}

inline void RetainEverything() { hk_option.retain = HK_TIB; }

inline void Trim() { (void)hk_purge_down_to(0); }

// One free extent of `bytes`, not zero, that starts at a 2 MiB boundary: the next block is taken from its start.
inline char *FreeRange(size_t bytes) {
  RetainEverything();
  char *start = Alloc(bytes, HK_SUPERSLAB_BYTES);
  EXPECT_NE(start, nullptr);
  EXPECT_TRUE(Free(start));
  return start;
}

inline void ExpectBig(const char *block, size_t bytes) {
  hk_slab_t *slab = SlabOf(block);
  EXPECT_EQ(hk_slab_state(slab), hk_slab_large);
  EXPECT_EQ(hk_load_relaxed(&slab->bytes), bytes);
  EXPECT_EQ(hk_load_relaxed(&slab->owner), nullptr);
  EXPECT_TRUE(fake_os_is_mapped(block, bytes));
}

// One word in each mebibyte and at the end.
inline void Fill(char *block, size_t bytes, uint64_t stamp) {
  for (size_t i = 0; i < bytes; i += HK_MIB) memcpy(block + i, &stamp, sizeof stamp);
  memcpy(block + bytes - sizeof stamp, &stamp, sizeof stamp);
}

inline bool Holds(const char *block, size_t bytes, uint64_t stamp) {
  for (size_t i = 0; i < bytes; i += HK_MIB) {
    if (memcmp(block + i, &stamp, sizeof stamp) != 0) return false;
  }
  return memcmp(block + bytes - sizeof stamp, &stamp, sizeof stamp) == 0;
}

}  // namespace large_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_LARGE_DRIVER_H
