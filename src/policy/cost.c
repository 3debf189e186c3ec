/* policy/cost.c - L2. See cost.h. */
#include "policy/cost.h"

#include "base/arithmetic.h"
#include "base/units.h"

void hk_cost_add(hk_cost_t *cost, size_t bytes, uint64_t ns) {
  if (hk_cost_is_known(cost) || bytes < HK_COST_MIN_BYTES || bytes > HK_COST_MAX_BYTES || ns == 0) return;
  uint64_t ns_per_mib = hk_multiply_saturating(ns, HK_MIB / HK_KIB) / (bytes / HK_KIB);
  unsigned at = cost->count++;
  for (; at > 0 && cost->ns_per_mib[at - 1] > ns_per_mib; at--) cost->ns_per_mib[at] = cost->ns_per_mib[at - 1];
  cost->ns_per_mib[at] = ns_per_mib;
}

bool hk_cost_is_near(uint64_t ns, uint64_t expected_ns) {
  uint64_t near_ns = expected_ns / HK_COST_NEAR_SHARE;
  return ns >= expected_ns - near_ns && ns <= expected_ns + near_ns;
}

uint64_t hk_cost_ns(const hk_cost_t *cost, uint64_t expected_ns) {
  if (!hk_cost_is_known(cost)) return expected_ns;
  uint64_t median_ns = cost->ns_per_mib[HK_COST_SAMPLES / 2];
  return hk_smaller(hk_larger(median_ns, expected_ns / HK_COST_BOUND), expected_ns * HK_COST_BOUND);
}
