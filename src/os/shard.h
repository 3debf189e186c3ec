/* os/shard.h - L1. Shards: the parts of what all threads share. Each has a lock of its own (os/lock.h), so threads of
 * different shards do not wait for each other.
 *
 * Each processor has a shard, up to HK_SHARD_MAX; on larger machines several processors share one. With one memory node
 * all threads use shard 0 until there are two (hk_shard_note_threads): a program with one thread keeps its memory
 * together, and knowing the shard costs it a comparison.
 */
#ifndef HK_OS_SHARD_H
#define HK_OS_SHARD_H

#include <stddef.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"

HK_C_BEGIN

/* The highest number of shards, of all memory nodes together. */
#define HK_SHARD_MAX HK_LOCK_SHARDS

/* The number of shards; 0 before the first call of hk_shard_current. It never falls, and does not change while a thread
 * has the lock of shard 0. */
extern HK_HIDDEN _Atomic(unsigned) hk_shard_count;

/* The number of shards that threads use; 0 before the first call of hk_shard_current. 1: all use shard 0. */
extern HK_HIDDEN _Atomic(unsigned) hk_shard_used;

/* The rest of hk_shard_current, where more than shard 0 may be used. */
unsigned hk_shard_current_slow(void);

/* Returns the shard for the calling thread, below hk_shard_count: that of the processor that it is on, when all are
 * used. The thread may move to another one at any moment. The first call reads the numbers of nodes and processors from
 * the system. */
HK_INLINE unsigned hk_shard_current(void) {
  return HK_LIKELY(hk_load_relaxed(&hk_shard_used) == 1) ? 0 : hk_shard_current_slow();
}

/* Notes that `count` threads, two or more, may take memory at once: all shards are used. The count never falls. After a
 * first call of hk_shard_current it asks the system nothing, so the caller may hold a lock. */
void hk_shard_note_threads(size_t count);

/* The number of shards that threads can use at once; 0 before the first call of hk_shard_current. */
extern HK_HIDDEN _Atomic(unsigned) hk_shard_at_once;

/* Returns the node of a shard. */
unsigned hk_shard_node(unsigned shard);

/* Returns the next shard of the same node, after the last one the first. */
unsigned hk_shard_next_of_node(unsigned shard);

/* Returns the same shard of the next node, after the last one the first. */
unsigned hk_shard_of_next_node(unsigned shard);

/* Uses `count` shards of each node, as far as HK_SHARD_MAX allows, instead of one for each processor. Takes the lock of
 * shard 0: threads of other libraries may run by now, and one that takes the locks of all shards begins with it. */
void hk_shard_set_each(unsigned count);

HK_INLINE hk_lock_id_t hk_shard_lock(unsigned shard) { return (hk_lock_id_t)(hk_lock_shard + shard); }

HK_C_END

#endif /* HK_OS_SHARD_H */
