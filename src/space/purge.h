/* space/purge.h - L3. Purges dirty memory, slabs of superslabs and free extents of large blocks: the memory above
 * the limit (space/dirty.h), or as much as a caller requests. The oldest memory goes first. */
#ifndef HK_SPACE_PURGE_H
#define HK_SPACE_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/dirty.h"

/* The work that a change of the sums of space/dirty.h leaves for after the caller has released hk_lock_space. */
typedef struct {
  hk_purge_verdict_t verdict;
  uint64_t now_ms;
  bool is_huge_due;
} hk_purge_due_t;

/* Ends a change of the sums. Requires hk_lock_space. The caller releases it, and passes the result to
 * hk_purge_follow. */
hk_purge_due_t hk_purge_settle_locked(uint64_t now_ms);

/* Purges dirty memory above the limit, and does what else is due. Called without a lock. */
void hk_purge_follow(const hk_purge_due_t *due);

/* Purges, for the purge thread, memory whose time is over. Returns the time until its next visit, in ms, unless the
 * purge wake-up (space/purge_wakeup.h) comes before. */
uint64_t hk_purge_visit(uint64_t now_ms);

/* Purges until at most `keep_bytes` are dirty or lazily purged; nothing is purged lazily. Returns the bytes purged.
 * With 0, credit and refaults are dropped too (hk_dirty_forget_locked); the learner's state stays. */
size_t hk_purge_down_to(size_t keep_bytes);

/* Unmaps all free addresses, also single free slabs: for a request that the system has refused. Returns whether
 * there were any. */
bool hk_purge_unmap_free(void);

#endif /* HK_SPACE_PURGE_H */
