/* space/extent.h - L3. Free extents of address space. Large blocks leave them and are made of them.
 *
 * An extent is whole slabs. The descriptors of its first and last slab are boundary tags. A range that becomes free
 * finds the extents that end before it and begin behind it by their tags, and merges with them. So two extents never
 * touch, whichever mappings they came from. They are found by size, in buckets of nearly equal ones (eight to a
 * doubling), without a table that would have to grow. Every function requires hk_lock_space, unless it says otherwise,
 * and makes no system call.
 *
 * Invariant: each free extent is in the bucket of its size, and in one list in the order of age: of the dirty extents,
 * or of those that are known to be zero. Both its tags lead to its first slab. The slabs before and behind it are no
 * tags. The count, free_bytes and hk_dirty_extents.dirty_bytes are the sums over these lists.
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
  bool is_zero; /* known to read as zero: it holds no memory */
} hk_extent_t;

/* Makes a range of slabs free. Requires that each of its slabs has a writable descriptor (hk_region_map_enter), and
 * that its first and last slab are hk_slab_none or hk_slab_free. */
void hk_extent_put_locked(hk_extent_t extent);

/* Takes `bytes` from the best fit, at a multiple of `alignment`. The start is a multiple of `preferred_alignment`,
 * another power of two, if the extent has room for that. Returns false when no extent fits. The slabs are
 * hk_slab_none afterwards. */
bool hk_extent_take_locked(size_t bytes, size_t alignment, size_t preferred_alignment, hk_extent_t *taken);

/* Returns the start of a dirty extent of at least `bytes` in the bucket of the longest, so that a block which grows has
 * room there. Examines a few extents of each bucket. Returns 0 when it finds none. */
uintptr_t hk_extent_find_dirty_locked(size_t bytes);

/* Takes `bytes` at `start`. Returns false unless a free extent begins there and is long enough. */
bool hk_extent_take_at_locked(uintptr_t start, size_t bytes, hk_extent_t *taken);

/* Returns the age (hk_dirty_next_age_locked) of the oldest dirty extent; UINT64_MAX when none is dirty. */
uint64_t hk_extent_oldest_age_locked(void);
/* Returns the bytes of the oldest dirty extent; 0 when none is dirty. */
size_t hk_extent_oldest_bytes_locked(void);

/* Takes the oldest dirty extent whole. If none is dirty and `or_zero` is true, takes the oldest one that is zero.
 * Returns false when there is none. */
bool hk_extent_take_oldest_locked(bool or_zero, hk_extent_t *taken);

typedef struct {
  size_t count;
  size_t free_bytes; /* address space, dirty or purged */
} hk_extent_usage_t;

/* Returns the free extents at some moment of the call. Any thread, no lock. */
hk_extent_usage_t hk_extent_usage(void);

/* Marks that a change is under way, as each change above does until its end. For a test, which leaves the mark as a
 * thread does that vanishes in a fork. */
void hk_extent_mark_changing_locked(void);

#if HK_DEBUG
/* Walks all free extents and returns their number. Panics with the sentence that does not hold. */
uint64_t hk_extent_check_locked(void);
#endif

/* For a child of fork, while it has one thread: forgets all extents if a vanished thread was changing them. */
void hk_extent_repair(void);

#endif /* HK_SPACE_EXTENT_H */
