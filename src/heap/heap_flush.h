/* heap/heap_flush.h - L4. Flushes a heap: returns what it keeps for later requests to the superslabs. The slabs then
 * are dirty memory, which space/purge.h gives back to the system. */
#ifndef HK_HEAP_HEAP_FLUSH_H
#define HK_HEAP_HEAP_FLUSH_H

#include "heap/heap.h"

/* Returns the spare slabs and every span of the heap that has no block in use to the superslabs. For the thread that
 * has the heap. */
void hk_heap_flush(hk_heap_t *heap);

/* Releases the active span of a tiny class when all its blocks are in the effective free list. Otherwise returns the
 * number of the others, and sets `*length` to the list's length; UINT_MAX when the list is damaged. For the thread that
 * has the heap. */
unsigned hk_heap_flush_tiny(hk_heap_t *heap, unsigned class_index, unsigned *length);

/* Returns the spare slabs and the blocks of mid bins, for a heap that is about to lose its thread. The rest is cheap
 * to keep for the next thread. */
void hk_heap_unload(hk_heap_t *heap);

/* Puts a block that comes out of the quarantine on its free list, in a hardened build; NULL: none. Sets `heap->damaged`
 * to a damaged block, which is lost. For the thread that has the heap. */
void hk_heap_put_from_quarantine(hk_heap_t *heap, hk_block_t *block);

/* Returns the class's blocks in quarantine to their spans, in a hardened build. Other builds have none. Sets
 * `heap->damaged` to a damaged block, which is lost. For the thread that has the heap. */
void hk_heap_end_quarantine(hk_heap_t *heap, unsigned class_index);

/* Makes each class's carving begin with a small one, and the room for spare slabs small, for a heap that gets another
 * thread, whose needs are unknown. */
void hk_heap_begin_small(hk_heap_t *heap);

/* hk_heap_flush for a heap that may have no thread for long: afterwards no bin of a tiny class allocates from a span.
 * Each span counts its blocks, and is given back with the last one. */
void hk_heap_deactivate_all(hk_heap_t *heap);

/* Gives up the pages of the heap's spans that were never carved (hk_span_shorten). Returns whether there were any. */
bool hk_heap_shorten(hk_heap_t *heap);

#endif /* HK_HEAP_HEAP_FLUSH_H */
