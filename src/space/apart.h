/* space/apart.h - L3. Free memory that a hardened build keeps apart: the sums of space/dirty.h do not count it. There
 * are two kinds: the slabs of each class (class_slabs.h) and freed mappings (lone_mapping.h). hk_apart_room bounds each
 * of them, also near a limit on memory. */
#ifndef HK_SPACE_APART_H
#define HK_SPACE_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "policy/option.h"
#include "policy/pressure.h"
#include "policy/retention.h"
#include "space/dirty_account.h"

/* The bytes of all classes' dirty slabs, without freed mappings. Threads may exceed the bound by a span each. */
extern HK_HIDDEN _Atomic(size_t) hk_apart_bytes;

/* The bytes in use, dirty and apart together that a limit on memory allowed at the last look; SIZE_MAX: there is none.
 * Written under hk_lock_space, read by any thread. */
extern HK_HIDDEN _Atomic(size_t) hk_apart_most_held;

/* Returns how many bytes a limit on memory allows to keep. */
HK_INLINE size_t hk_apart_room_below_limit(void) {
  size_t most = hk_load_relaxed(&hk_apart_most_held);
  if (most == SIZE_MAX) return SIZE_MAX;
  hk_dirty_sums_t sums = hk_dirty_sums();
  return hk_subtract_to_zero(most, hk_add_saturating(sums.in_use_bytes, sums.dirty_bytes));
}

/* Returns how many bytes of each kind are kept for the next requests: `retain`, and the part of the memory in use that
 * hk_retention_share says, as far as a limit on memory allows. */
HK_INLINE size_t hk_apart_room(void) {
  if (hk_option.retain == 0) return 0;
  size_t room = hk_option.retain + hk_dirty_in_use() / hk_retention_share(hk_option.mode);
  return hk_smaller(room, hk_apart_room_below_limit());
}

/* Notes a limit on memory by a look. Returns whether more slabs are kept than it allows. Requires hk_lock_space. */
bool hk_apart_note_limit(const hk_pressure_t *pressure, const hk_pressure_view_t *view);

/* Notes that there is no limit on memory. Requires hk_lock_space. */
void hk_apart_forget_limit(void);

#endif /* HK_SPACE_APART_H */
