/* space/purge.h - L3. Purges dirty memory, slabs of superslabs and free extents of large blocks: the memory above
 * the limit (space/dirty.h), or as much as a caller requests. The oldest memory goes first. */
#ifndef HK_SPACE_PURGE_H
#define HK_SPACE_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/os.h"
#include "space/dirty.h"
#include "space/extent.h"
#include "space/superslab_index.h"

/* Ends a change of the extents' sums (space/dirty.h): releases hk_lock_space, which the caller holds. Then purges dirty
 * memory above the limit, and does what else is due, without a lock. */
void hk_purge_end_change(uint64_t now_ms);

/* hk_purge_end_change for a change of a shard's superslabs: releases the shard's lock. The caller holds no other
 * lock. */
void hk_purge_end_change_of(unsigned shard, uint64_t now_ms);

/* Purges, for the purge thread, memory whose time is over. Returns the time until its next visit, in ms, unless the
 * purge wake-up (space/purge_wakeup.h) comes before. */
uint64_t hk_purge_visit(uint64_t now_ms);

/* Purges at once, not lazily, until at most `keep_bytes` are dirty or lazily purged. Returns the bytes purged. With 0,
 * credit and refaults are dropped too (hk_dirty_forget_locked); the learner's state stays. */
size_t hk_purge_down_to(size_t keep_bytes);

/* Unmaps the caller's extent, and the end guard behind it. Addresses that the system refuses to take are purged and
 * serve again as a free extent. */
hk_os_purge_t hk_purge_unmap(hk_extent_t extent);

/* Unmaps all free addresses, also single free slabs: for a request that the system has refused. Returns whether
 * there were any. */
bool hk_purge_unmap_free(void);

#endif /* HK_SPACE_PURGE_H */
