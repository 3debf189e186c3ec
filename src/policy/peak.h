/* policy/peak.h - L2. How much dirty memory is purged as the process's resident memory rises above its highest so far,
 * the peak. Numbers in, numbers out: the caller brings the clock and holds the lock.
 *
 * A machine has to have room for a program's peak. Below it, dirty memory takes no room that is not there anyway. As
 * the peak rises, as many dirty bytes are purged as it rose by. Each MiB of the final peak is so purged once at the
 * most, and a budget bounds what that may cost: a program that grows all the time would fault in again all that it
 * frees.
 */
#ifndef HK_POLICY_PEAK_H
#define HK_POLICY_PEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "policy/price.h"

HK_C_BEGIN

/* Chosen: the budget. Purging memory for the peak and faulting it in again may take this part of the time since the
 * first look (measured: docs/experiments/2026-11-28-purge-at-the-peak.md). Where memory is cheap, there is none. */
#define HK_PEAK_TIME_SHARE 25

/* Initially all zero. */
typedef struct {
  uint64_t start_ms; /* of the first look */
  uint64_t look_ms;  /* of the last one */
  size_t peak_bytes; /* at the last look; 0 before it */
  size_t rise_bytes; /* by which the peak has risen, while nothing was purged for it */
  size_t spent_bytes;
} hk_peak_t;

/* Returns whether the caller is to ask the system for the process's peak now, and to call hk_peak_note. True once in a
 * ms, where memory could be purged: `spare_bytes` of it are dirty and need not stay. */
bool hk_peak_is_due(hk_peak_t *peak, uint64_t now_ms, size_t spare_bytes);

/* Notes the process's peak as the system tells it. Returns how many of the spare bytes are to be purged; 0 where the
 * peak has not risen. A child of fork has a lower peak than its parent, and begins anew with it. */
size_t hk_peak_note(hk_peak_t *peak, const hk_price_t *price, uint64_t now_ms, size_t peak_bytes, size_t spare_bytes);

/* Notes that `bytes` are being purged, whatever for; `is_for_peak`: they count in the budget. */
void hk_peak_note_purged(hk_peak_t *peak, size_t bytes, bool is_for_peak);

HK_C_END

#endif /* HK_POLICY_PEAK_H */
