/* heap/search.h - L4. Whether a block is on a list of free blocks, wherever it may be. */
#ifndef HK_HEAP_SEARCH_H
#define HK_HEAP_SEARCH_H

#include <stdbool.h>

#include "heap/heap.h"

/* A block's first words can look sealed without the block being free: memory keeps what it held, and a program may
 * copy it. So a match is believed only when the block is found: in its bin or span, on its way home, or in a
 * thread's outgoing batch. Slow. While other threads work on these lists the answer may be a wrong "no". */
bool hk_search_free(hk_slab_t *span, const hk_block_t *block);

#endif /* HK_HEAP_SEARCH_H */
