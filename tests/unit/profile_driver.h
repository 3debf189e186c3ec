// Common to tests of the whole sampler: its rate, and sums over its samples.
#ifndef HK_TESTS_UNIT_PROFILE_DRIVER_H
#define HK_TESTS_UNIT_PROFILE_DRIVER_H

#include <cstddef>
#include <cstdint>

#include "api/instruments.h"
#include "inspect/profile.h"
#include "unit/core_parts.h"
#include "unwind/site.h"
#include "unwind/site_sums.h"

namespace hk_test {
inline namespace profile_driver {

constexpr size_t kRate = 512 * HK_KIB;
static_assert(kRate == HK_SAMPLING_RATE_PACED, "the least at which a thread samples no more often than its pace");

inline size_t LiveSamples() {
  size_t count = 0;
  hk_sample_visit([](const hk_sample_t *, void *context) { ++*static_cast<size_t *>(context); }, &count);
  return count;
}

// The estimate from the samples: since the last start of the profile, or in use.
inline uint64_t EstimatedBytes(bool is_in_use = false) {
  uint64_t sum = 0;
  for (const hk_site_t *site = hk_site_next(nullptr); site != nullptr; site = hk_site_next(site)) {
    hk_site_figures_t allocated, in_use;
    hk_site_sums_read(site, &allocated, &in_use);
    sum += (is_in_use ? in_use : allocated).block_bytes;
  }
  return sum;
}

}  // namespace profile_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_PROFILE_DRIVER_H
