/* space/large_prefault.h - L3. Makes large blocks resident that the program is about to fill, as policy/prefault_policy.h has it. One block at a time is
 * looked at, whether it was filled: when the next one is made, and at its end.
 *
 * Both functions are called without hk_lock_space, and take it.
 */
#ifndef HK_SPACE_LARGE_PREFAULT_H
#define HK_SPACE_LARGE_PREFAULT_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

/* Chosen: what was not filled after so many looks counts as not filled, whether it has ended or not. */
#define HK_LARGE_PREFAULT_LOOKS 16

/* The caller's new block of `bytes`, as they were asked for, none of which is resident. */
void hk_large_prefault_note_new(uintptr_t start, size_t bytes);

/* Where the block starts that is looked at; 0: none is. Written under hk_lock_space, read without. */
extern HK_HIDDEN _Atomic(uintptr_t) hk_large_prefault_sample;

/* The slow half of the next one. */
void hk_large_prefault_end_sample(uintptr_t start);

/* The caller's block that starts there ends, or changes its size. */
HK_INLINE void hk_large_prefault_note_end(uintptr_t start) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_large_prefault_sample) == start)) hk_large_prefault_end_sample(start);
}

#endif /* HK_SPACE_LARGE_PREFAULT_H */
