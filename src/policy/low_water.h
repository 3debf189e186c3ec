/* policy/low_water.h - L2. Predicts whether a program that frees memory takes it again soon: from how far the bytes
 * in use fall before they rise again, and from how much they rise then. Numbers in, numbers out: the caller brings
 * the clock and holds the lock.
 *
 * A program in a steady state frees down to about the same bytes in use each time, and takes memory again from
 * there. A program that falls deeper does something new, and may take nothing afterwards.
 */
#ifndef HK_POLICY_LOW_WATER_H
#define HK_POLICY_LOW_WATER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Initially all zero. */
typedef struct {
  bool is_falling; /* the bytes in use are falling since the last turn */
  /* The lowest bytes in use since the last turn while they fall, the highest while they rise. */
  size_t turn_bytes;
  uint64_t turn_ms; /* when turn_bytes was reached */
  /* The lowest point of this window that a rise began from, at least 1; 0: no rise. */
  size_t low_bytes;
  size_t low_before_bytes; /* the same of the last earlier window that had a rise */
  size_t credit_bytes;     /* for refaults */
  size_t in_use_bytes;
  size_t climb_bytes;        /* taken again in this window, and not freed since */
  size_t climb_most_bytes;   /* the highest climb_bytes of this window */
  size_t climb_before_bytes; /* the same of the window before */
  uint64_t window_start_ms;
} hk_low_water_t;

/* Notes the bytes in use. `returning_bytes` of them were freed less than a window ago and are taken again. Call it
 * after each change. A low point counts if the rise from it began within a window. A window without a low point
 * changes nothing. */
void hk_low_water_note(hk_low_water_t *low_water, uint64_t now_ms, uint64_t window_ms, size_t in_use_bytes,
                       size_t returning_bytes);

/* Notes that `bytes` that were purged are touched again soon. Twice that is added to the credit. At the end of a
 * window the credit is at most twice the bytes that were taken again in that window or the one before, whichever has
 * more. */
void hk_low_water_note_refault(hk_low_water_t *low_water, size_t bytes);

/* Returns the credit that counts with `in_use_bytes` below a peak. Let near be an eighth of the peak, at least 1
 * MiB. All credit counts down to near below the low-water mark, none from twice near below it, and a proportional
 * part between. */
size_t hk_low_water_credit_bytes(const hk_low_water_t *low_water, size_t in_use_bytes, size_t peak_bytes);

HK_C_END

#endif /* HK_POLICY_LOW_WATER_H */
