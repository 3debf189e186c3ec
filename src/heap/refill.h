/* heap/refill.h - L4. What a bin does when its list is exhausted. */
#ifndef HK_HEAP_REFILL_H
#define HK_HEAP_REFILL_H

#include <stdbool.h>

#include "heap/heap.h"

/* Gives the bin of a class at least one block. False when the system refuses. In this order: what other threads freed,
 * a span that has free blocks, the unused part of the active span, a span of an idle heap, a new span: memory that was
 * used before goes first. Each is counted as what it was: refill_remote, refill_used, refill_carve, slab_move,
 * slab_acquire, or refill_failed. */
bool hk_refill(hk_heap_t *heap, unsigned class_index);

/* Whether the heap has free blocks of the class, or room for some. */
bool hk_refill_has(const hk_heap_t *heap, unsigned class_index);

/* The smallest class above this one of which the heap has free blocks, or room for some, at this alignment; 0 when
 * there is none. */
unsigned hk_refill_find_larger(const hk_heap_t *heap, unsigned class_index, size_t alignment);

#endif /* HK_HEAP_REFILL_H */
