/* space/idle.c - L3. See idle.h. In a child of fork the numbers may be those of a moment when a thread that is gone was
 * changing them: they decide when memory is given back and nothing else. */
#include "space/idle.h"

#include "base/units.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/keep.h"
#include "policy/option.h"
#include "policy/pressure.h"
#include "policy/stat.h"

/* Chosen: so much more than needed is given back at once, so that the next release does not come here again; but never
 * more than this part of what may stay. */
#define OVERSHOOT_BYTES HK_SUPERSLAB_BYTES
#define OVERSHOOT_SHARE 4

hk_idle_sum_t hk_idle_slabs;
hk_idle_sum_t hk_idle_ranges;

static struct {
  hk_keep_t keep;
  hk_pressure_t pressure;
  uint64_t last_age;
} idle;

size_t hk_idle_total(void) {
  return hk_load_relaxed(&hk_idle_slabs.idle_bytes) + hk_load_relaxed(&hk_idle_ranges.idle_bytes);
}

static hk_keep_view_t view(uint64_t now_ms) {
  return (hk_keep_view_t){
      .now_ms = now_ms,
      .idle_bytes = hk_idle_total(),
      .in_use_bytes = hk_load_relaxed(&hk_idle_slabs.in_use_bytes) + hk_load_relaxed(&hk_idle_ranges.in_use_bytes),
      .retain_bytes = hk_option.retain,
  };
}

static hk_pressure_view_t pressure_view(const hk_keep_view_t *now) {
  return (hk_pressure_view_t){
      .now_ms = now->now_ms,
      .idle_bytes = now->idle_bytes,
      .in_use_bytes = now->in_use_bytes,
      .own_limit_bytes = hk_option.memory_limit,
  };
}

uint64_t hk_idle_next_age_locked(void) { return ++idle.last_age; }

/* How much stays of what may: a little less, so that the next release does not come here again. */
static size_t below(size_t limit) {
  size_t overshoot = limit / OVERSHOOT_SHARE;
  return limit - (overshoot < OVERSHOOT_BYTES ? overshoot : OVERSHOOT_BYTES);
}

static hk_idle_verdict_t verdict_by(size_t limit, size_t idle_bytes) {
  return (hk_idle_verdict_t){.keep_bytes = below(limit), .is_too_much = idle_bytes > limit};
}

static HK_NOINLINE hk_idle_verdict_t look_at_limit_locked(const hk_keep_view_t *now, size_t allowed) {
  hk_pressure_view_t pressed = pressure_view(now);
  hk_idle_verdict_t verdict = verdict_by(hk_pressure_limit(&idle.pressure, &pressed, allowed), now->idle_bytes);
  verdict.is_system_look_due = hk_pressure_is_due(&idle.pressure, &pressed);
  if (verdict.is_too_much && now->idle_bytes <= allowed) hk_stat_add(hk_stat_near_limit, 1);
  return verdict;
}

hk_idle_verdict_t hk_idle_look_locked(uint64_t now_ms) {
  hk_keep_view_t now = view(now_ms);
  hk_keep_look(&idle.keep, &now);
  size_t allowed = hk_keep_limit(&idle.keep, &now);
  if (HK_LIKELY(hk_pressure_is_none(&idle.pressure, hk_option.memory_limit)))
    return verdict_by(allowed, now.idle_bytes);
  return look_at_limit_locked(&now, allowed);
}

static void note_limit_locked(uint64_t now_ms, const hk_os_memory_limit_t *seen) {
  hk_keep_view_t now = view(now_ms);
  hk_pressure_view_t pressed = pressure_view(&now);
  hk_pressure_note(&idle.pressure, &pressed, seen);
}

hk_idle_verdict_t hk_idle_look_at_system(uint64_t now_ms) {
  hk_os_memory_limit_t seen;
  bool is_told = hk_os_memory_limit(&seen);
  hk_lock_acquire(hk_lock_space);
  if (is_told) note_limit_locked(now_ms, &seen);
  hk_idle_verdict_t verdict = hk_idle_look_locked(now_ms);
  hk_lock_release(hk_lock_space);
  return verdict;
}

void hk_idle_note_wanted_locked(uint64_t now_ms, size_t bytes) {
  hk_keep_view_t now = view(now_ms);
  size_t regretted = hk_keep_note_wanted(&idle.keep, &now, bytes);
  if (regretted > 0) hk_stat_add(hk_stat_wanted_again, regretted);
}

void hk_idle_note_given_back_locked(size_t bytes) { hk_keep_note_given_back(&idle.keep, bytes); }

void hk_idle_forget_locked(void) { hk_keep_forget(&idle.keep); }
