/* heap/span_prefault.h - L4. Makes pages resident before blocks are carved from them. One system call replaces a page
 * fault for each page, and takes about two thirds of the time (docs/experiments/2026-11-22-prefault-spans.md).
 */
#ifndef HK_HEAP_SPAN_PREFAULT_H
#define HK_HEAP_SPAN_PREFAULT_H

#include "heap/heap.h"

/* Chosen: mid blocks are carved one by one, and their slab is made resident in parts of this size. A part is made
 * resident when the first block that reaches into it is carved, if the part before is resident to the last page. So the
 * first part of each slab tells whether the program fills such blocks. */
#define HK_PREFAULT_PART_BYTES (16 * HK_KIB)

/* Prefaults for the blocks of one span that start at `first` ... `last`, before they are carved. Their memory is zero,
 * and so not resident except where an earlier call prefaulted it. */
void hk_span_prefault(hk_heap_t *heap, unsigned class_index, uintptr_t first, uintptr_t last);

#endif /* HK_HEAP_SPAN_PREFAULT_H */
