/* api/sampled.h - L5. Chooses the requests to sample: on the slow path of a sampled heap's small blocks, and for all
 * larger blocks. */
#ifndef HK_API_SAMPLED_H
#define HK_API_SAMPLED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/sample_countdown.h"
#include "heap/thread.h"

/* Takes a small block from the sampled heap of `lease`. Returns NULL and sets `*choice` when the request is the
 * one to sample or to guard. Returns NULL and leaves `*choice` unchanged when there is no memory.
 *
 * With `choice` NULL the request goes unsampled: its block is to hold a sample, or the request is a second attempt.
 * It still counts as a trial. The trials are independent, so a hit that is dropped does not bias the others.
 */
void *hk_sampled_take(hk_thread_lease_t lease, unsigned class_index, hk_sample_choice_t *choice);

/* Returns what the calling thread's next larger block, of `bytes` bytes, is chosen for: nothing, mostly. */
hk_sample_choice_t hk_sampled_choose_large(size_t bytes);

/* Returns the sample weight of a block after its resize from `old_bytes` to `new_bytes`; 0 when the block is no
 * sample. `is_known`: the block is in the table of samples. A block that grows stays a sample, or becomes one by the
 * bytes that are added. A block that shrinks may stop being one. So the chance is that of a block of the new size from
 * the start. */
uint64_t hk_sampled_weight_after(uintptr_t address, bool is_known, size_t old_bytes, size_t new_bytes);

#endif /* HK_API_SAMPLED_H */
