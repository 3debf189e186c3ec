/* space/extent.h - L3. Free extents of address space: what large blocks leave behind and are made of again.
 *
 * A range is whole slabs. The descriptors of its first and its last slab say so (boundary tags): a range that becomes
 * free sees at the slab before it and the slab behind it whether they end or begin one, and becomes one with it. So
 * two ranges never touch, whichever mappings they came from. They are found by size, in lists of nearly equal ones
 * (eight to a doubling), without a table that would have to grow. All of it needs hk_lock_space and no system call.
 *
 * Invariant: each free extent is in the bin of its size, and among the idle ones or, if it is known to be zero, the zero
 * ones, in the order of age; both its tags lead to its first slab; the slabs before and behind it are no tags. Count,
 * free_bytes and hk_idle_extents.idle_bytes are the sums of these lists.
 */
#ifndef HK_SPACE_EXTENT_H
#define HK_SPACE_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/panic.h"

typedef struct {
  uintptr_t start;
  size_t bytes;
  bool zero; /* it is known to read as zero: given back to the system, but for its addresses */
} hk_extent_t;

/* Makes a range free. Every region that it touches has descriptors of its own (hk_region_map_enter), and its own tags
 * are hk_slab_none or hk_slab_free. */
void hk_extent_put_locked(hk_extent_t extent);

/* Takes `bytes`, the best fit, at a multiple of `alignment`; at one of `wish`, another power of two, if the range that
 * fits has room for that. False when there is none. Its slabs are hk_slab_none afterwards. */
bool hk_extent_take_locked(size_t bytes, size_t alignment, size_t advice, hk_extent_t *taken);

/* Takes the `bytes` from `start` on, if a free extent begins there and is long enough. */
bool hk_extent_take_at_locked(uintptr_t start, size_t bytes, hk_extent_t *taken);

/* The age (hk_idle_next_age_locked) of the range that has been idle longest; UINT64_MAX when none is. */
uint64_t hk_extent_oldest_age_locked(void);
/* Its bytes; 0 when there is none. */
size_t hk_extent_oldest_bytes_locked(void);

/* Takes that range whole. Where `or_zero`, one that holds no memory will do when none is idle. */
bool hk_extent_take_oldest_locked(bool or_zero, hk_extent_t *taken);

typedef struct {
  size_t count;
  size_t free_bytes; /* address space, whether idle or given back */
} hk_extent_usage_t;
hk_extent_usage_t hk_extent_usage(void);

/* Marks that the ranges are being changed, as all of the above do until they are done. For a test: what a thread leaves
 * that vanishes meanwhile. */
void hk_extent_mark_changing_locked(void);

#if HK_DEBUG
/* Walks all free extents; returns how many. Panics with the sentence that does not hold. */
uint64_t hk_extent_check_locked(void);
#endif

/* In a child of fork, while it has one thread: forgets all ranges if one that is gone was changing them. */
void hk_extent_repair(void);

#endif /* HK_SPACE_EXTENT_H */
