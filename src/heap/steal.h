/* heap/steal.h - L4. Spans that change their heap: a heap that is about to grow takes what an idle one does not use.
 *
 * Threads that come and go overlap, so there are more heaps than threads, each with a half-used span of each class. What
 * an idle heap has free is offered (hk_heap_offers) to whoever would else take new memory. A span moves whole: its owner
 * changes while the stealing thread has both heaps. Blocks of it that are on their way to the old owner are sent on by
 * whoever takes them up there (remote.h).
 */
#ifndef HK_HEAP_STEAL_H
#define HK_HEAP_STEAL_H

#include <stdbool.h>

#include "heap/heap.h"

/* Moves a span of the class that has free blocks, or room for some, from an idle heap; false when none is found. The
 * bin's list is empty before, and its active span has no room. */
bool hk_steal_span(hk_heap_t *heap, unsigned class_index);

#endif /* HK_HEAP_STEAL_H */
