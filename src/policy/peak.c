/* policy/peak.c - L2. See peak.h. */
#include "policy/peak.h"

#include "base/arithmetic.h"
#include "base/units.h"

/* Chosen: less is not worth a purge. A slab. */
#define LEAST_BYTES (64 * HK_KIB)

#define NS_PER_MS UINT64_C(1000000)

/* Chosen: the budget stops growing after this time, in ms (50 days). */
#define LONGEST_MS (UINT64_C(1) << 32)

bool hk_peak_is_due(hk_peak_t *peak, const hk_price_t *price, uint64_t now_ms, size_t purgeable_bytes) {
  if (purgeable_bytes < LEAST_BYTES || now_ms <= peak->look_ms || hk_price_is_cheap(price->ns_per_mib_second))
    return false;
  if (peak->start_ms == 0) peak->start_ms = now_ms;
  peak->look_ms = now_ms;
  return true;
}

static size_t budget_bytes(const hk_peak_t *peak, const hk_price_t *price, uint64_t now_ms) {
  uint64_t lived_ms = hk_smaller(hk_subtract_to_zero(now_ms, peak->start_ms), LONGEST_MS);
  return lived_ms * NS_PER_MS / HK_PEAK_TIME_SHARE / (price->purge_ns + price->fault_ns) * HK_MIB;
}

static void note_rise(hk_peak_t *peak, size_t rise_bytes, size_t purgeable_bytes) {
  size_t made_up_for = hk_smaller(rise_bytes, peak->ahead_bytes);
  peak->ahead_bytes -= made_up_for;
  peak->due_bytes = hk_smaller(hk_add_saturating(peak->due_bytes, rise_bytes - made_up_for), purgeable_bytes);
}

size_t hk_peak_note(hk_peak_t *peak, const hk_price_t *price, uint64_t now_ms, size_t peak_bytes,
                    size_t purgeable_bytes) {
  if (peak_bytes <= peak->peak_bytes) return 0;
  size_t rise_bytes = peak->peak_bytes != 0 ? peak_bytes - peak->peak_bytes : 0;
  peak->peak_bytes = peak_bytes;
  note_rise(peak, rise_bytes, purgeable_bytes);
  size_t left_bytes = hk_subtract_to_zero(budget_bytes(peak, price, now_ms), peak->purged_bytes);
  size_t bytes = hk_smaller(peak->due_bytes, left_bytes);
  if (bytes < LEAST_BYTES) return 0;
  peak->due_bytes -= bytes;
  peak->purged_bytes += bytes;
  return bytes;
}

void hk_peak_settle(hk_peak_t *peak, size_t counted_bytes, size_t purged_bytes) {
  peak->due_bytes = hk_add_saturating(peak->due_bytes, hk_subtract_to_zero(counted_bytes, purged_bytes));
  peak->ahead_bytes = hk_add_saturating(peak->ahead_bytes, hk_subtract_to_zero(purged_bytes, counted_bytes));
  peak->purged_bytes = hk_add_saturating(hk_subtract_to_zero(peak->purged_bytes, counted_bytes), purged_bytes);
}
