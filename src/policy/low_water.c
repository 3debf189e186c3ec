/* policy/low_water.c - L2. See low_water.h. */
#include "policy/low_water.h"

#include "base/arithmetic.h"
#include "base/units.h"

/* Chosen: what rises or falls by less than this part of where it turned, or by less than so much, has not turned. The same part, of the
 * peak, is as good as the low itself. */
#define TURN_SHARE 8
#define TURN_LEAST_BYTES HK_MIB

static size_t share_of(size_t bytes) { return hk_larger(bytes / TURN_SHARE, TURN_LEAST_BYTES); }

static void note_low(hk_low_water_t *low_water, size_t bytes) {
  if (low_water->low_bytes == 0 || bytes < low_water->low_bytes) low_water->low_bytes = hk_larger(bytes, 1);
}

void hk_low_water_note(hk_low_water_t *low_water, size_t in_use_bytes) {
  size_t turn = low_water->turn_bytes;
  size_t back =
      low_water->is_falling ? hk_subtract_to_zero(in_use_bytes, turn) : hk_subtract_to_zero(turn, in_use_bytes);
  if (back > 0) {
    if (back < share_of(turn)) return;
    if (low_water->is_falling) note_low(low_water, turn);
    low_water->is_falling = !low_water->is_falling;
  }
  low_water->turn_bytes = in_use_bytes;
}

void hk_low_water_end_window(hk_low_water_t *low_water) {
  if (low_water->low_bytes == 0) return;
  low_water->low_before_bytes = low_water->low_bytes;
  low_water->low_bytes = 0;
}

/* Who has not risen again from anywhere is taken to do so from the peak. */
static size_t low_of_late(const hk_low_water_t *low_water, size_t peak_bytes) {
  size_t now = low_water->low_bytes, before = low_water->low_before_bytes;
  if (now == 0 && before == 0) return peak_bytes;
  return now == 0 || before == 0 ? hk_larger(now, before) : hk_smaller(now, before);
}

size_t hk_low_water_credit_bytes(const hk_low_water_t *low_water, size_t bytes, size_t in_use_bytes,
                                 size_t peak_bytes) {
  size_t near = share_of(peak_bytes);
  size_t below = hk_subtract_to_zero(low_of_late(low_water, peak_bytes), in_use_bytes);
  if (below <= near) return bytes;
  return (size_t)((unsigned __int128)bytes * hk_subtract_to_zero(2 * near, below) / near);
}
