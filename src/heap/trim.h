/* heap/trim.h - L4. A heap that keeps nothing for later. */
#ifndef HK_HEAP_TRIM_H
#define HK_HEAP_TRIM_H

#include "heap/heap.h"

/* Gives back every span of the heap that has no block in use, and the reserve. For the thread that has the heap. */
void hk_heap_trim(hk_heap_t *heap);

#endif /* HK_HEAP_TRIM_H */
