/* policy/keep.c - L2. See keep.h. */
#include "policy/keep.h"

#include <stdbool.h>

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static size_t add_saturating(size_t a, size_t b) {
  size_t sum;
  return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

static size_t base_limit(const hk_keep_view_t *view) {
  return larger(view->in_use_bytes / HK_KEEP_SHARE, view->retain_bytes);
}

/* What lay idle above the base all through the window was not needed. When nobody looked for a whole window more,
 * nothing changed in it, and what lay there then was not needed either. */
static void end_window(hk_keep_t *keep, uint64_t now_ms, bool is_long_over) {
  size_t unneeded = is_long_over ? keep->surplus_bytes : keep->least_surplus_bytes;
  keep->earned_bytes -= smaller(unneeded, keep->earned_bytes);
  keep->least_surplus_bytes = keep->surplus_bytes;
  keep->given_back_before_bytes = is_long_over ? 0 : keep->given_back_bytes;
  keep->given_back_bytes = 0;
  keep->peak_before_bytes = is_long_over ? keep->in_use_bytes : keep->peak_bytes;
  keep->peak_bytes = keep->in_use_bytes;
  keep->window_start_ms = now_ms;
}

/* Threads read the clock before they take the lock: one may come with an earlier time than the one before it. */
static void pass_time(hk_keep_t *keep, uint64_t now_ms) {
  if (now_ms < keep->window_start_ms) return;
  uint64_t elapsed_ms = now_ms - keep->window_start_ms;
  if (elapsed_ms >= HK_KEEP_WINDOW_MS) end_window(keep, now_ms, elapsed_ms >= 2 * HK_KEEP_WINDOW_MS);
}

void hk_keep_look(hk_keep_t *keep, const hk_keep_view_t *view) {
  pass_time(keep, view->now_ms);
  size_t base = base_limit(view);
  keep->surplus_bytes = view->idle_bytes > base ? view->idle_bytes - base : 0;
  keep->least_surplus_bytes = smaller(keep->least_surplus_bytes, keep->surplus_bytes);
  keep->in_use_bytes = view->in_use_bytes;
  keep->peak_bytes = larger(keep->peak_bytes, view->in_use_bytes);
}

size_t hk_keep_limit(const hk_keep_t *keep, const hk_keep_view_t *view) {
  size_t base = base_limit(view);
  size_t peak = larger(keep->peak_bytes, keep->peak_before_bytes);
  size_t most = add_saturating(peak, larger(peak / HK_KEEP_SLACK_SHARE, view->retain_bytes));
  size_t below_most = most > view->in_use_bytes ? most - view->in_use_bytes : 0;
  return larger(base, smaller(add_saturating(base, keep->earned_bytes), below_most));
}

void hk_keep_note_given_back(hk_keep_t *keep, size_t bytes) {
  keep->given_back_bytes = add_saturating(keep->given_back_bytes, bytes);
}

size_t hk_keep_note_wanted(hk_keep_t *keep, const hk_keep_view_t *view, size_t bytes) {
  pass_time(keep, view->now_ms);
  if (view->retain_bytes == 0) return 0;
  size_t from_before = smaller(bytes, keep->given_back_before_bytes);
  size_t from_now = smaller(bytes - from_before, keep->given_back_bytes);
  keep->given_back_before_bytes -= from_before;
  keep->given_back_bytes -= from_now;
  keep->earned_bytes = add_saturating(keep->earned_bytes, from_before + from_now);
  return from_before + from_now;
}

void hk_keep_forget(hk_keep_t *keep) {
  keep->earned_bytes = 0;
  keep->given_back_bytes = keep->given_back_before_bytes = 0;
}
