/* space/end_guard.h - L3. End guards: in a hardened build a slab of inaccessible addresses lies behind new slabs, so
 * that an overflow ends there. The state of its descriptor is hk_slab_guard. hk_purge_unmap (space/purge.h) unmaps an
 * end guard with the slabs before it: otherwise each superslab that comes and goes would leave a mapping behind. */
#ifndef HK_SPACE_END_GUARD_H
#define HK_SPACE_END_GUARD_H

#include <stddef.h>
#include <stdint.h>

#include "space/region_map.h"

#define HK_END_GUARD_BYTES (HK_HARDENED ? HK_SLAB_BYTES : 0)

/* Marks the caller's inaccessible addresses at `start` as an end guard. Requires that they were entered
 * (hk_region_map_enter). */
HK_INLINE void hk_end_guard_begin(uintptr_t start) {
  if (!HK_HARDENED) return;
  hk_slab_t *slab = hk_slab_of((const void *)start);
  slab->superslab = NULL; /* the addresses may have been a superslab's */
  hk_store_relaxed(&slab->bytes, 0);
  hk_slab_set_state(slab, hk_slab_guard);
}

/* Ends the mark of the end guard at `start`, which the caller unmaps. Returns its bytes; 0: there is none. For the
 * thread that owns the slab before. */
HK_INLINE size_t hk_end_guard_end(uintptr_t start) {
  if (!HK_HARDENED) return 0;
  hk_slab_t *slab = hk_slab_of((const void *)start);
  if (hk_slab_state(slab) != hk_slab_guard) return 0;
  hk_slab_set_state(slab, hk_slab_none); /* before another thread has the addresses */
  return HK_END_GUARD_BYTES;
}

#endif /* HK_SPACE_END_GUARD_H */
