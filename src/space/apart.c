/* space/apart.c - L3. See apart.h. */
#include "space/apart.h"

_Atomic(size_t) hk_apart_bytes;
_Atomic(size_t) hk_apart_most_held = SIZE_MAX;

bool hk_apart_note_limit(const hk_pressure_t *pressure, const hk_pressure_view_t *view) {
  hk_pressure_view_t unused = *view;
  unused.in_use_bytes = unused.apart_bytes = 0; /* what may be dirty then is what may be held */
  hk_store_relaxed(&hk_apart_most_held, hk_pressure_limit(pressure, &unused, SIZE_MAX));
  return hk_load_relaxed(&hk_apart_bytes) > hk_apart_room_below_limit();
}

void hk_apart_forget_limit(void) { hk_store_relaxed(&hk_apart_most_held, SIZE_MAX); }
