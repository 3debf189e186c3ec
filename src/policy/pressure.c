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

/* Returns the growth until the next look at a limit; 0 is none. Where nothing may be dirty, growth changes nothing. */
static size_t growth_to_look(size_t limit_bytes, size_t use_bytes) {
  size_t full = part_of(limit_bytes, HK_PRESSURE_FULL);
  if (use_bytes >= full) return SIZE_MAX;
  return hk_larger((full - use_bytes) / HK_PRESSURE_GROWTH_SHARE, limit_bytes / HK_PRESSURE_MIN_GROWTH_SHARE);
}

/* ---- The results of a look. */

static intptr_t larger_of(intptr_t a, intptr_t b) { return a > b ? a : b; }

static intptr_t most_of(const hk_pressure_beyond_t *beyond) {
  return larger_of(beyond->most_bytes, beyond->most_before_bytes);
}

static void begin_beyond(hk_pressure_beyond_t *beyond, uint64_t now_ms, intptr_t bytes) {
  *beyond = (hk_pressure_beyond_t){.period_start_ms = now_ms, .most_bytes = bytes, .most_before_bytes = bytes};
}

static void note_beyond(hk_pressure_beyond_t *beyond, uint64_t now_ms, uint64_t period_ms, intptr_t bytes) {
  uint64_t elapsed_ms = hk_subtract_to_zero(now_ms, beyond->period_start_ms);
  if (elapsed_ms >= 2 * period_ms) {
    begin_beyond(beyond, now_ms, bytes);
  } else if (elapsed_ms >= period_ms) {
    beyond->most_before_bytes = beyond->most_bytes;
    beyond->most_bytes = bytes;
    beyond->period_start_ms = now_ms;
  } else {
    beyond->most_bytes = larger_of(beyond->most_bytes, bytes);
  }
}

/* Returns the part of the memory held that can be resident. */
static size_t resident_of_held(const hk_pressure_view_t *view, const hk_os_memory_limit_t *seen) {
  return seen->anonymous_bytes == 0 ? held_by(view) : hk_smaller(held_by(view), seen->anonymous_bytes);
}

void hk_pressure_note(hk_pressure_t *pressure, const hk_pressure_view_t *view, const hk_os_memory_limit_t *seen) {
  size_t held = held_by(view);
  size_t resident = resident_of_held(view, seen);
  intptr_t in_system = (intptr_t)(seen->use_bytes - held), in_own = (intptr_t)(resident - held);
  if (!pressure->has_looked) begin_beyond(&pressure->in_own, view->now_ms, in_own);
  if (!pressure->has_looked ||
      pressure->seen.limit_bytes != seen->limit_bytes) { /* another limit counts other memory */
    begin_beyond(&pressure->in_system, view->now_ms, in_system);
  }
  note_beyond(&pressure->in_own, view->now_ms, HK_PRESSURE_OWN_PERIOD_MS, in_own);
  note_beyond(&pressure->in_system, view->now_ms, HK_PRESSURE_PERIOD_MS, in_system);
  pressure->has_looked = true;
  pressure->seen = *seen;
  size_t growth =
      hk_smaller(growth_to_look(seen->limit_bytes, seen->use_bytes), growth_to_look(view->own_limit_bytes, resident));
  if (__builtin_add_overflow(held, growth, &pressure->next_look_bytes)) pressure->next_look_bytes = SIZE_MAX;
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

/* Returns the needed memory that a limit counts. */
static size_t counted(const hk_pressure_beyond_t *beyond, size_t needed_bytes) {
  intptr_t bytes = (intptr_t)needed_bytes + most_of(beyond);
  return bytes > 0 ? (size_t)bytes : 0;
}

static size_t room_in_system(const hk_pressure_t *pressure, size_t needed_bytes) {
  const hk_os_memory_limit_t *seen = &pressure->seen;
  /* Dirty memory may not be resident, so only the reported use is certain: it says that the limit is near. */
  if (seen->use_bytes >= part_of(seen->limit_bytes, HK_PRESSURE_FULL)) return 0;
  return room_beside(seen->limit_bytes, counted(&pressure->in_system, needed_bytes));
}

static bool is_felt(size_t limit, size_t needed) { return limit > 0 && needed >= part_of(limit, HK_PRESSURE_FELT); }

bool hk_pressure_is_felt(const hk_pressure_t *pressure, const hk_pressure_view_t *view) {
  size_t needed = needed_by(view);
  return is_felt(view->own_limit_bytes, counted(&pressure->in_own, needed)) ||
         is_felt(pressure->seen.limit_bytes, counted(&pressure->in_system, needed));
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
  size_t needed = needed_by(view);
  if (view->own_limit_bytes > 0) {
    bytes = hk_smaller(bytes, room_beside(view->own_limit_bytes, counted(&pressure->in_own, needed)));
  }
  if (has_system_limit) bytes = hk_smaller(bytes, room_in_system(pressure, needed));
  return lowered_by_stalls(bytes, pressure->seen.stalled_permille);
}
