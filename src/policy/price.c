/* policy/price.c - L2. See price.h. */
#include "policy/price.h"

#include "base/arithmetic.h"
#include "base/units.h"

#define MS_PER_SECOND UINT64_C(1000)
#define KIB_PER_MIB UINT64_C(1024)

/* Chosen: a gap of more than fifty days costs no more than one of fifty days. */
#define LONGEST_MS ((uint64_t)1 << 32)

/* Chosen: the time-outs in 64ths of the break-even one, without the last, which is never. The nearest of them is
 * within a factor of two of the best time-out, up to where another candidate no longer pays. */
static const uint16_t sixty_fourths[HK_PRICE_CANDIDATES - 1] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 1024};

static uint64_t at_least_1(uint64_t value) { return value > 0 ? value : 1; }

bool hk_price_init(hk_price_t *price, uint64_t ns_per_mib_second) {
  if (ns_per_mib_second < HK_PRICE_MIN || ns_per_mib_second > HK_PRICE_MAX) return false;
  price->ns_per_mib_second = ns_per_mib_second;
  hk_price_set_costs(price, HK_PRICE_PURGE_NS, HK_PRICE_FAULT_NS);
  return true;
}

void hk_price_set_costs(hk_price_t *price, uint64_t purge_ns, uint64_t fault_ns) {
  price->purge_ns = purge_ns;
  price->fault_ns = fault_ns;
  price->purge_ms = at_least_1(purge_ns * MS_PER_SECOND / price->ns_per_mib_second);
  price->fault_ms = at_least_1(fault_ns * MS_PER_SECOND / price->ns_per_mib_second);
  uint64_t break_even_ms = hk_price_break_even_ms(price);
  for (unsigned i = 0; i + 1 < HK_PRICE_CANDIDATES; i++) price->timeout_ms[i] = break_even_ms * sixty_fourths[i] / 64;
  price->timeout_ms[HK_PRICE_CANDIDATES - 1] = HK_PRICE_NEVER;
}

void hk_price_add_gap(const hk_price_t *price, hk_price_gaps_t *gaps, size_t bytes, uint64_t gap_ms) {
  if (gap_ms > LONGEST_MS) gap_ms = LONGEST_MS;
  unsigned i = 0;
  while (gap_ms > price->timeout_ms[i]) i++;
  uint64_t kib = bytes / HK_KIB + (bytes % HK_KIB != 0);
  gaps->kib[i] = hk_add_saturating(gaps->kib[i], kib);
  gaps->kib_ms[i] = hk_add_saturating(gaps->kib_ms[i], hk_multiply_saturating(kib, gap_ms));
}

uint64_t hk_price_cost(const hk_price_t *price, const hk_price_gaps_t *gaps, unsigned candidate, bool are_open) {
  uint64_t kept = 0, purged = 0;
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) {
    if (i <= candidate) kept = hk_add_saturating(kept, gaps->kib_ms[i]);
    if (i > candidate) purged = hk_add_saturating(purged, gaps->kib[i]);
  }
  if (purged == 0) return kept;
  uint64_t each_ms = price->timeout_ms[candidate] + price->purge_ms + (are_open ? 0 : price->fault_ms);
  return hk_add_saturating(kept, hk_multiply_saturating(purged, each_ms));
}

uint64_t hk_price_purge_cost(const hk_price_t *price, const hk_price_gaps_t *gaps, unsigned candidate) {
  uint64_t kept = 0;
  for (unsigned i = 0; i <= candidate; i++) kept = hk_add_saturating(kept, gaps->kib[i]);
  return hk_multiply_saturating(kept, price->purge_ms);
}

uint64_t hk_price_least_cost(const hk_price_t *price, const hk_price_gaps_t *gaps, bool are_open) {
  uint64_t each_ms = price->purge_ms + (are_open ? 0 : price->fault_ms);
  uint64_t cost = 0;
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) {
    cost = hk_add_saturating(cost, hk_smaller(gaps->kib_ms[i], hk_multiply_saturating(gaps->kib[i], each_ms)));
  }
  return cost;
}

uint64_t hk_price_rescaled(uint64_t cost, uint64_t from_ns, uint64_t to_ns) {
  uint64_t whole = hk_multiply_saturating(cost / from_ns, to_ns);
  return hk_add_saturating(whole, cost % from_ns * to_ns / from_ns);
}

uint64_t hk_price_ns(const hk_price_t *price, uint64_t kib_ms) {
  uint64_t kib_seconds = kib_ms / MS_PER_SECOND, rest_ms = kib_ms % MS_PER_SECOND;
  uint64_t rest_ns = rest_ms * price->ns_per_mib_second / (KIB_PER_MIB * MS_PER_SECOND);
  uint64_t mib_seconds = kib_seconds / KIB_PER_MIB, rest_kib = kib_seconds % KIB_PER_MIB;
  uint64_t whole_ns = hk_multiply_saturating(mib_seconds, price->ns_per_mib_second);
  return hk_add_saturating(whole_ns, hk_add_saturating(rest_kib * price->ns_per_mib_second / KIB_PER_MIB, rest_ns));
}
