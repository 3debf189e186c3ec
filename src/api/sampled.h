/* api/sampled.h - L5. Which requests are sampled: the slow path of a sampled heap's small blocks, and all larger blocks. */
#ifndef HK_API_SAMPLED_H
#define HK_API_SAMPLED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/thread.h"

/* Takes a small block from the sampled heap of `lease`. NULL, and `*weight_q16` set to the sample's weight, when the request is
 * the one to sample; NULL alone when there is no memory.
 *
 * With `weight_q16` NULL the request goes unsampled: it is the block that a sample is put into, or a second attempt. It
 * still counts as a trial. The trials are independent, so a hit that is dropped does not bias the others. */
void *hk_sampled_take(hk_thread_lease_t lease, unsigned class_index, uint64_t *weight_q16);

/* Whether the calling thread's next block, of so many bytes, is one to be sampled, and by which rate. */
bool hk_sampled_large_is_due(size_t bytes, uint64_t *rate);

/* For a block that is to have `new_bytes` in the place of `old_bytes`: the weight of the sample that it is then, 0 when it is
 * none. `is_known`: it is in the table of samples. A block that grows stays a sample or becomes one by what it has more; one
 * that shrinks may be none any more. So the chance is that of a block which had the new size from the start. */
uint64_t hk_sampled_weight_after(uintptr_t address, bool is_known, size_t old_bytes, size_t new_bytes);

#endif /* HK_API_SAMPLED_H */
