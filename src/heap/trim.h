/* heap/trim.h - L4. A heap that keeps nothing for later. */
#ifndef HK_HEAP_TRIM_H
#define HK_HEAP_TRIM_H

#include "heap/heap.h"

/* Gives back every span of the heap that has no block in use, and the spare slabs. For the thread that has the heap. */
void hk_heap_trim(hk_heap_t *heap);

/* For a heap that has no thread, or is about to lose it: keeps at most what is cheap to keep for the next one, and
 * nothing when many heaps wait for one. To see whether a tiny class's blocks are all home its list must be walked: at
 * most `steps` are worth it. */
void hk_heap_settle_down(hk_heap_t *heap, size_t steps);

#endif /* HK_HEAP_TRIM_H */
