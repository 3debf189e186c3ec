/* space/large.h - L3. Blocks above 1 MiB, in a hardened build above 32 KiB, and blocks with an alignment above 2 MiB:
 * whole slabs of their own, from the free extents or newly mapped. In a shortage of addresses also smaller blocks:
 * newly mapped whole pages. */
#ifndef HK_SPACE_LARGE_H
#define HK_SPACE_LARGE_H

#include <stdbool.h>
#include <stddef.h>

#include "space/slab.h"

/* Returns a block of at least `bytes`; NULL when the system refuses. `bytes` is at most PTRDIFF_MAX, `alignment` any
 * power of two. `*is_zero` says whether the memory is known to be zero. */
void *hk_large_alloc(size_t bytes, size_t alignment, bool *is_zero);

/* Returns a new mapping of no more than whole pages, for `bytes` of any size, in a shortage (space/shortage.h); NULL
 * when the system refuses, or when there are too many large blocks. On success sets `*is_zero` to true. */
void *hk_large_alloc_pages(size_t bytes, size_t alignment, bool *is_zero);

/* Frees the block that `slab` describes. Returns false when it is free already: another thread was first. */
bool hk_large_free(hk_slab_t *slab, void *block);

/* Changes the block's size: into the free extent behind it, else into unused addresses behind it, else by a copy to
 * dirty memory where that is cheaper, else by moving its pages. Returns the block's new place; NULL when the system
 * refuses, and the block is then unchanged. Sets `*is_copied` when the new place is a copy: then the caller frees the
 * old block. NULL for `is_copied` excludes copies. */
void *hk_large_resize(hk_slab_t *slab, void *block, size_t bytes, bool *is_copied);

/* Makes the first `bytes` of a new block zero, and no more of them resident than necessary. */
void hk_large_clear(void *block, size_t bytes);

/* Returns the usable bytes of a large block of `bytes`; 0 when that exceeds PTRDIFF_MAX. */
size_t hk_large_good_size(size_t bytes);

typedef struct {
  size_t count; /* blocks in use */
  size_t mapped_bytes;
  size_t cached_bytes; /* free extents, dirty or zero */
  size_t dirty_bytes;  /* dirty extents */
} hk_large_usage_t;

/* Returns the sums, each at some moment of the call. Any thread, no lock. */
hk_large_usage_t hk_large_usage(void);

/* Repairs the free extents in a child of fork, while it has one thread. */
void hk_large_repair(void);

#endif /* HK_SPACE_LARGE_H */
