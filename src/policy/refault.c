/* policy/refault.c - L2. See refault.h. */
#include "policy/refault.h"

#include <string.h>

#include "base/arithmetic.h"

static void pass_time(hk_refault_t *refault, uint64_t now_ms, uint64_t window_ms) {
  uint64_t part_ms = window_ms / HK_REFAULT_PARTS;
  uint64_t passed = hk_subtract_to_zero(now_ms, refault->part_start_ms) / part_ms;
  if (passed == 0) return;
  for (size_t i = HK_REFAULT_PARTS; i-- > 0;)
    refault->purged_bytes[i] = i < passed ? 0 : refault->purged_bytes[i - passed];
  refault->part_start_ms += passed * part_ms;
}

void hk_refault_note_purged(hk_refault_t *refault, uint64_t now_ms, uint64_t window_ms, size_t bytes) {
  pass_time(refault, now_ms, window_ms);
  refault->purged_bytes[0] = hk_add_saturating(refault->purged_bytes[0], bytes);
}

/* The memory that was purged first is forgotten first, so it counts as touched first. */
size_t hk_refault_note_touched(hk_refault_t *refault, uint64_t now_ms, uint64_t window_ms, size_t bytes) {
  pass_time(refault, now_ms, window_ms);
  size_t left = bytes;
  for (size_t i = HK_REFAULT_PARTS; i-- > 0;) {
    size_t from_part = hk_smaller(left, refault->purged_bytes[i]);
    refault->purged_bytes[i] -= from_part;
    left -= from_part;
  }
  return bytes - left;
}

bool hk_refault_is_possible(const hk_refault_t *refault) {
  size_t all = 0;
  for (size_t i = 0; i < HK_REFAULT_PARTS; i++) all |= refault->purged_bytes[i];
  return all != 0;
}

void hk_refault_forget(hk_refault_t *refault) { memset(refault->purged_bytes, 0, sizeof refault->purged_bytes); }
