/* os/lock.h - L1. A futex lock, and the one place where locks live.
 *
 * All locks are in one page that the child of fork finds zeroed (hk_os_wipe_on_fork), so a lock that a vanished thread
 * held is simply free there: no prepare handler, nothing held across fork, and it works for fork from a signal handler
 * and for a bare clone. The first lock that is taken in a child runs the repair that hk_lock_init was given. A child
 * that shares its parent's memory (vfork) finds nothing changed and is as good as a thread.
 *
 * A signal handler may fork while the thread that it interrupted holds a lock. In the child that thread goes on where it
 * was, so what the lock guards is its own until it is done: the at-fork hook puts the repair off till then.
 *
 * Where the kernel cannot wipe (before 4.14), the at-fork hook does it: fork from a program works, a bare clone does
 * not.
 *
 * Ranks: a thread may take a lock only while it holds none of the same or a higher rank. Debug builds check it.
 */
#ifndef HK_OS_LOCK_H
#define HK_OS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Every lock, lowest rank first. src/README.md says what each guards. */
typedef enum { hk_lock_heap_pool, hk_lock_space, hk_lock_meta, hk_lock_count } hk_lock_id_t;

/* Sets the locks up; called once before any is taken, while one thread exists. `repair_child` runs once in each child
 * of fork, with no lock held, before the first hk_lock_acquire there returns; it may take and release locks itself.
 * False when the system refuses the page: locks then work as where the kernel cannot wipe. */
bool hk_lock_init(void (*repair_child)(void));

/* Before hk_lock_init they work too, for the one thread there is, and know of no fork. */
void hk_lock_acquire(hk_lock_id_t id);
void hk_lock_release(hk_lock_id_t id);

/* For what the repair makes anew but no lock guards: returns when it is whole, at once but in a child of fork. */
void hk_lock_wait_for_repair(void);

/* Around a few steps on what the repair makes anew but no lock guards: should a signal handler fork between them, the
 * at-fork hook puts the repair off until they are done, as if a lock was held. No lock is taken between. */
void hk_lock_put_repair_off(void);
void hk_lock_let_repair_come(void);

/* Runs the repair if this is a child that has not run it yet. True says that the caller knows it is a new child with
 * one thread, which is for the at-fork hook alone: where the kernel cannot wipe, each such call frees all locks and
 * repairs. False when the repair is put off, to the end of what this thread is in the middle of. */
bool hk_lock_after_fork(bool is_child);

/* Above that of each process that this one descends from by fork; a child of vfork shares its parent's. Never 0. From
 * signal handlers too. Where the kernel cannot wipe, the at-fork hook begins a new one. */
uint32_t hk_lock_generation(void);

/* Whether the repair is still to come, or under way: in a child of fork alone. For a thread that is no part of what a handler
 * interrupted, and would repair in the middle of that. */
bool hk_lock_needs_repair(void);

/* How often threads of this process took the lock; how often it was another's when they came for it; and how often they had
 * to sleep then. A child of fork begins with none. */
uint64_t hk_lock_take_count(hk_lock_id_t id);
uint64_t hk_lock_wait_count(hk_lock_id_t id);
uint64_t hk_lock_sleep_count(hk_lock_id_t id);

HK_C_END

#endif /* HK_OS_LOCK_H */
