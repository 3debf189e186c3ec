/* space/superslab.h - L3. Slabs, carved from superslabs of 2 MiB of address space each. The number of superslabs has no
 * bound. Where the system refuses 2 MiB, a superslab begins with some of its slabs.
 *
 * Dirty memory is bounded: free slabs that were used and are therefore resident, and dirty extents. Each change ends
 * with a purge of the dirty memory above the limit (space/purge.h).
 */
#ifndef HK_SPACE_SUPERSLAB_H
#define HK_SPACE_SUPERSLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/slab.h"
#include "space/superslab_index.h"

/* The end of a superslab from which slabs are taken. Spans and runs grow towards each other, so the few slabs of a span
 * do not break up the room for runs. Memory of a run becomes a span late, so a double free of the run is noticed
 * longer. */
typedef enum { hk_from_bottom, hk_from_top } hk_end_t;

/* Takes `count` slabs (1 to 32) in a row, the first at a multiple of `alignment` slabs (a power of two up to 32), of
 * the calling thread's node unless the system refuses that. Returns the first one's descriptor, with slab_count and
 * zero set, and with every state still hk_slab_free. Returns NULL when the system refuses. */
hk_slab_t *hk_superslab_acquire(unsigned count, unsigned alignment, hk_end_t end);

/* Takes `least` slabs for a span. If they and free neighbours below them are untouched since they were zero, it takes
 * these too, up to `most` in all. Returns what hk_superslab_acquire returns. */
hk_slab_t *hk_superslab_acquire_some(unsigned least, unsigned most);

/* Takes `count` dirty slabs for a block that grows: those with more free slabs behind them than any others have.
 * Returns their first descriptor; NULL when there are none. */
hk_slab_t *hk_superslab_acquire_roomy(unsigned count);

/* Takes the `count` slabs directly behind slabs of the caller. Returns false when they are not free. Sets `*is_zero` to
 * whether they are known to be zero. */
bool hk_superslab_extend(hk_slab_t *after_last, unsigned count, bool *is_zero);

/* Returns `count` slabs to their superslab. Requires that the caller has retired them (hk_slab_retire). */
void hk_superslab_release(hk_slab_t *first, unsigned count);

/* Returns many groups of slabs at once. The list links the first slab of each group by its `link`; slab_count and zero
 * of that slab describe the group. The list is empty afterwards. */
void hk_superslab_release_all(hk_list_t *groups);

/* Makes free extents (space/extent.h) of all wholly free superslabs, for a large block of `bytes` for which no free
 * extent is long enough. Returns false when there is no such superslab, when no slab is dirty, or when less than
 * `bytes` is dirty in all. The way back needs no call: a new superslab is made of a free extent that is long enough. */
bool hk_superslab_dissolve_free(size_t bytes);

/* Calls `visit` with the 32 descriptors of each superslab, without a lock. Superslabs in which the caller has slabs
 * stay. Of the others `visit` may read atomic fields only. */
void hk_superslab_visit(void (*visit)(hk_slab_t *slabs, void *context), void *context);

typedef struct {
  size_t superslab_count; /* mapped now */
  size_t mapped_bytes;
  size_t in_use_bytes; /* slabs in use, and spare slabs of heaps */
  size_t dirty_bytes;  /* free and dirty */
  size_t lazy_bytes;   /* free and purged lazily */
} hk_superslab_usage_t;

/* Returns the sums over all shards, each at some moment of the call. Any thread, no lock. */
hk_superslab_usage_t hk_superslab_usage(void);

#endif /* HK_SPACE_SUPERSLAB_H */
