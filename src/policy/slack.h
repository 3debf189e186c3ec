/* policy/slack.h - L2. Fragmentation slack: dirty memory beyond what the levels (policy/level.h) account for, and
 * how much of it may stay. Numbers in, numbers out: the caller brings the clock and holds the lock.
 *
 * A free block does not always have the requested size or lie where a request can use it. New memory is then mapped
 * beside it, and the program holds more than was ever in use at once. The levels cannot tell the age of such memory:
 * to them all memory is alike. A program that repeats the same sizes requests it again for one of them. So
 * fragmentation slack has a time of its own: the part that was there all through a window is old, and the rest may
 * stay.
 */
#ifndef HK_POLICY_SLACK_H
#define HK_POLICY_SLACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/panic.h"

HK_C_BEGIN

/* Initially all zero. Invariant: old_bytes <= bytes. */
typedef struct {
  uint64_t window_start_ms;
  size_t gone_bytes;  /* of the bytes that the levels count as dirty, those that were purged */
  size_t bytes;       /* the slack at the last look */
  size_t least_bytes; /* the lowest since the window began */
  size_t old_bytes;   /* the part of it that was there all through an earlier window */
} hk_slack_t;

/* Notes the dirty bytes and the bytes that the levels count as dirty. Call it after each change of the dirty
 * memory or the memory in use. A clock that steps back counts as standing still. */
void hk_slack_note(hk_slack_t *slack, uint64_t now_ms, uint64_t window_ms, size_t dirty_bytes, size_t level_bytes);

/* Notes that `bytes` were purged. `going_bytes` are those that the levels count as dirty and that need not stay.
 * They are purged first, and that part does not reduce the slack. */
void hk_slack_note_purged(hk_slack_t *slack, size_t bytes, size_t going_bytes);

#if HK_DEBUG
/* Panics when the invariant does not hold. */
void hk_slack_check(const hk_slack_t *slack);
#endif

/* Returns the slack that may stay. */
HK_INLINE size_t hk_slack_recent_bytes(const hk_slack_t *slack) { return slack->bytes - slack->old_bytes; }

HK_C_END

#endif /* HK_POLICY_SLACK_H */
