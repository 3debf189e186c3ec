/* heap/pool.h - L4. Idle heaps: those without a thread. A heap comes here when its thread ends. It leaves with the next
 * thread that needs a heap, or for a moment with a thread that drains it or takes a span from it.
 *
 * A slot holds one idle heap. One atomic instruction empties it and one fills it, so that threads that begin and end
 * meet at no lock. Each shard (os/shard.h) has slots of its own, and a heap comes back to those of the shard that took
 * it. Heaps beyond the slots are in a list under hk_lock_heap_pool. A thread that needs a heap takes one of the list
 * first, then of its shard's slots, then of the other shards'.
 *
 * Invariant: a heap is in one slot, in the list, or at most one thread has it. In a slot or the list its life is
 * hk_heap_idle. It becomes idle before it is in its place, and attached after it has left. overflow_count is the length
 * of the list, and the heaps' numbers go from 1 to hk_heap_total.
 *
 * A thread that has taken a heap is recorded nowhere for a moment, until its own variable or `is_busy` shows that the
 * heap is in use. If a signal handler forks in that moment, the heap is idle again in the child, or an orphan.
 * hk_heap_keep makes it the caller's.
 */
#ifndef HK_HEAP_POOL_H
#define HK_HEAP_POOL_H

#include <stdbool.h>

#include "heap/heap.h"

/* Chosen: more threads of one shard than this rarely end before others begin. */
#define HK_POOL_SLOTS 32

/* Chosen: this many idle heaps, in the first slots of each shard, are warm: they keep their memory for the threads that
 * come next. */
#define HK_POOL_WARM 4

/* Returns an idle heap, or a new one; NULL when the system refuses. Prefers, on a machine of several memory nodes, a
 * heap of the calling thread's node; then the last one of the list; then the slots of the thread's shard; then those of
 * the other shards. Of a shard's slots it takes the heap that was given back last, as far as their order tells. The
 * caller's thread has the heap until hk_heap_give_back. */
hk_heap_t *hk_heap_take(void);

/* Takes this heap. Returns false when it was not idle. */
bool hk_heap_take_this(hk_heap_t *heap);

/* Makes a heap that was just taken the caller's, and removes it from any other place. Requires that the thread's
 * variable or `is_busy` shows that the heap is in use. */
HK_COLD void hk_heap_keep_slow(hk_heap_t *heap);
HK_INLINE void hk_heap_keep(hk_heap_t *heap) {
  hk_keep_order();
  if (HK_UNLIKELY(hk_heap_life(heap) != hk_heap_attached)) hk_heap_keep_slow(heap);
}

/* hk_heap_enter for a heap that was just taken to be drained, or to give a span. */
HK_INLINE void hk_heap_enter_taken(hk_heap_t *heap) {
  hk_heap_enter(heap);
  hk_heap_keep(heap);
}

/* Makes the heap idle. Requires an empty outbox. Returns true when blocks wait for the heap: no other thread drains it,
 * so the caller drains it once more (remote.h). */
bool hk_heap_give_back(hk_heap_t *heap);

/* hk_heap_give_back for a heap that keeps its memory. Sets `*has_incoming` to what that returns. Returns false when
 * HK_POOL_WARM idle heaps already keep theirs: then the caller still has the heap. */
bool hk_heap_give_back_warm(hk_heap_t *heap, bool *has_incoming);

/* Returns an idle heap for which blocks wait; NULL when there is none. The caller drains it and gives it back. */
hk_heap_t *hk_heap_take_with_incoming(void);

/* Returns an idle heap for which `is_wanted` holds, from one of the first slots of the calling thread's shard or of the
 * next shards of its node; NULL when there is none. The caller gives it back. `is_wanted` reads only atomic fields:
 * another thread may have the heap. */
hk_heap_t *hk_heap_take_if(bool (*is_wanted)(hk_heap_t *heap, unsigned argument), unsigned argument);

/* Returns whether the heap had free blocks of the class, or room for some, when it was last given back. Any thread. */
bool hk_heap_offers(hk_heap_t *heap, unsigned class_index);

/* Returns whether the calling thread's shard has HK_POOL_WARM warm heaps: all its first slots are full. Any thread. */
bool hk_heap_pool_has_warm(void);

/* Returns whether a heap is idle, other than a part. Any thread. */
bool hk_heap_pool_has_any(void);

/* Returns whether a heap or part is idle that was not flushed since it became so. Any thread. */
bool hk_heap_pool_has_unflushed(void);

/* Calls `visit` for each idle heap, and again when blocks arrived for it meanwhile. No other thread can take the heap
 * during the call. */
void hk_heap_visit_idle(void (*visit)(hk_heap_t *heap));

/* Rebuilds the pool in a child of fork, before another thread reads heaps: idle heaps go back to it, attached ones
 * become orphans. */
void hk_heap_repair(void);

#endif /* HK_HEAP_POOL_H */
