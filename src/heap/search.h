/* heap/search.h - L4. Searches all lists of free blocks for a block. */
#ifndef HK_HEAP_SEARCH_H
#define HK_HEAP_SEARCH_H

#include <stdbool.h>

#include "heap/heap.h"

/* Returns whether the block is free. The first words of a live block can look sealed: memory keeps its old contents,
 * and a program may copy them. So only a block that is found counts: in its bin or span, under way, or in an outbox.
 * Slow. While other threads work on these lists the answer may be a wrong "no". */
bool hk_search_free(hk_slab_t *span, const hk_block_t *block);

/* Returns whether a carved block may be free: by its live bit in a hardened build, else by its first words, as far as
 * they tell. Another thread may free and unmap the memory around the block at this moment, so the system copies the
 * words. Returns false where they cannot be read. */
bool hk_search_may_be_free(const hk_block_t *block);

#endif /* HK_HEAP_SEARCH_H */
