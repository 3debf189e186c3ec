/* heap/spare.h - L4. Free slabs that a heap keeps for its own next spans and runs, so that neither a lock nor the search
 * for a place is paid for each: those that it has used, and a few more than it asked for when it grew (the reserve),
 * which nobody has touched and which cost no memory.
 *
 * They are kept in the ranges in which they were freed, and serve requests for exactly as many. They are free for
 * everybody who asks (any pointer into them is misuse), and in use for their superslab. All functions are for the thread
 * that has the heap.
 */
#ifndef HK_HEAP_SPARE_H
#define HK_HEAP_SPARE_H

#include "heap/heap.h"

/* A kept range of so many slabs, not zero; NULL when there is none. `slab_count` is 1 to HK_RUN_MAX_SLABS. */
hk_slab_t *hk_spare_take(hk_heap_t *heap, unsigned slab_count);

/* The same for a span, of the reserve or of the superslabs if nothing is kept; then `zero` says whether it is. NULL when the
 * system refuses. */
hk_slab_t *hk_spare_acquire(hk_heap_t *heap, unsigned slab_count);

/* Keeps the range at `head`, of head->slab_count retired slabs. When there is no room all that is kept goes to the
 * superslabs first; and so does the range itself when it is more than a heap may keep (the options `spare_slabs` and
 * `retain`). */
void hk_spare_put(hk_heap_t *heap, hk_slab_t *head);

/* Gives all that is kept to the superslabs, and the reserve. */
void hk_spare_flush(hk_heap_t *heap);

#endif /* HK_HEAP_SPARE_H */
