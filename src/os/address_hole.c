/* os/address_hole.c - L1. See address_hole.h. All of it is hints: a thread may overwrite another one's. */
#include "os/address_hole.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/units.h"

/* Chosen: as many holes as threads leave in a moment. A forgotten one is found again from above. */
#define HOLES_MAX 64
static _Atomic(uintptr_t) holes[HOLES_MAX];

static _Atomic(uintptr_t) last_mapped;

void hk_address_hole_note(uintptr_t start) {
  if (!hk_is_aligned(start, HK_SLAB_BYTES)) return;
  for (unsigned i = 0; i < HOLES_MAX; i++) {
    if (hk_load_relaxed(&holes[i]) != 0) continue;
    hk_store_relaxed(&holes[i], start);
    return;
  }
  if (start >= hk_load_relaxed(&last_mapped)) hk_store_relaxed(&last_mapped, start + HK_SLAB_BYTES);
}

uintptr_t hk_address_hole_take(void) {
  for (unsigned i = HOLES_MAX; i-- > 0;) {
    uintptr_t start = hk_load_relaxed(&holes[i]);
    if (start == 0) continue;
    hk_store_relaxed(&holes[i], 0);
    return start;
  }
  return 0;
}

void hk_address_hole_note_mapped(uintptr_t start) { hk_store_relaxed(&last_mapped, start); }

uintptr_t hk_address_hole_below(void) {
  uintptr_t start = hk_load_relaxed(&last_mapped);
  if (start <= HK_SLAB_BYTES) return 0;
  hk_store_relaxed(&last_mapped, start - HK_SLAB_BYTES);
  return start - HK_SLAB_BYTES;
}
