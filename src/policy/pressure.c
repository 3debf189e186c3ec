/* policy/pressure.c - L2. See pressure.h. */
#include "policy/pressure.h"

#include "base/arithmetic.h"

static size_t part_of(size_t limit, unsigned twentieths) { return limit / HK_PRESSURE_PARTS * twentieths; }

static size_t needed_by(const hk_pressure_view_t *view) { return view->in_use_bytes + view->apart_bytes; }

static size_t held_by(const hk_pressure_view_t *view) { return needed_by(view) + view->dirty_bytes; }

/* ---- When to look. */

size_t hk_pressure_next_look_bytes(const hk_pressure_t *pressure, size_t own_limit_bytes) {
  if (hk_pressure_is_none(pressure, own_limit_bytes)) return SIZE_MAX;
  return pressure->next_look_ms == 0 ? HK_PRESSURE_MIN_BYTES : pressure->next_look_bytes;
}

bool hk_pressure_is_due(hk_pressure_t *pressure, const hk_pressure_view_t *view) {
  if (hk_pressure_is_none(pressure, view->own_limit_bytes)) return false;
  bool is_time_over = pressure->next_look_ms != 0 && view->now_ms >= pressure->next_look_ms;
  if (!is_time_over && held_by(view) < hk_pressure_next_look_bytes(pressure, view->own_limit_bytes)) return false;
  pressure->next_look_ms = view->now_ms + HK_PRESSURE_LOOK_MS;
  pressure->next_look_bytes = SIZE_MAX;
  return true;
}

/* Returns the growth until the next look. Where nothing may be dirty, growth changes nothing. */
static size_t growth_to_look(const hk_os_memory_limit_t *seen) {
  size_t full = part_of(seen->limit_bytes, HK_PRESSURE_FULL);
  if (seen->use_bytes >= full) return SIZE_MAX;
  return hk_larger((full - seen->use_bytes) / HK_PRESSURE_GROWTH_SHARE,
                   seen->limit_bytes / HK_PRESSURE_MIN_GROWTH_SHARE);
}

/* ---- The results of a look. */

static void pass_time(hk_pressure_t *pressure, uint64_t now_ms, intptr_t others) {
  if (now_ms < pressure->period_start_ms) return;
  uint64_t elapsed_ms = now_ms - pressure->period_start_ms;
  if (elapsed_ms < HK_PRESSURE_PERIOD_MS) return;
  bool is_long_over = elapsed_ms >= 2 * HK_PRESSURE_PERIOD_MS;
  pressure->others_before_bytes = is_long_over ? others : pressure->others_bytes;
  pressure->others_bytes = others;
  pressure->period_start_ms = now_ms;
}

void hk_pressure_note(hk_pressure_t *pressure, const hk_pressure_view_t *view, const hk_os_memory_limit_t *seen) {
  intptr_t others = (intptr_t)(seen->use_bytes - held_by(view));
  if (pressure->has_looked && pressure->seen.limit_bytes == seen->limit_bytes) {
    pass_time(pressure, view->now_ms, others);
  } else { /* another limit counts other memory */
    pressure->others_bytes = pressure->others_before_bytes = others;
    pressure->period_start_ms = view->now_ms;
  }
  if (others > pressure->others_bytes) pressure->others_bytes = others;
  pressure->has_looked = true;
  pressure->seen = *seen;
  size_t growth = growth_to_look(seen);
  if (__builtin_add_overflow(held_by(view), growth, &pressure->next_look_bytes)) pressure->next_look_bytes = SIZE_MAX;
}

/* ---- How much may be dirty. */

/* Returns the room for dirty memory beside needed memory. */
static size_t room_beside(size_t limit, size_t needed) {
  size_t near = part_of(limit, HK_PRESSURE_NEAR);
  size_t full = part_of(limit, HK_PRESSURE_FULL);
  if (needed >= full) return 0;
  size_t below_near = needed < near ? near - needed : 0;
  return hk_larger(below_near, (full - needed) / 2);
}

/* Returns the needed memory that the system's limit counts: the program's, and that of others. */
static size_t needed_in_system(const hk_pressure_t *pressure, size_t own_bytes) {
  intptr_t others = pressure->others_bytes;
  if (others < pressure->others_before_bytes) others = pressure->others_before_bytes;
  intptr_t needed = (intptr_t)own_bytes + others;
  return needed > 0 ? (size_t)needed : 0;
}

static size_t room_in_system(const hk_pressure_t *pressure, size_t own_bytes) {
  const hk_os_memory_limit_t *seen = &pressure->seen;
  /* Dirty memory may not be resident, so only the reported use is certain: it says that the limit is near. */
  if (seen->use_bytes >= part_of(seen->limit_bytes, HK_PRESSURE_FULL)) return 0;
  return room_beside(seen->limit_bytes, needed_in_system(pressure, own_bytes));
}

static bool is_felt(size_t limit, size_t needed) { return limit > 0 && needed >= part_of(limit, HK_PRESSURE_FELT); }

bool hk_pressure_is_felt(const hk_pressure_t *pressure, const hk_pressure_view_t *view) {
  return is_felt(view->own_limit_bytes, needed_by(view)) ||
         is_felt(pressure->seen.limit_bytes, needed_in_system(pressure, needed_by(view)));
}

static size_t lowered_by_stalls(size_t bytes, unsigned permille) {
  if (permille >= HK_PRESSURE_STALLED_PERMILLE) return 0;
  if (permille == 0) return bytes;
  return bytes / HK_PRESSURE_STALLED_PERMILLE * (HK_PRESSURE_STALLED_PERMILLE - permille);
}

size_t hk_pressure_limit(const hk_pressure_t *pressure, const hk_pressure_view_t *view, size_t allowed_bytes) {
  bool has_system_limit = pressure->seen.limit_bytes > 0;
  if (!has_system_limit && view->own_limit_bytes == 0) return allowed_bytes;
  size_t bytes = allowed_bytes;
  if (view->own_limit_bytes > 0) bytes = hk_smaller(bytes, room_beside(view->own_limit_bytes, needed_by(view)));
  if (has_system_limit) bytes = hk_smaller(bytes, room_in_system(pressure, needed_by(view)));
  return lowered_by_stalls(bytes, pressure->seen.stalled_permille);
}
