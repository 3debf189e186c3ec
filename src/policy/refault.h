/* policy/refault.h - L2. How much of the memory that was purged is touched again soon. Numbers in, numbers out: the caller
 * brings the clock and holds the lock.
 */
#ifndef HK_POLICY_REFAULT_H
#define HK_POLICY_REFAULT_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The parts of a window that are told apart. */
#define HK_REFAULT_PARTS 8

/* All zero to begin with. */
typedef struct {
  size_t
      purged_bytes[HK_REFAULT_PARTS]; /* and not touched again yet: in this part of a window, and in those before it */
  uint64_t part_start_ms;
} hk_refault_t;

/* So much was purged. */
void hk_refault_note_purged(hk_refault_t *refault, uint64_t now_ms, uint64_t window_ms, size_t bytes);

/* So much that is not resident is about to be touched. Returns how much of it was purged less than a window ago, or an
 * eighth of a window less. A clock that steps back stands still. */
size_t hk_refault_note_wanted(hk_refault_t *refault, uint64_t now_ms, uint64_t window_ms, size_t bytes);

/* Forgets what was purged. */
void hk_refault_forget(hk_refault_t *refault);

HK_C_END

#endif /* HK_POLICY_REFAULT_H */
