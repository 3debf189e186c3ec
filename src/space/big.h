/* space/big.h - L3. Blocks of more than 1 MiB, and those with an alignment of more than 2 MiB: a mapping each. */
#ifndef HK_SPACE_BIG_H
#define HK_SPACE_BIG_H

#include <stdbool.h>
#include <stddef.h>

#include "space/slab.h"

/* `bytes` is at most PTRDIFF_MAX, `alignment` any power of two. `*zero` says whether the memory is known to be zero.
 * NULL when the system refuses. */
void *hk_big_alloc(size_t bytes, size_t alignment, bool *zero);

/* `slab` is the block's descriptor. False when the block is free already: another thread was first. */
bool hk_big_free(hk_slab_t *slab, void *block);

/* Changes the block's size by moving pages, not contents. The block's new place, or NULL when the system refuses:
 * nothing has changed then. */
void *hk_big_resize(hk_slab_t *slab, void *block, size_t bytes);

/* What a big block of `bytes` lets the program use; 0 when that exceeds PTRDIFF_MAX. */
size_t hk_big_good_size(size_t bytes);

typedef struct {
  size_t count;
  size_t mapped_bytes;
} hk_big_usage_t;
hk_big_usage_t hk_big_usage(void);

/* In a child of fork, while it has one thread. */
void hk_big_repair(void);

#endif /* HK_SPACE_BIG_H */
