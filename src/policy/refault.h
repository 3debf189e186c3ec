/* policy/refault.h - L2. Counts refaults: how much of the purged memory is touched again soon. Numbers in, numbers
 * out: the caller brings the clock and holds the lock. */
#ifndef HK_POLICY_REFAULT_H
#define HK_POLICY_REFAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Parts of a window, by which purged bytes are counted. */
#define HK_REFAULT_PARTS 8

/* Initially all zero. */
typedef struct {
  /* Purged and not touched again: [0] in this part of a window, the others in the parts before it. */
  size_t purged_bytes[HK_REFAULT_PARTS];
  uint64_t part_start_ms;
} hk_refault_t;

/* Notes that `bytes` were purged. */
void hk_refault_note_purged(hk_refault_t *refault, uint64_t now_ms, uint64_t window_ms, size_t bytes);

/* Notes that `bytes` that are not resident are about to be touched. Returns how many of them were purged less than a
 * window ago; the count by parts makes that up to an eighth of a window shorter. A clock that steps back stands
 * still. */
size_t hk_refault_note_touched(hk_refault_t *refault, uint64_t now_ms, uint64_t window_ms, size_t bytes);

/* Returns whether hk_refault_note_touched could find any. */
bool hk_refault_is_possible(const hk_refault_t *refault);

/* Forgets the purged bytes. */
void hk_refault_forget(hk_refault_t *refault);

HK_C_END

#endif /* HK_POLICY_REFAULT_H */
