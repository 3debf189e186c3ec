/* heap/carve.h - L4. Carves: cuts blocks out of memory of a span that was not handed out yet. They come in the order of
 * addresses; a span's first ones begin at a place of the first page that depends on the slab, and those before it come
 * last. In a hardened build they come in a random order within groups of neighbours. For the thread that has the
 * heap. */
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
