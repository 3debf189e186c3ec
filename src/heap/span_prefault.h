/* heap/span_prefault.h - L4. Pages that are made resident before blocks are cut from them: one call of the system instead of a page
 * fault each, which is two thirds of what the faults cost (docs/design.md, "Carving").
 */
#ifndef HK_HEAP_SPAN_PREFAULT_H
#define HK_HEAP_SPAN_PREFAULT_H

#include "heap/heap.h"

/* Chosen: of a mid class, whose blocks are cut one by one, a slab is made resident in parts of so much, each when the first block is
 * cut that reaches into it, if the part before is resident to the last page. So the first part of each slab tells whether the
 * program fills such blocks. */
#define HK_PREFAULT_PART_BYTES (16 * HK_KIB)

/* Before the blocks of one span are cut that start at `first` ... `last`, from memory that is zero, and so is not resident but for what
 * this has made so. */
void hk_span_prefault(hk_heap_t *heap, unsigned class_index, uintptr_t first, uintptr_t last);

#endif /* HK_HEAP_SPAN_PREFAULT_H */
