/* heap/attachment.h - L4. Which thread has a heap, and how another thread, the examiner, takes the heap while that
 * thread sleeps.
 *
 * A heap's fast paths are its thread's alone and take part in no protocol. But a thread that waits in a system call of
 * the program is in none of them, nor in a slow path. So the examiner empties the variable by which that thread finds
 * its heap. If the examiner then sees the thread asleep, it has the heap. The thread finds no heap in its next slow
 * path, and takes one as a new thread does.
 *
 *   none -> firm -> examined -> none   the thread slept, or ended without its exit handler: the examiner has the heap
 *                            -> loose  the thread did not sleep, or shall only come to a slow path: it takes the
 *                                      heap up again there
 *                            -> taken_up -> firm   the thread has taken the heap up already
 *                            -> ended  the thread ends and waits, also after taken_up: the examiner tells it when its
 *                                      variable and its stack may go
 */
#ifndef HK_HEAP_ATTACHMENT_H
#define HK_HEAP_ATTACHMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"
#include "space/slab.h"

typedef enum {
  hk_attachment_none, /* no thread has the heap, or one that cannot be examined */
  hk_attachment_firm,
  hk_attachment_examined,
  hk_attachment_taken_up, /* as firm, but the examiner still reads the thread's stack */
  hk_attachment_loose,
  hk_attachment_ended
} hk_attachment_state_t;

#define HK_ATTACHMENT_STATE_MASK 7u

/* A thread's variable that names its heap. */
typedef _Atomic(hk_heap_t *) hk_heap_variable_t;

typedef struct {
  _Atomic(uint32_t) word;    /* hk_attachment_state_t in the lowest bits, a count of the changes above them */
  _Atomic(uint8_t) patience; /* doublings of the time for which the thread must be quiet before it is examined */
  _Atomic(hk_heap_variable_t *) variable;
  hk_os_thread_t thread; /* read while the state is `examined`, before the variable is emptied */
} hk_attachment_t;

HK_INLINE hk_attachment_state_t hk_attachment_state(hk_attachment_t *attachment) {
  return (hk_attachment_state_t)(hk_load_relaxed(&attachment->word) & HK_ATTACHMENT_STATE_MASK);
}

/* The functions of the thread that has the heap: */

/* Lets examiners take the heap while the calling thread sleeps. `variable` is that thread's. Does nothing when the
 * system cannot name the thread. The thread calls hk_attachment_hide before its `variable` goes. Each unit of
 * `patience` doubles the time for which the thread must be quiet first (detach.c). */
void hk_attachment_show(hk_attachment_t *attachment, hk_heap_variable_t *variable, uint8_t patience);

/* Returns true when the heap that the calling thread had last is its own again; the caller then stores it in
 * `variable`. Requires an empty `variable`. */
bool hk_attachment_take_up(hk_attachment_t *attachment, hk_heap_variable_t *variable);

/* Ends what hk_attachment_show began. Waits while the thread is examined. */
void hk_attachment_hide(hk_attachment_t *attachment);

/* Returns true when the heap is the caller's from now on. For a thread other than the heap's. `heap` is the heap, whose
 * `attachment` it is; `empty` is the value of `variable` that stands for no heap; `*is_busy` is true while the heap's
 * thread is in a slow path. Opens files. */
bool hk_attachment_take(hk_attachment_t *attachment, hk_heap_t *heap, hk_heap_t *empty, const _Atomic(bool) *is_busy);

/* Empties the variable of the heap's thread, which finds no heap in its next call and takes this one up again in a slow
 * path. Does nothing while the variable names a part of a named heap or tag, and where nothing tells whether the thread
 * lives. For any thread that is in no slow path of the heap. */
void hk_attachment_loosen(hk_attachment_t *attachment, hk_heap_t *heap, hk_heap_t *empty);

/* Resets the state in a child of fork: no heap is examined there, and the only thread has another number. */
void hk_attachment_repair(hk_attachment_t *attachment);

#endif /* HK_HEAP_ATTACHMENT_H */
