/* inspect/estimate.h - L8. What was asked for of the blocks of each size class, band and heap, by what the heap profile has sampled.
 *
 * A sampled block stands for others of its class and heap, and is itself longer than those: what was asked for of it is known.
 * Of all others the part counts that was asked for of those that samples stand for.
 */
#ifndef HK_INSPECT_ESTIMATE_H
#define HK_INSPECT_ESTIMATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "hakmem/hakmem.h"
#include "policy/size_class.h"

HK_C_BEGIN

/* Of samples that are in use. */
typedef struct {
  uint64_t requested_bytes; /* of the blocks that they stand for */
  uint64_t block_bytes;
  uint64_t own_requested_bytes; /* and of themselves */
  uint64_t own_block_bytes;
} hk_estimate_t;

/* Room is the caller's, and zero before. */
typedef struct {
  hk_estimate_t of_class[HK_CLASS_COUNT];
  hk_estimate_t of_band[HAKMEM_STATS_BANDS];
  hk_estimate_t *of_heap; /* [i]: of the heap with number i + 1 */
  size_t heap_count;
} hk_estimates_t;

/* Looks at all samples. Allocates nothing, and waits for nobody. */
void hk_estimates_take(hk_estimates_t *estimates);

/* What was asked for of so many bytes in use; 0 where no sample says. */
uint64_t hk_estimate_requested(const hk_estimate_t *estimate, uint64_t live_bytes);

HK_C_END

#endif /* HK_INSPECT_ESTIMATE_H */
