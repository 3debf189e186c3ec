/* heap/orphan.h - L4. Orphans: heaps that threads had when the process forked, in the child, which has one thread. A
 * vanished thread may have been anywhere on the fast path, so its countdowns are made valid first.
 */
#ifndef HK_HEAP_ORPHAN_H
#define HK_HEAP_ORPHAN_H

#include "heap/heap.h"

/* The heaps of the thread that forked. */
typedef struct {
  hk_heap_variable_t *variable; /* its hk_thread_heap, which its parts name */
  const hk_heap_t *heap;        /* what that names; may be the empty heap */
  const hk_heap_t *base;        /* its own heap, while that is a part; else as above */
} hk_forker_t;

/* Settles the orphans in a child of fork, when it is known which heaps the thread that forked has. Orphans of vanished
 * threads become idle, or lost if a slow path was changing them. */
void hk_orphan_settle_all(const hk_forker_t *forker);

#endif /* HK_HEAP_ORPHAN_H */
