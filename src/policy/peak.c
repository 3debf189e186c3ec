/* policy/peak.c - L2. See peak.h. */
#include "policy/peak.h"

#include "base/arithmetic.h"
#include "base/units.h"

/* Chosen: less is not worth a purge. A slab. */
#define LEAST_BYTES (64 * HK_KIB)

#define NS_PER_MS UINT64_C(1000000)

/* Chosen: the budget stops growing after this time, in ms (50 days). */
#define LONGEST_MS (UINT64_C(1) << 32)

bool hk_peak_is_due(hk_peak_t *peak, uint64_t now_ms, size_t spare_bytes) {
  if (spare_bytes < LEAST_BYTES || now_ms <= peak->look_ms) return false;
  if (peak->start_ms == 0) peak->start_ms = now_ms;
  peak->look_ms = now_ms;
  return true;
}

static size_t budget_bytes(const hk_peak_t *peak, const hk_price_t *price, uint64_t now_ms) {
  if (hk_price_is_cheap(price->ns_per_mib_second)) return 0;
  uint64_t lived_ms = hk_smaller(hk_subtract_to_zero(now_ms, peak->start_ms), LONGEST_MS);
  return lived_ms * NS_PER_MS / HK_PEAK_TIME_SHARE / (price->give_ns + price->want_ns) * HK_MIB;
}

size_t hk_peak_note(hk_peak_t *peak, const hk_price_t *price, uint64_t now_ms, size_t peak_bytes, size_t spare_bytes) {
  size_t rise_bytes = hk_subtract_to_zero(peak_bytes, peak->peak_bytes);
  bool is_first = peak->peak_bytes == 0 || peak_bytes < peak->peak_bytes;
  peak->peak_bytes = peak_bytes;
  if (is_first) peak->rise_bytes = 0;
  if (is_first || rise_bytes == 0) return 0;
  peak->rise_bytes = hk_smaller(hk_add_saturating(peak->rise_bytes, rise_bytes), spare_bytes);
  size_t left_bytes = hk_subtract_to_zero(budget_bytes(peak, price, now_ms), peak->spent_bytes);
  size_t bytes = hk_smaller(peak->rise_bytes, left_bytes);
  return bytes >= LEAST_BYTES ? bytes : 0;
}

void hk_peak_note_purged(hk_peak_t *peak, size_t bytes, bool is_for_peak) {
  peak->rise_bytes = hk_subtract_to_zero(peak->rise_bytes, bytes);
  if (is_for_peak) peak->spent_bytes = hk_add_saturating(peak->spent_bytes, bytes);
}
