/* inspect/estimate.h - L8. Estimates the requested bytes of the blocks of each size class, band and heap from the
 * samples of the heap profile.
 *
 * A sampled block stands for others of its class and heap, and is itself longer than those. Its own requested bytes are
 * known. For the blocks that are not sampled, the estimate applies the ratio of requested bytes to block bytes that the
 * samples stand for.
 */
#ifndef HK_INSPECT_ESTIMATE_H
#define HK_INSPECT_ESTIMATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "hakmem/hakmem.h"
#include "policy/size_class.h"

HK_C_BEGIN

/* Sums over live samples. */
typedef struct {
  uint64_t requested_bytes; /* of the blocks that the samples stand for */
  uint64_t block_bytes;
  uint64_t own_requested_bytes; /* of the samples themselves */
  uint64_t own_block_bytes;
} hk_estimate_t;

/* The caller provides the room, filled with zeros. */
typedef struct {
  hk_estimate_t of_class[HK_CLASS_COUNT];
  hk_estimate_t of_band[HAKMEM_STATS_BANDS];
  hk_estimate_t *of_heap; /* [i]: the heap with number i + 1 */
  size_t heap_count;
} hk_estimates_t;

/* Adds all live samples to the estimates. Allocates nothing and takes no lock. */
void hk_estimates_take(hk_estimates_t *estimates);

/* Returns the estimated requested bytes of `live_bytes` bytes of live blocks. Returns 0 where no sample stands for
 * them. */
uint64_t hk_estimate_requested(const hk_estimate_t *estimate, uint64_t live_bytes);

HK_C_END

#endif /* HK_INSPECT_ESTIMATE_H */
