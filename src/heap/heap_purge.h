/* heap/heap_purge.h - L4. A heap that keeps nothing for later. */
#ifndef HK_HEAP_HEAP_PURGE_H
#define HK_HEAP_HEAP_PURGE_H

#include "heap/heap.h"

/* Gives back every span of the heap that has no block in use, and the spare slabs. For the thread that has the heap. */
void hk_heap_purge(hk_heap_t *heap);

/* For a heap that is about to lose its thread: gives back the spare slabs and what the bins of mid classes have. What
 * stays is cheap to keep for the next thread. */
void hk_heap_unload(hk_heap_t *heap);

/* For a heap that gets another thread: each class's carving begins with a small one. What one thread wanted says
 * nothing of the next. */
void hk_heap_begin_small(hk_heap_t *heap);

/* For a heap that may have no thread for long: hk_heap_purge, and no bin allocates from a span any more. From then on
 * each span counts its blocks, and is given back with the last one. */
void hk_heap_settle_down(hk_heap_t *heap);

#endif /* HK_HEAP_HEAP_PURGE_H */
