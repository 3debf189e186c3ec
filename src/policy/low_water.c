/* policy/low_water.c - L2. See low_water.h. */
#include "policy/low_water.h"

#include "base/arithmetic.h"
#include "base/units.h"

/* Chosen: a rise or fall by less than this part of the last turn's bytes, or by less than TURN_MIN_BYTES, is no
 * turn. The same part of the peak counts as near to the low-water mark. */
#define TURN_SHARE 8
#define TURN_MIN_BYTES HK_MIB

/* Chosen: bytes of credit for each refaulted byte. With one, a program that frees ever more of its memory pays for
 * every byte of it; with two, for about half. */
#define CREDIT_FOR_EACH 2
/* Chosen: the most credit for each byte that was taken again in this window or the one before. */
#define CREDIT_MAX_FOR_EACH 2

static size_t share_of(size_t bytes) { return hk_larger(bytes / TURN_SHARE, TURN_MIN_BYTES); }

static void note_low(hk_low_water_t *low_water, size_t bytes) {
  if (low_water->low_bytes == 0 || bytes < low_water->low_bytes) low_water->low_bytes = hk_larger(bytes, 1);
}

static void end_window(hk_low_water_t *low_water, uint64_t now_ms) {
  low_water->window_start_ms = now_ms;
  if (low_water->low_bytes != 0) low_water->low_before_bytes = low_water->low_bytes;
  size_t climb = hk_larger(low_water->climb_most_bytes, low_water->climb_before_bytes);
  low_water->credit_bytes = hk_smaller(low_water->credit_bytes, hk_multiply_saturating(CREDIT_MAX_FOR_EACH, climb));
  low_water->climb_before_bytes = low_water->climb_most_bytes;
  low_water->low_bytes = low_water->climb_bytes = low_water->climb_most_bytes = 0;
}

static void note_climb(hk_low_water_t *low_water, size_t in_use_bytes, size_t returning_bytes) {
  size_t freed_bytes = hk_subtract_to_zero(low_water->in_use_bytes, in_use_bytes);
  low_water->climb_bytes = hk_add_saturating(hk_subtract_to_zero(low_water->climb_bytes, freed_bytes), returning_bytes);
  low_water->climb_most_bytes = hk_larger(low_water->climb_most_bytes, low_water->climb_bytes);
  low_water->in_use_bytes = in_use_bytes;
}

static void note_turn(hk_low_water_t *low_water, uint64_t now_ms, uint64_t window_ms, size_t in_use_bytes) {
  size_t turn = low_water->turn_bytes;
  size_t back =
      low_water->is_falling ? hk_subtract_to_zero(in_use_bytes, turn) : hk_subtract_to_zero(turn, in_use_bytes);
  if (back > 0) {
    if (back < share_of(turn)) return;
    bool is_soon = hk_subtract_to_zero(now_ms, low_water->turn_ms) < window_ms;
    if (low_water->is_falling && is_soon) note_low(low_water, turn);
    low_water->is_falling = !low_water->is_falling;
  }
  if (in_use_bytes != turn) low_water->turn_ms = now_ms;
  low_water->turn_bytes = in_use_bytes;
}

void hk_low_water_note(hk_low_water_t *low_water, uint64_t now_ms, uint64_t window_ms, size_t in_use_bytes,
                       size_t returning_bytes) {
  if (hk_subtract_to_zero(now_ms, low_water->window_start_ms) >= window_ms) end_window(low_water, now_ms);
  note_climb(low_water, in_use_bytes, returning_bytes);
  note_turn(low_water, now_ms, window_ms, in_use_bytes);
}

void hk_low_water_note_refault(hk_low_water_t *low_water, size_t bytes) {
  low_water->credit_bytes = hk_add_saturating(low_water->credit_bytes, hk_multiply_saturating(CREDIT_FOR_EACH, bytes));
}

/* Returns the low-water mark: the lower one of two windows; the peak when no rise is known. */
static size_t low_water_bytes(const hk_low_water_t *low_water, size_t peak_bytes) {
  size_t now = low_water->low_bytes, before = low_water->low_before_bytes;
  if (now == 0 && before == 0) return peak_bytes;
  return now == 0 || before == 0 ? hk_larger(now, before) : hk_smaller(now, before);
}

size_t hk_low_water_credit_bytes(const hk_low_water_t *low_water, size_t in_use_bytes, size_t peak_bytes) {
  size_t bytes = low_water->credit_bytes, near = share_of(peak_bytes);
  size_t below = hk_subtract_to_zero(low_water_bytes(low_water, peak_bytes), in_use_bytes);
  if (below <= near) return bytes;
  return (size_t)((unsigned __int128)bytes * hk_subtract_to_zero(2 * near, below) / near);
}
