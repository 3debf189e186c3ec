/* policy/peak.h - L2. How much dirty memory is purged as the process's resident memory rises above its highest so far,
 * the peak. Numbers in, numbers out: the caller brings the clock and holds the lock.
 *
 * A machine has to have room for a program's peak. Below it, dirty memory takes only room that is there anyway. As
 * the peak rises, about as many dirty bytes are purged as it rose by. A purge takes whole superslabs and extents; what
 * it takes beyond the rise counts for the rises that follow. So each MiB of the final peak is purged about once, and a
 * budget bounds what that may cost: a program that grows all the time would fault in again all that it frees.
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
 * first look (measured: docs/experiments/2026-11-28-purge-at-the-peak.md). */
#define HK_PEAK_TIME_SHARE 25

/* Initially all zero, and in a child of fork again. */
typedef struct {
  uint64_t start_ms;   /* the first look: the budget grows from then on */
  uint64_t look_ms;    /* the last look */
  size_t peak_bytes;   /* the highest peak that the system has told; 0: none yet */
  size_t due_bytes;    /* the part of the peak's rise for which nothing is purged yet, and no purge is under way */
  size_t ahead_bytes;  /* purged beyond the rise so far: the next rises need no purge for as much */
  size_t purged_bytes; /* purged for the peak in all, also by purges that are under way */
} hk_peak_t;

/* Returns whether the caller is to ask the system for the process's peak now, and to call hk_peak_note: true once in a
 * ms, where memory could be purged: `purgeable_bytes` are dirty and need not stay. Returns false where memory is
 * cheap. */
bool hk_peak_is_due(hk_peak_t *peak, const hk_price_t *price, uint64_t now_ms, size_t purgeable_bytes);

/* Notes the process's peak as the system tells it. Threads may ask in one order, and note in another. Returns how many
 * of the purgeable bytes are to be purged, and counts them as purged; 0 where the peak has not risen. */
size_t hk_peak_note(hk_peak_t *peak, const hk_price_t *price, uint64_t now_ms, size_t peak_bytes,
                    size_t purgeable_bytes);

/* Notes that `purged_bytes` were purged instead of `counted_bytes`, which hk_peak_note has returned. */
void hk_peak_settle(hk_peak_t *peak, size_t counted_bytes, size_t purged_bytes);

HK_C_END

#endif /* HK_POLICY_PEAK_H */
