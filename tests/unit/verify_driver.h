// Asks what an address is.
#ifndef HK_TESTS_UNIT_VERIFY_DRIVER_H
#define HK_TESTS_UNIT_VERIFY_DRIVER_H

#include <gtest/gtest.h>

#include "unit/heap_driver.h"

namespace hk_test {
inline namespace verify_driver {

inline bool is_zero;

inline uintptr_t AddressOf(const void *block) { return reinterpret_cast<uintptr_t>(block); }
inline const void *At(uintptr_t address) { return reinterpret_cast<const void *>(address); }
inline hk_verdict_t VerdictOf(uintptr_t address) { return hk_verify(At(address)).verdict; }
inline hk_verdict_t VerdictOf(const void *address) { return hk_verify(address).verdict; }

inline void ExpectLive(const void *block, size_t bytes, const hk_slab_t *slab) {
  for (hk_finding_t finding : {hk_verify(block), hk_verify_thoroughly(block)}) {
    EXPECT_EQ(finding.verdict, hk_verdict_live);
    EXPECT_EQ(finding.start, AddressOf(block));
    EXPECT_EQ(finding.bytes, bytes);
    EXPECT_EQ(finding.slab, slab);
  }
}

}  // namespace verify_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_VERIFY_DRIVER_H
