/* heap/thread.h - L4. The heap of the calling thread. */
#ifndef HK_HEAP_THREAD_H
#define HK_HEAP_THREAD_H

#include <stdbool.h>

#include "base/compiler.h"
#include "heap/heap.h"

/* Starts at the empty heap, whose bins have no blocks, so "no heap yet" needs no test of its own. Written by its
 * thread; an examiner that takes or loosens the heap empties it (attachment.h). */
extern HK_HIDDEN HK_THREAD_LOCAL hk_heap_variable_t hk_thread_heap;

/* Returns the calling thread's heap, or HK_EMPTY_HEAP. */
HK_INLINE hk_heap_t *hk_thread_own(void) { return hk_load_relaxed(&hk_thread_heap); }

/* Returns whether the calling thread has `heap`. */
HK_INLINE bool hk_thread_has(const hk_heap_t *heap) { return hk_is_relaxed_value(heap, &hk_thread_heap); }

/* Counts an event: in the set of the thread's heap, which no other thread writes, or else in the process's. Requires
 * that the caller is in no slow path. */
HK_INLINE void hk_thread_count(hk_stat_id_t id) {
  hk_heap_t *heap = hk_thread_own();
  if (HK_UNLIKELY(heap == HK_EMPTY_HEAP)) {
    hk_stat_add(id, 1);
    return;
  }
  hk_heap_enter(heap);
  hk_stat_bump(&heap->stat, id, 1);
  hk_heap_leave(heap);
}

/* The heap to work with on a slow path. A thread's first call attaches one, until its exit handler runs. A thread whose
 * exit handler has run, or never will, borrows one for this call alone. `heap` is NULL when the system refuses. */
typedef struct {
  hk_heap_t *heap;
  bool is_borrowed;
} hk_thread_lease_t;

/* hk_thread_enter for a thread without a heap, and hk_thread_leave with a borrowed one. */
hk_thread_lease_t hk_thread_enter_heapless(void);
void hk_thread_leave_borrowed(hk_heap_t *heap);

/* Enters the calling thread's own heap, which hk_thread_own has just returned and which is not HK_EMPTY_HEAP. */
HK_INLINE hk_thread_lease_t hk_thread_enter_own(hk_heap_t *heap) {
  hk_heap_enter(heap);
  return (hk_thread_lease_t){.heap = heap, .is_borrowed = false};
}

HK_INLINE hk_thread_lease_t hk_thread_enter(void) {
  hk_heap_t *heap = hk_thread_own();
  return HK_UNLIKELY(heap == HK_EMPTY_HEAP) ? hk_thread_enter_heapless() : hk_thread_enter_own(heap);
}

HK_INLINE void hk_thread_leave(hk_thread_lease_t lease) {
  if (HK_UNLIKELY(lease.is_borrowed)) {
    hk_thread_leave_borrowed(lease.heap);
  } else {
    hk_heap_leave(lease.heap);
  }
}

/* Attaches `heap` to the calling thread, if `heap` is idle and the thread has no heap. A thread that can take up its
 * last heap again does that instead. */
void hk_thread_attach_if_idle(hk_heap_t *heap);

/* Returns whether the calling thread frees a block of `owner` (NULL: a larger block) without a heap. It does when it is
 * ending, and while it may be ending and has freed few blocks this way. A thread that never had a heap notes the first
 * `owner`, and its next slow path attaches that heap if it is idle: the thread has likely taken over another thread's
 * work, and frees more of its blocks. */
bool hk_thread_frees_without_heap(hk_heap_t *owner);

/* Returns whether the calling thread has no heap and attaches none: its exit handler has run, or never will. */
bool hk_thread_keeps_no_heap(void);

/* Takes up the heap that the calling thread had last. Returns false when it had none, or another thread has it. For a
 * thread that finds no heap. */
bool hk_thread_take_up(void);

/* Keeps the calling thread without a heap of its own, for a thread that the C library has not made and whose
 * thread-local memory is zero at first. */
void hk_thread_go_without_heap(void);

/* The exit handler, for hk_os_thread_exit_init. */
void hk_thread_on_exit(void);

/* Arms the exit handler for a thread that attached a heap before there was one. */
void hk_thread_arm(void);

/* Gives a heap back: to the pool, or, a part, to its named heap. Requires that it is detached from its thread, and that
 * the caller has entered a slow path of it. */
void hk_thread_give_back(hk_heap_t *heap);

#endif /* HK_HEAP_THREAD_H */
