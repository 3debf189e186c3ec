/* space/superslab.h - L3. Slabs, cut from superslabs of 2 MiB of address space each. As many as the program needs.
 * Where the system refuses one, a superslab begins with some of its slabs.
 *
 * Idle memory (free slabs that were used and are therefore resident, and free extents of large blocks) is bounded: each
 * change ends by giving back what is above the limit (space/purge.h).
 */
#ifndef HK_SPACE_SUPERSLAB_H
#define HK_SPACE_SUPERSLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/slab.h"
#include "space/superslab_index.h"

/* Which end of a superslab a range is taken from. Spans and runs grow towards each other, so that the few slabs of a
 * span do not break up what runs need; and memory that was a run becomes a span late, which gives a double free of
 * the run time to be noticed. */
typedef enum { hk_from_bottom, hk_from_top } hk_end_t;

/* Takes `count` slabs (1 to 32) in a row, the first at a multiple of `alignment` slabs (a power of two up to 32).
 * The first one's descriptor, with slab_count and zero set and every state still hk_slab_free; NULL when the system
 * refuses. They are of the calling thread's node unless the system refuses that. */
hk_slab_t *hk_superslab_acquire(unsigned count, unsigned alignment, hk_end_t end);

/* For spans: takes at least `least` slabs, and of those next to them that nobody has touched since they were zero as
 * many as make it `most`. Otherwise like hk_superslab_acquire. */
hk_slab_t *hk_superslab_acquire_some(unsigned least, unsigned most);

/* Takes the `count` slabs that follow directly on a range that the caller has, if they are free. `*zero` says
 * whether they are. */
bool hk_superslab_extend(hk_slab_t *after_last, unsigned count, bool *zero);

/* Gives `count` slabs back; the caller has made them nobody's (hk_slab_retire). */
void hk_superslab_release(hk_slab_t *first, unsigned count);

/* The same for many ranges at once: a list through the `link` of each first slab, whose slab_count and zero tell of
 * it. */
void hk_superslab_release_all(hk_list_t *extents);

/* For a large block of `bytes` that no free extent is long enough for: makes free extents (space/extent.h) of all superslabs
 * that are wholly free. False when that cannot be enough, or there are none. The way back needs no call: a new
 * superslab is made of a free extent if one is long enough. */
bool hk_superslab_dissolve_free(size_t bytes);

/* Calls `visit` with the 32 descriptors of each superslab there is, without a lock: those in which the caller has slabs
 * stay, of others it reads what is atomic. */
void hk_superslab_visit(void (*visit)(hk_slab_t *slabs, void *context), void *context);

/* The address of a slab that lies in a superslab. */
HK_INLINE uintptr_t hk_slab_start(const hk_slab_t *slab) {
  return slab->superslab->start + (uintptr_t)(slab - slab->superslab->slabs) * HK_SLAB_BYTES;
}

typedef struct {
  size_t superslab_count; /* mapped now */
  size_t mapped_bytes;
  size_t in_use_bytes; /* slabs that somebody has */
  size_t idle_bytes;   /* free, but not given back to the system */
  size_t lazy_bytes;   /* given back lazily */
} hk_superslab_usage_t;
hk_superslab_usage_t hk_superslab_usage(void);

#endif /* HK_SPACE_SUPERSLAB_H */
