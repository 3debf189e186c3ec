/* policy/low_water.h - L2. What says that a program which frees memory will take it again soon: how far the memory in use falls
 * before it rises again, and how much it rises by then. Numbers in, numbers out: the caller brings the clock and holds the lock.
 *
 * A program that goes on frees down to about where it did before, and takes memory again from there. One that falls deeper does
 * what it has not done before, and perhaps nothing after it.
 */
#ifndef HK_POLICY_LOW_WATER_H
#define HK_POLICY_LOW_WATER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* All zero to begin with. */
typedef struct {
  bool is_falling;         /* since its last turn */
  size_t turn_bytes;       /* the lowest since then where it is falling, the highest where it is rising */
  uint64_t turn_ms;        /* when that was reached */
  size_t low_bytes;        /* the lowest that it rose from in this window, 1 at the least; 0: from none */
  size_t low_before_bytes; /* in the last window before that had one */
  size_t credit_bytes;     /* for refaults */
  size_t in_use_bytes;
  size_t climb_bytes;        /* taken again in this window, and not freed since */
  size_t climb_most_bytes;   /* the most that this was in this window */
  size_t climb_before_bytes; /* in the window before */
  uint64_t window_start_ms;
} hk_low_water_t;

/* So much is in use now, and to come to it the program took `returning_bytes` that it had freed less than a window ago. To be
 * called after each change. A low counts if the rise from it began within a window; a window without one says nothing, for the
 * program has stayed as it was. */
void hk_low_water_note(hk_low_water_t *low_water, uint64_t now_ms, uint64_t window_ms, size_t in_use_bytes,
                       size_t returning_bytes);

/* So much that was purged is touched again soon. Twice that is credit from now on, and at the end of a window no more than twice
 * what was taken again in it and the one before. */
void hk_low_water_note_refault(hk_low_water_t *low_water, size_t bytes);

/* How much credit counts with so much in use, of a peak: all of it down to the low of late and an eighth of the peak below;
 * nothing from a quarter of the peak below on; between the two, in proportion. */
size_t hk_low_water_credit_bytes(const hk_low_water_t *low_water, size_t in_use_bytes, size_t peak_bytes);

HK_C_END

#endif /* HK_POLICY_LOW_WATER_H */
