/* heap/attachment.h - L4. Which thread has a heap, and how another thread takes the heap from it while it sleeps.
 *
 * A heap's fast paths are its thread's alone, and take part in no protocol. But a thread that waits in a system call
 * of the program's is in none of them, nor in a slow path. So another thread empties the variable by which that
 * thread finds its heap; where it sees it sleep afterwards, the heap is its own. The thread that wakes up finds no
 * heap in its next slow path, and takes one as a new thread does.
 *
 *   none -> firm -> examined -> none   the thread slept: the heap is the examiner's
 *                            -> loose  it did not: it takes the heap up again in its next slow path
 *                            -> firm   it has done so already
 *                            -> ended  it ends, and waits: the examiner says when its variable may go
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
  hk_attachment_none, /* no thread has the heap, or one that cannot be looked at */
  hk_attachment_firm,
  hk_attachment_examined,
  hk_attachment_loose,
  hk_attachment_ended
} hk_attachment_state_t;

#define HK_ATTACHMENT_STATE_MASK 7u

/* A thread's variable that says which heap it has. */
typedef _Atomic(hk_heap_t *) hk_heap_variable_t;

typedef struct {
  _Atomic(uint32_t) word; /* hk_attachment_state_t in the lowest bits, and above them how often it has changed */
  _Atomic(uint8_t) patience;
  _Atomic(hk_heap_variable_t *) variable;
  hk_os_thread_t thread; /* read while the state is `examined`, before the variable is emptied */
} hk_attachment_t;

HK_INLINE hk_attachment_state_t hk_attachment_state(hk_attachment_t *attachment) {
  return (hk_attachment_state_t)(hk_load_relaxed(&attachment->word) & HK_ATTACHMENT_STATE_MASK);
}

/* What follows is for the thread that has the heap. */

/* From now on the heap may be taken while the calling thread sleeps: a thread that calls hk_attachment_hide before
 * its `variable` goes. `patience` is for who examines. */
void hk_attachment_show(hk_attachment_t *attachment, hk_heap_variable_t *variable, uint8_t patience);

/* For a thread that finds its `variable` empty: whether this heap, which it had last, is its own yet. Then it sets the
 * variable again. */
bool hk_attachment_take_up(hk_attachment_t *attachment, hk_heap_variable_t *variable);

/* Ends that. Waits while the thread is examined. */
void hk_attachment_hide(hk_attachment_t *attachment);

/* For any other thread: whether the heap is the caller's from now on. `empty` is what the variable of a thread
 * without a heap says; `*is_busy` is true while the thread is in a slow path. Opens files. */
bool hk_attachment_take(hk_attachment_t *attachment, hk_heap_t *empty, const _Atomic(bool) *is_busy);

/* In a child of fork: no heap is examined, and the only thread has another number. */
void hk_attachment_repair(hk_attachment_t *attachment);

#endif /* HK_HEAP_ATTACHMENT_H */
