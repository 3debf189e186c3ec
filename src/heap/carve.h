/* heap/carve.h - L4. Carves: makes blocks of memory of a span for the first time. For the thread that has the heap.
 *
 * A bin gets new blocks in the order of their addresses. The first carving of a span begins inside its first page, at a
 * place that depends on the slab. The blocks before that place come last. In a hardened build the order is random
 * within groups of neighbours.
 */
#ifndef HK_HEAP_CARVE_H
#define HK_HEAP_CARVE_H

#include "heap/heap.h"

/* Carves up to `count` new blocks for the bin of an active span, and returns how many there was room for. Requires an
 * empty effective free list. */
unsigned hk_span_carve(hk_heap_t *heap, hk_slab_t *span, unsigned count);

/* Carves one block of a mid class for a request, past its bin, and does not write to it. Returns NULL when the span has
 * no room. Requires an empty effective free list, and memory that is known to be zero. */
hk_block_t *hk_span_carve_untouched(hk_heap_t *heap, hk_slab_t *span);

#endif /* HK_HEAP_CARVE_H */
