/* space/space_check.c - L3. See space_check.h. */
#include "space/space_check.h"

#include "base/walk.h"
#include "space/dirty.h"
#include "space/extent.h"
#include "space/superslab_index.h"

#if HK_DEBUG

/* Guarded by hk_lock_space. */
static hk_walk_t walk;

void hk_space_check_locked(void) {
  if (!hk_walk_is_due(&walk)) return;
  uint64_t steps = hk_superslab_index_check_locked();
  steps += hk_extent_check_locked();
  hk_dirty_check_locked();
  hk_walk_end(&walk, steps);
}

#endif
