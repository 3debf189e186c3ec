/* heap/pool.h - L4. Idle heaps: those that no thread has. A heap comes here when its thread ends, and leaves whole with
 * the next thread that needs one, or for a moment with a thread that looks after it.
 *
 * A slot holds one idle heap. It is emptied by one atomic instruction and filled by one, so that threads that begin and
 * end meet at no lock; heaps beyond the slots are in a list under hk_lock_heap_pool.
 *
 * Invariant: a heap is in one slot, in the list, or at most one thread has it; in a slot or the list its life is
 * hk_heap_idle. It becomes idle before it is in its place, and attached after it has left. overflow_count is the length
 * of the list, and the heaps' numbers go from 1 to hk_heap_total.
 */
#ifndef HK_HEAP_POOL_H
#define HK_HEAP_POOL_H

#include <stdbool.h>

#include "heap/heap.h"

/* Chosen: more threads than this seldom end without others that begin. */
#define HK_POOL_SLOTS 32

/* Chosen: so many idle heaps stay as they are, for the threads that come next, in the first slots. */
#define HK_POOL_WARM 4

/* The idle heap that was given back last, as far as a look tells, or a new one; NULL when the system refuses. Where
 * there are several memory nodes one of the calling thread's goes first. The caller's thread has it until
 * hk_heap_give_back. */
hk_heap_t *hk_heap_take(void);

/* Whether this heap was idle, and is the caller's now. */
bool hk_heap_take_this(hk_heap_t *heap);

/* A heap that was taken is nobody's for a moment, until the thread's own variable or `busy` says who has it. Should a
 * signal handler fork in that moment, it is idle again in the child, or an orphan. To be called right after: it is the
 * caller's, and in no other place. */
HK_COLD void hk_heap_keep_slow(hk_heap_t *heap);
HK_INLINE void hk_heap_keep(hk_heap_t *heap) {
  hk_keep_order();
  if (HK_UNLIKELY(hk_heap_life(heap) != hk_heap_attached)) hk_heap_keep_slow(heap);
}

/* hk_heap_enter for a heap that was just taken, to look after it. */
HK_INLINE void hk_heap_enter_taken(hk_heap_t *heap) {
  hk_heap_enter(heap);
  hk_heap_keep(heap);
}

/* The caller has flushed the outbox. True when blocks wait for the heap: no other thread takes them up, so the caller
 * looks after the heap once more (remote.h). */
bool hk_heap_give_back(hk_heap_t *heap);

/* The same for a heap that is to stay as it is. False when HK_POOL_WARM others already do: the caller still has it
 * then. Sets `*is_waited_for` to what hk_heap_give_back returns. */
bool hk_heap_give_back_warm(hk_heap_t *heap, bool *is_waited_for);

/* An idle heap for which blocks wait, for the caller to look after it and give it back; NULL when there is none. */
hk_heap_t *hk_heap_take_awaited(void);

/* An idle heap for which `is_wanted` holds, for the caller to look after it and give it back; NULL when there is none
 * among the first in the slots. `is_wanted` reads what others may write meanwhile. */
hk_heap_t *hk_heap_take_if(bool (*is_wanted)(hk_heap_t *heap, unsigned argument), unsigned argument);

/* Whether the heap had, when it was last given back, free blocks of the class, or room for some. Any thread. */
bool hk_heap_offers(hk_heap_t *heap, unsigned class_index);

/* Whether HK_POOL_WARM heaps are idle in the first slots. Any thread. */
bool hk_heap_pool_is_deep(void);

/* Calls `visit` for each idle heap, which no other thread can take meanwhile; again where blocks came for it
 * meanwhile. */
void hk_heap_visit_idle(void (*visit)(hk_heap_t *heap));

/* In a child of fork, before another thread looks at heaps: idle ones are the pool again, attached ones become
 * orphans. */
void hk_heap_repair(void);

/* In a child of fork, when it is known that the thread that forked has `mine` (or the empty heap): the orphans of
 * vanished threads become idle, or lost if they were being changed. */
void hk_heap_adopt_orphans(const hk_heap_t *mine);

#endif /* HK_HEAP_POOL_H */
