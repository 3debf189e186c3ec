/* space/purge_wakeup.h - L3. Between those who free memory and the thread that gives it back when its time has come (the purge
 * thread, api/purge_thread.h): whether there is one, whether one is wanted, and how it is woken.
 *
 * Memory that is idle stays for a time-out only where somebody comes back when the time is over. Where nobody will, it
 * is given back at once (policy/keep.h).
 */
#ifndef HK_SPACE_PURGE_WAKEUP_H
#define HK_SPACE_PURGE_WAKEUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/units.h"

/* Chosen: a program that holds less has nothing that a thread would be worth. */
#define HK_PURGE_WAKEUP_WORTH_BYTES (16 * HK_MIB)

/* Chosen: who was not wanted is not thought of again for so long. */
#define HK_PURGE_WAKEUP_RETRY_MS 1000

/* Set under hk_lock_space, read and cleared without. */
extern HK_HIDDEN _Atomic(bool) hk_purge_wakeup_is_wanted;

/* What the purge thread sleeps on: it changes when a wake-up is sent. */
extern HK_HIDDEN _Atomic(uint32_t) hk_purge_wakeup_word;

/* What follows needs hk_lock_space. */

/* Whether there is a purge thread. */
bool hk_purge_wakeup_is_received_locked(void);

/* So much is held, in use and idle: perhaps a purge thread would be worth it. */
void hk_purge_wakeup_note_locked(uint64_t now_ms, size_t held_bytes);

/* The purge thread goes to sleep with nothing to do, or for longer than it should: who has something for it rings. */
void hk_purge_wakeup_expect_locked(void);

/* There is something to do. True when it sleeps: hk_purge_wakeup_wake it without the lock. */
bool hk_purge_wakeup_send_locked(void);

/* The rest is called without the lock. */

/* Whether the purge thread wants to know when blocks come home to a heap: at most once in a while, so that it is not
 * woken by each. */
extern HK_HIDDEN _Atomic(bool) hk_purge_wakeup_wants_blocks;
HK_INLINE bool hk_purge_wakeup_is_open(void) { return hk_load_relaxed(&hk_purge_wakeup_wants_blocks); }

/* Rings because of that, if nobody has done so before. */
HK_COLD void hk_purge_wakeup_send(void);

void hk_purge_wakeup_wake(void);

/* Wakes the purge thread, whatever it waits for. */
void hk_purge_wakeup_call(void);

/* This process may have a purge thread from now on: at the start, and in a child of fork. A child of vfork may not: its
 * threads would be its parent's. */
void hk_purge_wakeup_allow(void);

/* This process starts no purge thread from now on; a child of fork may. */
void hk_purge_wakeup_forbid(void);

bool hk_purge_wakeup_is_allowed(void);

/* True: the caller is to start it, and to give up where it cannot. False: there is one. */
bool hk_purge_wakeup_claim(void);
void hk_purge_wakeup_give_up(void);

/* The purge thread is there, and comes when something is due; or does so no longer. */
void hk_purge_wakeup_receive(bool is_heard);

/* Nobody could come: not to be thought of again for a while. */
void hk_purge_wakeup_decline(uint64_t now_ms);

/* In a child of fork: its parent's purge thread is not there. */
void hk_purge_wakeup_repair(void);

#endif /* HK_SPACE_PURGE_WAKEUP_H */
