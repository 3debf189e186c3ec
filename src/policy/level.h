/* policy/level.h - L2. For how long memory that nobody uses has been idle, and for how long it was when it is wanted
 * again. Numbers in, numbers out: the caller brings the clock and holds the lock.
 *
 * Think of the bytes in use as a water level. When it falls from a to b, the levels from b to a become idle; when it
 * rises through them again, their gap ends. What was freed last is wanted first, so the idle levels are a stack: the
 * higher a level, the longer it has been idle. Gaps tell nothing of what was kept or given back meanwhile: they are
 * what the program does, and the same for every strategy that is judged by them.
 *
 * The stack has room for HK_LEVEL_SEGMENTS falls. When it is full, the two neighbours whose ages differ least, in
 * proportion, become one, with the mean of their times, weighted by their bytes. Levels that were never in use are not
 * idle.
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

/* Chosen: ages from a millisecond to an hour are then told apart to a quarter, also where they are spread as badly as
 * can be. */
#define HK_LEVEL_SEGMENTS 64u

/* Levels that became idle together: from the next younger segment's top, or from what is in use, to `top_bytes`. */
typedef struct {
  size_t top_bytes;
  uint64_t since_ms;
} hk_level_segment_t;

/* All zero to begin with. Segments are in order of age, the oldest and highest first. Invariant: tops fall, all above
 * in_use_bytes; times rise up to now. */
typedef struct {
  uint64_t now_ms; /* the latest time that was told */
  size_t in_use_bytes;
  unsigned count;
  hk_level_segment_t segment[HK_LEVEL_SEGMENTS];
} hk_level_t;

/* So many bytes were idle for so long, and are wanted again. */
typedef void (*hk_level_output_t)(void *context, size_t bytes, uint64_t gap_ms);

/* So much is in use now. Calls the free list for each segment, or part of one, whose gap ends by it. A time before the
 * latest one counts as the latest: threads read the clock before they take the lock. */
void hk_level_note(hk_level_t *level, uint64_t now_ms, size_t in_use_bytes, hk_level_output_t output, void *context);

/* Time passes, and nothing else. */
void hk_level_pass(hk_level_t *level, uint64_t now_ms);

/* All that is idle. */
size_t hk_level_dirty_bytes(const hk_level_t *level);

/* How many idle bytes that became idle no longer than `age_ms` before `now_ms` a rise to `to_bytes` would take. */
size_t hk_level_returning_bytes(const hk_level_t *level, uint64_t now_ms, uint64_t age_ms, size_t to_bytes);

/* How much of what is idle may stay by this curve. */
size_t hk_level_kept_bytes(const hk_level_t *level, const hk_decay_t *decay);

/* When hk_level_kept_bytes will be less, if nothing changes until then; false when it is 0 or the time is never. */
bool hk_level_next_due(const hk_level_t *level, const hk_decay_t *decay, uint64_t *due_ms);

#if HK_DEBUG
/* Panics with the sentence that does not hold. */
void hk_level_check(const hk_level_t *level);
#endif

/* The bytes and the age of one segment; `index` is below `count`. */
size_t hk_level_segment_bytes(const hk_level_t *level, unsigned index);
uint64_t hk_level_segment_age_ms(const hk_level_t *level, unsigned index);

HK_C_END

#endif /* HK_POLICY_LEVEL_H */
