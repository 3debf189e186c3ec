/* space/purge.h - L3. Gives idle memory back to the system, superslabs' slabs and free extents of large blocks: what is
 * above the limit (space/dirty.h), or what somebody asks for. What has been idle longest goes first. */
#ifndef HK_SPACE_PURGE_H
#define HK_SPACE_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/dirty.h"

/* What a change of the sums of space/dirty.h leaves to do once the caller has released hk_lock_space. */
typedef struct {
  hk_purge_verdict_t verdict;
  uint64_t now_ms;
  bool is_huge_due;
} hk_purge_due_t;

/* Ends a change of the sums. Requires hk_lock_space. The caller releases it, and passes the result to hk_purge_follow. */
hk_purge_due_t hk_purge_settle_locked(uint64_t now_ms);

/* Gives back dirty memory above the limit, and does what else is due. Called without a lock. */
void hk_purge_follow(const hk_purge_due_t *due);

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
