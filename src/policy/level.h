/* policy/level.h - L2. How long freed memory stays unused. Numbers in, numbers out: the caller brings the clock and
 * holds the lock.
 *
 * The bytes in use rise and fall. When they fall from a to b, the levels from b to a become dirty. When they
 * rise through them again, their gap ends. The memory that was freed last is requested first, so the dirty levels
 * are a stack: a higher level has been dirty for longer. Levels count memory as dirty from its free to its next use,
 * whether or not it is purged meanwhile. So gaps are a property of the program, and the same for every candidate that
 * is judged by them.
 *
 * The stack has room for HK_LEVEL_SEGMENTS falls. When it is full, the two neighbours whose ages differ by the
 * smallest part become one. Its time is the mean of theirs, weighted by their bytes. Levels that were never in use
 * are not dirty.
 */
#ifndef HK_POLICY_LEVEL_H
#define HK_POLICY_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/panic.h"
#include "policy/decay.h"

HK_C_BEGIN

/* Chosen: distinguishes ages from a millisecond to an hour to a quarter, for the worst distribution of ages. */
#define HK_LEVEL_SEGMENTS 64u

/* Levels that became dirty together: from the next younger segment's top, or from the bytes in use, to `top_bytes`. */
typedef struct {
  size_t top_bytes;
  uint64_t since_ms;
} hk_level_segment_t;

/* Initially all zero. Segments are in order of age, the oldest and highest first. Invariant: tops fall and are all
 * above in_use_bytes; times rise, up to now_ms. */
typedef struct {
  uint64_t now_ms; /* the latest time that a caller passed */
  size_t in_use_bytes;
  unsigned count;
  hk_level_segment_t segment[HK_LEVEL_SEGMENTS];
} hk_level_t;

/* Receives bytes that are in use again, and how long they were dirty. */
typedef void (*hk_level_output_t)(void *context, size_t bytes, uint64_t gap_ms);

/* Notes the bytes in use. Calls `output` for each segment, or part of one, whose gap ends by it. A time before the
 * latest one counts as the latest: threads read the clock before they take the lock. */
void hk_level_note(hk_level_t *level, uint64_t now_ms, size_t in_use_bytes, hk_level_output_t output, void *context);

/* Notes the time alone. */
void hk_level_pass(hk_level_t *level, uint64_t now_ms);

/* Returns the bytes of all dirty levels. */
size_t hk_level_dirty_bytes(const hk_level_t *level);

/* Returns the bytes that a rise to `to_bytes` would take and that became dirty at most `age_ms` before `now_ms`. */
size_t hk_level_returning_bytes(const hk_level_t *level, uint64_t now_ms, uint64_t age_ms, size_t to_bytes);

/* Returns the dirty bytes that may stay by this curve. */
size_t hk_level_kept_bytes(const hk_level_t *level, const hk_decay_t *decay);

/* Computes when hk_level_kept_bytes becomes less, if nothing changes until then. Returns false when it is 0 or never
 * becomes less. */
bool hk_level_next_due(const hk_level_t *level, const hk_decay_t *decay, uint64_t *due_ms);

#if HK_DEBUG
/* Panics when an invariant does not hold, and names it. */
void hk_level_check(const hk_level_t *level);
#endif

/* Return the bytes and the age of one segment. Require `index` below `count`. */
size_t hk_level_segment_bytes(const hk_level_t *level, unsigned index);
uint64_t hk_level_segment_age_ms(const hk_level_t *level, unsigned index);

HK_C_END

#endif /* HK_POLICY_LEVEL_H */
