/* policy/slack.h - L2. For how long idle memory stays that the program would not miss if every request could have any of it.
 * Numbers in, numbers out: the caller brings the clock and holds the lock.
 *
 * Free memory does not always have the size that is wanted, or lie where it is of use: then new memory is mapped beside it, and the
 * program comes to have more than was ever in use at once. For how long that has been idle, policy/level.h cannot tell, for which
 * all memory is alike. A program that goes through the same sizes again and again will want it for one of them. So what is idle beyond
 * what the levels account for stays for a time of its own: until so much of it was there all through a window.
 */
#ifndef HK_POLICY_SLACK_H
#define HK_POLICY_SLACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/panic.h"

HK_C_BEGIN

/* All zero to begin with. Invariant: old_bytes <= bytes. */
typedef struct {
  uint64_t window_start_ms;
  size_t gone_bytes;  /* of what the levels say is idle, so much was given back */
  size_t bytes;       /* when it was looked at last */
  size_t least_bytes; /* the lowest since the window began */
  size_t old_bytes;   /* of them, so much was there all through an earlier window */
} hk_slack_t;

/* So much is idle now, and by the levels so much became idle and was not wanted since. To be called after each change of what is
 * idle or in use; a step back of the clock counts as none. */
void hk_slack_note(hk_slack_t *slack, uint64_t now_ms, uint64_t window_ms, size_t dirty_bytes, size_t level_bytes);

/* So much was given back. Of what the levels say is idle `going_bytes` need not stay: that goes first, and takes nothing from what may
 * stay because it does not fit. */
void hk_slack_note_given_back(hk_slack_t *slack, size_t bytes, size_t going_bytes);

#if HK_DEBUG
/* Panics when the invariant does not hold. */
void hk_slack_check(const hk_slack_t *slack);
#endif

/* How much of it may stay. */
HK_INLINE size_t hk_slack_recent_bytes(const hk_slack_t *slack) { return slack->bytes - slack->old_bytes; }

HK_C_END

#endif /* HK_POLICY_SLACK_H */
