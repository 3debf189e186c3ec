/* policy/low_water.h - L2. How far what is in use falls before it rises again, of late. Numbers in, numbers out: the caller holds the
 * lock and says when a window ends.
 *
 * A program that goes on frees down to about where it did before, and takes memory again from there. One that falls deeper does
 * what it has not done before, and perhaps nothing after it.
 */
#ifndef HK_POLICY_LOW_WATER_H
#define HK_POLICY_LOW_WATER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

HK_C_BEGIN

/* All zero to begin with. */
typedef struct {
  bool is_falling;         /* since its last turn */
  size_t turn_bytes;       /* the lowest since then where it is falling, the highest where it is rising */
  size_t low_bytes;        /* the lowest that it rose from in this window, 1 at the least; 0: from none */
  size_t low_before_bytes; /* in the last window before that had one */
} hk_low_water_t;

/* So much is in use now. To be called after each change. */
void hk_low_water_note(hk_low_water_t *low_water, size_t in_use_bytes);

/* A window is over. One in which nothing rose says nothing: the program has stayed as it was. */
void hk_low_water_end_window(hk_low_water_t *low_water);

/* How much of `bytes`, which were wanted again before, still counts with so much in use, of a peak: all of it down to the low of late and an
 * eighth of the peak below; nothing from a quarter of the peak below on; between the two, in proportion. */
size_t hk_low_water_credit_bytes(const hk_low_water_t *low_water, size_t bytes, size_t in_use_bytes, size_t peak_bytes);

HK_C_END

#endif /* HK_POLICY_LOW_WATER_H */
