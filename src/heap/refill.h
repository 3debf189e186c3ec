/* heap/refill.h - L4. Refills a bin whose list is exhausted. */
#ifndef HK_HEAP_REFILL_H
#define HK_HEAP_REFILL_H

#include <stdbool.h>

#include "heap/heap.h"

/* Gives the bin of a class at least one block. Returns false when the system refuses. Tries in this order, so that
 * memory that was used before goes first: remote frees that wait for the heap, a span that has free blocks, the unused
 * part of the active span, a span of an idle heap, a new span. The counters of these are refill_remote, refill_used,
 * refill_carve, slab_move and slab_acquire; refill_failed counts refusals.
 *
 * Unless `untouched` is NULL, it may set `*untouched` instead, which is NULL before, to a block of a mid class that was
 * never used, and leave the bin empty: the block's memory is not touched. */
bool hk_refill(hk_heap_t *heap, unsigned class_index, hk_block_t **untouched);

/* Returns the class that serves a request of `class_index` at this alignment. While a heap needs few blocks of a tiny
 * class and has none, that is a coarse class (policy/size_class.h): otherwise each of many threads that need one block
 * of each of many classes has a span of each. The first heap of a process needs no such help, which is all that most
 * programs have, nor does a mid class, whose blocks are carved one by one. */
unsigned hk_refill_choose_class(hk_heap_t *heap, unsigned class_index, size_t alignment);

/* Returns whether the heap has free blocks of the class, or room for some. */
bool hk_refill_has(const hk_heap_t *heap, unsigned class_index);

/* Returns the smallest class above this one of which the heap has free blocks, or room for some, at this alignment; 0
 * when there is none. */
unsigned hk_refill_find_larger(const hk_heap_t *heap, unsigned class_index, size_t alignment);

#endif /* HK_HEAP_REFILL_H */
