/* policy/ahead.c - L2. See ahead.h. */
#include "policy/ahead.h"

#include "base/arithmetic.h"
#include "policy/price.h"

/* Shares are counted in 1,024ths. */
#define WHOLE UINT64_C(1024)

static size_t most_written(const hk_ahead_t *ahead, size_t in_use_bytes) {
  return hk_larger(ahead->written_bytes, hk_subtract_to_zero(in_use_bytes, ahead->unknown_bytes));
}

void hk_ahead_note_block(hk_ahead_t *ahead) { ahead->written_bytes -= ahead->written_bytes / HK_AHEAD_FORGET_SHARE; }

void hk_ahead_note_filled(hk_ahead_t *ahead, size_t in_use_bytes) {
  ahead->written_bytes = most_written(ahead, in_use_bytes);
}

size_t hk_ahead_room(const hk_ahead_t *ahead, const hk_ahead_terms_t *terms) {
  uint64_t whole = WHOLE * HK_PRICE_BALANCED / hk_larger(terms->ns_per_mib_second, 1);
  uint64_t earned = hk_subtract_to_zero(hk_smaller(terms->filled, HK_AHEAD_ROW), 1);
  uint64_t share = hk_smaller(whole, HK_AHEAD_MAX_TIMES * WHOLE) * earned / (HK_AHEAD_ROW - 1);
  size_t written_bytes = most_written(ahead, terms->in_use_bytes);
  return hk_subtract_to_zero(hk_multiply_saturating(written_bytes, share) / WHOLE, ahead->ahead_bytes);
}
