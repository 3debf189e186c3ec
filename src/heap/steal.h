/* heap/steal.h - L4. Spans that move to another heap: a heap that is about to grow takes one that an idle heap does not
 * use.
 *
 * Threads that come and go overlap, so there are more heaps than threads, each with a half-used span of each class. An
 * idle heap offers what it has free (hk_heap_offers) to threads that would otherwise take new memory. A span moves
 * whole: its owner changes while the stealing thread has both heaps. A thread that drains the old owner sends blocks of
 * the span on to the new one (remote.h).
 */
#ifndef HK_HEAP_STEAL_H
#define HK_HEAP_STEAL_H

#include <stdbool.h>

#include "heap/heap.h"

/* Moves a span of the class that has free blocks, or room for some, from an idle heap. Returns false when none is
 * found. Requires an empty effective free list, and an active span without room. */
bool hk_steal_span(hk_heap_t *heap, unsigned class_index);

#endif /* HK_HEAP_STEAL_H */
