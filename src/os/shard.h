/* os/shard.h - L1. Shards: the parts of what all threads share. Each has a lock of its own (os/lock.h), so threads of
 * different shards do not wait for each other.
 *
 * Eight processors of one memory node have a shard, so on a machine of up to eight there is one. There, knowing it
 * costs a comparison.
 */
#ifndef HK_OS_SHARD_H
#define HK_OS_SHARD_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"

HK_C_BEGIN

/* The highest number of shards; on larger machines more processors share one. */
#define HK_SHARD_MAX HK_LOCK_SHARDS

/* The number of shards; 0 before the first call of hk_shard_current. It never falls. */
extern HK_HIDDEN _Atomic(unsigned) hk_shard_count;

/* The rest of hk_shard_current, on a machine that is not known to have one shard. */
unsigned hk_shard_current_slow(void);

/* Returns the shard of the processor that the calling thread is on, below hk_shard_count. The thread may move to
 * another one at any moment. The first call reads the numbers of nodes and processors from the system. */
HK_INLINE unsigned hk_shard_current(void) {
  return HK_LIKELY(hk_load_relaxed(&hk_shard_count) == 1) ? 0 : hk_shard_current_slow();
}

/* Returns the node of a shard. */
unsigned hk_shard_node(unsigned shard);

/* Returns the next shard of the same node, after the last one the first. */
unsigned hk_shard_next_of_node(unsigned shard);

/* Returns the same shard of the next node, after the last one the first. */
unsigned hk_shard_of_next_node(unsigned shard);

/* Gives each node `count` shards at least, as far as HK_SHARD_MAX allows, and the next processor the next shard. Called
 * before a second thread exists. */
void hk_shard_set_each(unsigned count);

HK_INLINE hk_lock_id_t hk_shard_lock(unsigned shard) { return (hk_lock_id_t)(hk_lock_shard + shard); }

HK_C_END

#endif /* HK_OS_SHARD_H */
