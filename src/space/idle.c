/* space/idle.c - L3. See idle.h. In a child of fork the numbers may be those of a moment when a thread that is gone was
 * changing them: they decide when memory is given back and nothing else. */
#include "space/idle.h"

#include "base/units.h"
#include "policy/keep.h"
#include "policy/option.h"
#include "policy/stat.h"

/* Chosen: so much more than needed is given back at once, so that the next release does not come here again; but never
 * more than this part of what may stay. */
#define OVERSHOOT_BYTES HK_SUPERSLAB_BYTES
#define OVERSHOOT_SHARE 4

hk_idle_sum_t hk_idle_slabs;
hk_idle_sum_t hk_idle_ranges;

static struct {
  hk_keep_t keep;
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

uint64_t hk_idle_next_age_locked(void) { return ++idle.last_age; }

bool hk_idle_look_locked(uint64_t now_ms, size_t *keep_bytes) {
  hk_keep_view_t now = view(now_ms);
  hk_keep_look(&idle.keep, &now);
  size_t limit = hk_keep_limit(&idle.keep, &now);
  if (now.idle_bytes <= limit) return false;
  size_t overshoot = limit / OVERSHOOT_SHARE;
  *keep_bytes = limit - (overshoot < OVERSHOOT_BYTES ? overshoot : OVERSHOOT_BYTES);
  return true;
}

void hk_idle_note_wanted_locked(uint64_t now_ms, size_t bytes) {
  hk_keep_view_t now = view(now_ms);
  size_t regretted = hk_keep_note_wanted(&idle.keep, &now, bytes);
  if (regretted > 0) hk_stat_add(hk_stat_wanted_again, regretted);
}

void hk_idle_note_given_back_locked(size_t bytes) { hk_keep_note_given_back(&idle.keep, bytes); }

void hk_idle_forget_locked(void) { hk_keep_forget(&idle.keep); }
