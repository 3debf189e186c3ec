/* tests/api/figures_driver.h - the figures of hakmem_stats_get and its kin, looked up, and blocks that show up in
 * them. */
#ifndef HK_TESTS_API_FIGURES_DRIVER_H
#define HK_TESTS_API_FIGURES_DRIVER_H

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "hakmem/hakmem.h"

namespace hk_test {

inline hakmem_stats_t Stats() {
  hakmem_stats_t stats;
  EXPECT_EQ(hakmem_stats_get(&stats, sizeof stats), 0);
  return stats;
}

template <typename Element>
std::vector<Element> All(int (*get)(Element *, size_t, size_t *)) {
  size_t count = 0;
  EXPECT_EQ(get(nullptr, sizeof(Element), &count), 0);
  std::vector<Element> elements(count + 8); /* a look may make a heap */
  count = elements.size();
  EXPECT_EQ(get(elements.data(), sizeof(Element), &count), 0);
  EXPECT_LE(count, elements.size());
  elements.resize(count);
  return elements;
}

inline std::vector<hakmem_stats_band_t> Bands() { return All(hakmem_stats_get_bands); }

/* By block size. */
inline std::map<uint64_t, hakmem_stats_class_t> Classes() {
  std::map<uint64_t, hakmem_stats_class_t> classes;
  for (const hakmem_stats_class_t &one : All(hakmem_stats_get_classes)) classes[one.bytes] = one;
  return classes;
}

inline std::vector<hakmem_stats_heap_t> Heaps() { return All(hakmem_stats_get_heaps); }

using Blocks = std::vector<void *>;

inline Blocks AllocMany(size_t size, size_t count) {
  Blocks blocks;
  while (blocks.size() < count) blocks.push_back(hakmem_malloc(size));
  return blocks;
}

inline void FreeAll(Blocks &blocks) {
  for (void *block : blocks) hakmem_free(block);
  blocks.clear();
}

/* Every third stays. */
inline void FreeSome(Blocks &blocks) {
  Blocks kept;
  for (size_t i = 0; i < blocks.size(); i++) {
    if (i % 3 == 0) {
      kept.push_back(blocks[i]);
    } else {
      hakmem_free(blocks[i]);
    }
  }
  blocks = kept;
}

} /* namespace hk_test */

#endif
