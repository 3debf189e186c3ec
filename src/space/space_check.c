/* space/space_check.c - L3. See space_check.h. */
#include "space/space_check.h"

#include "base/walk.h"
#include "space/dirty.h"
#include "space/extent.h"
#include "space/superslab_check.h"
#include "space/superslab_index.h"

#if HK_DEBUG

/* Guarded by the locks of all superslab indexes. */
static hk_walk_t walk;

void hk_space_check(void) {
  hk_superslab_index_lock_all();
  if (hk_walk_is_due(&walk)) {
    uint64_t steps = hk_superslab_check_locked();
    steps += hk_extent_check_locked();
    hk_dirty_check_locked();
    hk_walk_end(&walk, steps);
  }
  hk_superslab_index_unlock_all();
}

#endif
