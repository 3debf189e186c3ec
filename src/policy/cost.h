/* policy/cost.h - L2. What purging memory and faulting it in again cost on this machine: the median of a few measured
 * calls. Numbers in, numbers out.
 *
 * One slow call, of a thread that lost its caches or its processor, does not change a median. Where the costs are near
 * the expected ones, those hold: a machine like the one on which the constants were measured behaves the same in each
 * run.
 */
#ifndef HK_POLICY_COST_H
#define HK_POLICY_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* ---- Chosen. */

/* Until this number of calls has been measured, the expected cost holds. No more are measured. */
#define HK_COST_SAMPLES 5u
/* Smaller calls cost little beside the system call itself; of larger ones, knowing the resident part takes long. */
#define HK_COST_MIN_BYTES ((size_t)64 * 1024)
#define HK_COST_MAX_BYTES ((size_t)64 * 1024 * 1024)
/* The cost in use is at most this many times the expected one, and at least this part of it. */
#define HK_COST_BOUND 4u
/* A break-even time within this part of the expected one confirms it. */
#define HK_COST_NEAR_SHARE 4u

/* Starts as all zero. */
typedef struct {
  unsigned count;
  uint64_t ns_per_mib[HK_COST_SAMPLES]; /* rising */
} hk_cost_t;

HK_INLINE bool hk_cost_is_known(const hk_cost_t *cost) { return cost->count == HK_COST_SAMPLES; }

/* Notes a call that took `ns` of CPU time for `bytes` of resident memory. Without effect when the cost is known, or the
 * bytes or the time say nothing. */
void hk_cost_add(hk_cost_t *cost, size_t bytes, uint64_t ns);

/* Returns whether costs are so near the expected ones that those hold. */
bool hk_cost_is_near(uint64_t ns, uint64_t expected_ns);

/* Returns the cost of a MiB in ns; the expected one until it is known. */
uint64_t hk_cost_ns(const hk_cost_t *cost, uint64_t expected_ns);

HK_C_END

#endif /* HK_POLICY_COST_H */
