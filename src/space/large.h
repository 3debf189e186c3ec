/* space/large.h - L3. Blocks of more than 1 MiB, and those with an alignment of more than 2 MiB: whole slabs of their
 * own, from the free extents or newly mapped. In a shortage of addresses also smaller ones, of whole pages, newly
 * mapped. */
#ifndef HK_SPACE_LARGE_H
#define HK_SPACE_LARGE_H

#include <stdbool.h>
#include <stddef.h>

#include "space/slab.h"

/* `bytes` is at most PTRDIFF_MAX, `alignment` any power of two. `*zero` says whether the memory is known to be zero.
 * NULL when the system refuses. */
void *hk_large_alloc(size_t bytes, size_t alignment, bool *zero);

/* The same for any size, of no more than whole pages, and never from free extents: for a shortage (space/shortage.h). */
void *hk_large_alloc_pages(size_t bytes, size_t alignment, bool *zero);

/* `slab` is the block's descriptor. False when the block is free already: another thread was first. */
bool hk_large_free(hk_slab_t *slab, void *block);

/* Changes the block's size where it stands, or by moving pages, not contents. The block's new place, or NULL when the
 * system refuses: nothing has changed then. */
void *hk_large_resize(hk_slab_t *slab, void *block, size_t bytes);

/* Makes the first `bytes` of a new block zero, and no more of it resident than must be. */
void hk_large_clear(void *block, size_t bytes);

/* What a large block of `bytes` lets the program use; 0 when that exceeds PTRDIFF_MAX. */
size_t hk_large_good_size(size_t bytes);

typedef struct {
  size_t count; /* blocks in use */
  size_t mapped_bytes;
  size_t cached_bytes; /* free extents, whether they hold memory or not */
  size_t idle_bytes;   /* those of them that may hold some */
} hk_large_usage_t;
hk_large_usage_t hk_large_usage(void);

/* In a child of fork, while it has one thread. */
void hk_large_repair(void);

#endif /* HK_SPACE_LARGE_H */
