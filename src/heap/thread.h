/* heap/thread.h - L4. Which heap the calling thread has. */
#ifndef HK_HEAP_THREAD_H
#define HK_HEAP_THREAD_H

#include <stdbool.h>

#include "base/compiler.h"
#include "heap/heap.h"

/* Starts at the empty heap, in whose bins nothing is found: "no heap yet" needs no test of its own. Written by the
 * thread, and emptied by another one that examines whether the thread sleeps (attachment.h). */
extern HK_HIDDEN HK_THREAD_LOCAL hk_heap_variable_t hk_thread_heap;

/* The calling thread's heap, or HK_EMPTY_HEAP. */
HK_INLINE hk_heap_t *hk_thread_own(void) { return hk_load_relaxed(&hk_thread_heap); }

/* Whether `heap` is that one. */
HK_INLINE bool hk_thread_has(const hk_heap_t *heap) { return hk_is_relaxed_value(heap, &hk_thread_heap); }

/* The heap to work with on a slow path. A thread's first call attaches one, until its exit handler runs. A thread
 * whose exit handler has run, or never will, borrows one for this call alone. NULL when the system refuses. */
typedef struct {
  hk_heap_t *heap;
  bool borrowed;
} hk_thread_lease_t;
hk_thread_lease_t hk_thread_enter(void);
void hk_thread_leave(hk_thread_lease_t lease);

/* For a thread without a heap: goes on with `heap` if that is idle. */
void hk_thread_follow(hk_heap_t *heap);

/* Whether the calling thread frees a block of `owner` (NULL: a larger one) without a heap: it is ending, or may be and
 * has not freed many so. Otherwise, where it has no heap yet, it goes on with that of the first `owner` if that is
 * idle: it has likely taken over what another thread left, and frees more of it. */
bool hk_thread_frees_without_heap(hk_heap_t *owner);

/* Whether the thread has no heap and attaches none: its exit handler has run, or never will. */
bool hk_thread_is_leaving(void);

/* For a thread that is none of the C library's, and whose thread-local memory is zero at first: it gets no heap of
 * its own. */
void hk_thread_go_without_heap(void);

/* The exit handler, for hk_os_thread_exit_init. */
void hk_thread_on_exit(void);

/* For a thread that attached a heap before there was an exit handler. */
void hk_thread_arm(void);

/* Gives back a heap that its thread attaches no longer, and in which the caller has entered a slow path. */
void hk_thread_let_go(hk_heap_t *heap);

#endif /* HK_HEAP_THREAD_H */
