/* space/purge_wakeup.h - L3. The purge wake-up: whether there is a purge thread (api/purge_thread.h), whether one would
 * be worth it, and how a thread that frees memory wakes it.
 *
 * Without a purge thread, threads that allocate and free poll the deadlines on slow paths. Less memory may stay then: a
 * program that does nothing more comes to no slow path (policy/retention.h).
 */
#ifndef HK_SPACE_PURGE_WAKEUP_H
#define HK_SPACE_PURGE_WAKEUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/units.h"

/* Chosen: a program that holds fewer bytes, in use and dirty, has no purge thread. */
#define HK_PURGE_WAKEUP_WORTH_BYTES (16 * HK_MIB)

/* Chosen: the time before a purge thread that could not be had is considered again, in ms. */
#define HK_PURGE_WAKEUP_RETRY_MS 1000

/* True while the next request is to start a purge thread. Set under hk_lock_space; read and cleared without it. */
extern HK_HIDDEN _Atomic(bool) hk_purge_wakeup_is_thread_due;

/* The word that the purge thread sleeps on. It changes when a wake-up is sent. Changed under hk_lock_space, read
 * without it. */
extern HK_HIDDEN _Atomic(uint32_t) hk_purge_wakeup_word;

/* These functions require hk_lock_space. */

/* Returns whether there is a purge thread. */
bool hk_purge_wakeup_has_thread_locked(void);

/* Considers a purge thread for a program that holds `held_bytes`, in use and dirty. */
void hk_purge_wakeup_note_locked(uint64_t now_ms, size_t held_bytes);

/* Returns the held bytes, above `held_bytes`, at which hk_purge_wakeup_note_locked has something to do. */
size_t hk_purge_wakeup_next_look_bytes_locked(size_t held_bytes);

/* Notes that the purge thread expects a wake-up: it sleeps with nothing to do, or for longer than a free may need. */
void hk_purge_wakeup_expect_locked(void);

/* Returns whether the purge thread expects a wake-up that was not sent yet. */
bool hk_purge_wakeup_is_expected_locked(void);

/* Sends the wake-up, if one is expected. Returns true when the caller is to call hk_purge_wakeup_wake, without the
 * lock. */
bool hk_purge_wakeup_send_locked(void);

/* These functions are called without hk_lock_space. */

/* True while the next remote free is to send a wake-up. The purge thread sets it at most once in a while, so not every
 * remote free wakes it. */
extern HK_HIDDEN _Atomic(bool) hk_purge_wakeup_is_due_at_free;

/* Sends the wake-up that is due at a remote free, unless another thread has sent it. */
HK_COLD void hk_purge_wakeup_send_at_free(void);

/* Wakes the purge thread after hk_purge_wakeup_send_locked has changed the word. */
void hk_purge_wakeup_wake(void);

/* Sends a wake-up whether or not one is expected or due. */
void hk_purge_wakeup_force(void);

/* Allows this process a purge thread: at the start, and in a child of fork. A child of vfork may have none: its threads
 * would be its parent's. */
void hk_purge_wakeup_allow(void);

/* Forbids this process to start a purge thread. A child of fork may start one. */
void hk_purge_wakeup_forbid(void);

/* Returns whether this process may have a purge thread. Any thread, no lock. */
bool hk_purge_wakeup_is_allowed(void);

/* Claims the purge thread. Returns true when the caller is to start it, or to give it up where it cannot; false when
 * there is one. */
bool hk_purge_wakeup_claim(void);

/* Ends the claim: the purge thread ends, or could not be started. */
void hk_purge_wakeup_give_up(void);

/* Notes, under hk_lock_space, whether the purge thread is there and comes when something is due. For that thread. */
void hk_purge_wakeup_set_thread(bool is_there);

/* Notes that no purge thread could be had, or that it has ended: none is considered for HK_PURGE_WAKEUP_RETRY_MS. */
void hk_purge_wakeup_decline(uint64_t now_ms);

/* True while a purge thread stays declined because the program had one thread. The thread that declined sets it, and
 * the next one that attaches a heap clears it. */
extern HK_HIDDEN _Atomic(bool) hk_purge_wakeup_awaits_thread;
HK_INLINE void hk_purge_wakeup_await_thread(void) { hk_store_relaxed(&hk_purge_wakeup_awaits_thread, true); }

/* Notes that a thread has attached a heap: a purge thread that was declined for the lack of one is considered at once.
 * Otherwise a program whose threads then reuse what they have comes to no slow path that would consider it. */
HK_COLD void hk_purge_wakeup_note_thread_slow(void);
HK_INLINE void hk_purge_wakeup_note_thread(void) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_purge_wakeup_awaits_thread))) hk_purge_wakeup_note_thread_slow();
}

/* For a child of fork: its parent's purge thread is not there. */
void hk_purge_wakeup_repair(void);

#endif /* HK_SPACE_PURGE_WAKEUP_H */
