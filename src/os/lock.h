/* os/lock.h - L1. The futex lock, and all locks of the library.
 *
 * All locks are in one page that the child of fork finds zeroed (hk_os_wipe_on_fork). So a lock that a vanished thread
 * held is free there. This needs no prepare handler and no lock held across fork, and it works for fork from a signal
 * handler and for a bare clone. The first lock that is taken in a child runs the repair that hk_lock_init was given. A
 * child that shares its parent's memory (vfork) finds nothing changed and behaves as a thread.
 *
 * A signal handler may fork while the thread that it interrupted holds a lock. In the child that thread continues where
 * it was, so it alone uses what the lock guards until it is done: the at-fork hook defers the repair until then.
 *
 * Where the kernel cannot wipe (before 4.14), the at-fork hook does it: fork from a program works, a bare clone does
 * not.
 *
 * Ranks: a thread may take a lock only while it holds none of the same or a higher rank. The locks of shards have one
 * rank, and a thread takes several of them by rising numbers. Debug builds check both.
 */
#ifndef HK_OS_LOCK_H
#define HK_OS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The number of locks of shards (os/shard.h). */
#define HK_LOCK_SHARDS 32u

/* Every lock, lowest rank first. src/README.md lists what each guards. hk_lock_shard is the first of HK_LOCK_SHARDS of
 * one rank; a thread that takes several of them takes the lower one first. */
typedef enum {
  hk_lock_heap_pool,
  hk_lock_shard,
  hk_lock_space = hk_lock_shard + HK_LOCK_SHARDS,
  hk_lock_meta,
  hk_lock_guard,
  hk_lock_count
} hk_lock_id_t;

/* Sets the locks up. Called once before any is taken, while one thread exists. `repair_child` runs once in each child
 * of fork, with no lock held, before the first hk_lock_acquire there returns; it may take and release locks itself.
 * Returns false when the system refuses the page: the locks then work as where the kernel cannot wipe. */
bool hk_lock_init(void (*repair_child)(void));

/* Take and release a lock. Before hk_lock_init they work for the one thread that exists, and do not notice a fork. */
void hk_lock_acquire(hk_lock_id_t id);
void hk_lock_release(hk_lock_id_t id);

/* Waits until the repair is over, and runs it if no thread does; returns at once except in a child of fork. For data
 * that the repair rebuilds and no lock guards. */
void hk_lock_wait_for_repair(void);

/* Enclose a few steps on data that the repair rebuilds and no lock guards. When a signal handler forks between them,
 * the at-fork hook defers the repair until the steps are done, as if a lock was held. The caller takes no lock
 * between. */
void hk_lock_defer_repair(void);
void hk_lock_allow_repair(void);

/* Runs the repair if this is a child that has not run it yet. `is_child` is true when the caller knows that this is a
 * new child with one thread, which only the at-fork hook does: where the kernel cannot wipe, each such call frees all
 * locks and repairs. Returns false when the repair is deferred until this thread has finished its interrupted steps. */
bool hk_lock_after_fork(bool is_child);

/* Returns a number that is never 0 and above that of each process that this one descends from by fork; a child of
 * vfork shares its parent's. Safe in signal handlers. Where the kernel cannot wipe, the at-fork hook begins a new
 * generation. */
uint32_t hk_lock_generation(void);

/* Returns whether the repair is still to come or under way: in a child of fork alone. For a thread that is not the one
 * that a handler interrupted: its repair would change data in the middle of that thread's steps. */
bool hk_lock_needs_repair(void);

/* Return how often threads of this process took the lock, how often they found it held, and, for tests, how often they
 * slept for it. A child of fork begins with 0. */
uint64_t hk_lock_take_count(hk_lock_id_t id);
uint64_t hk_lock_wait_count(hk_lock_id_t id);
uint64_t hk_lock_sleep_count(hk_lock_id_t id);

HK_C_END

#endif /* HK_OS_LOCK_H */
