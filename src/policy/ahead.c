/* policy/ahead.c - L2. See ahead.h. */
#include "policy/ahead.h"

#include "base/arithmetic.h"
#include "policy/price.h"

/* Shares are counted in 1,024ths. */
#define WHOLE UINT64_C(1024)

size_t hk_ahead_most_bytes(const hk_ahead_t *ahead, const hk_ahead_terms_t *terms) {
  if (terms->filled == 0) return 0;
  uint64_t whole = WHOLE * HK_PRICE_BALANCED / hk_larger(terms->ns_per_mib_second, 1);
  unsigned filled = (unsigned)hk_smaller(terms->filled, HK_AHEAD_ROW);
  uint64_t share = hk_smaller(whole, HK_AHEAD_MOST_SHARE * WHOLE) >> (HK_AHEAD_ROW - filled);
  size_t written_bytes = hk_subtract_to_zero(terms->in_use_bytes, ahead->unknown_bytes);
  return hk_multiply_saturating(written_bytes, share) / WHOLE;
}

bool hk_ahead_may(const hk_ahead_t *ahead, const hk_ahead_terms_t *terms, size_t bytes) {
  return bytes <= hk_subtract_to_zero(hk_ahead_most_bytes(ahead, terms), ahead->ahead_bytes);
}
