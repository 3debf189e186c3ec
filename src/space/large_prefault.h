/* space/large_prefault.h - L3. Makes a large block resident at once, where policy/prefault_policy.h expects that the
 * program is about to fill it. One block at a time is the sample. A look tells whether it was filled: when some of
 * the later blocks are made, and at its end.
 *
 * The functions are called without hk_lock_space, and take it.
 */
#ifndef HK_SPACE_LARGE_PREFAULT_H
#define HK_SPACE_LARGE_PREFAULT_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "space/slab.h"

/* Chosen: a sample that is not filled when this many blocks were made after it counts as not filled, even if it has not
 * ended. A power of two. */
#define HK_LARGE_PREFAULT_BLOCKS 16

/* Notes a new block of `bytes`, as requested, of which nothing is resident. May prefault it. `slab` is the
 * descriptor of a large block; NULL for a run. */
void hk_large_prefault_note_new(hk_slab_t *slab, uintptr_t start, size_t bytes);

/* The start of the sample; 0: there is none. Written under hk_lock_space, read without it. */
extern HK_HIDDEN _Atomic(uintptr_t) hk_large_prefault_sample;

/* The slow half of hk_large_prefault_note_end. */
void hk_large_prefault_end_sample(uintptr_t start);

/* Notes that the caller's block at `start` ends, or changes its size. */
HK_INLINE void hk_large_prefault_note_end(uintptr_t start) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_large_prefault_sample) == start)) hk_large_prefault_end_sample(start);
}

#endif /* HK_SPACE_LARGE_PREFAULT_H */
