/* space/purge.h - L3. Gives idle memory back to the system, superslabs' slabs and free extents of large blocks: what is
 * above the limit (space/idle.h), or what somebody asks for. What has been idle longest goes first. */
#ifndef HK_SPACE_PURGE_H
#define HK_SPACE_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends a change of the sums of space/idle.h: releases hk_lock_space, which the caller holds, and gives back what is
 * idle above the limit. */
void hk_purge_settle(uint64_t now_ms);

/* For the purge thread: gives back what has been idle for its time. When to come again, in ms, if the purge wake-up
 * (space/purge_wakeup.h) does not ring before. */
uint64_t hk_purge_visit(uint64_t now_ms);

/* Gives back until at most `keep_bytes` are idle or were given back lazily; none of it lazily. How many bytes were
 * given back. With 0, what was learned about how much to keep is forgotten too. */
size_t hk_purge_down_to(size_t keep_bytes);

/* Gives all free addresses back, those of single free slabs too: for a request that the system has refused. Whether
 * there were any. */
bool hk_purge_unmap_free(void);

#endif /* HK_SPACE_PURGE_H */
