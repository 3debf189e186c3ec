/* heap/run_cache.h - L4. Freed runs that a heap keeps for its own next requests, so that neither a lock nor the search
 * for a place is paid for each. A run has no owner: the heap of the thread that frees it keeps it.
 *
 * A kept run is free for everybody who asks (any pointer into it is misuse), and in use for its superslab. All
 * functions are for the thread that has the heap.
 */
#ifndef HK_HEAP_RUN_CACHE_H
#define HK_HEAP_RUN_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/heap.h"

/* Chosen: a heap keeps runs of so many slabs together, 2 MiB; fewer when the option `retain` is below that. */
#define HK_RUN_CACHE_SLABS 32u

/* A kept run of the size that `bytes` needs, not zero; NULL when there is none. */
void *hk_run_cache_take(hk_heap_t *heap, size_t bytes);

/* Keeps a run that is freed. When there is no room, all that is kept goes to the superslabs first. False when the run
 * is free already: another thread was first. */
bool hk_run_cache_put(hk_heap_t *heap, hk_slab_t *head);

/* Gives all that is kept to the superslabs. */
void hk_run_cache_flush(hk_heap_t *heap);

#endif /* HK_HEAP_RUN_CACHE_H */
