/* policy/keep.c - L2. See keep.h. */
#include "policy/keep.h"

#include "base/arithmetic.h"

#define SHARE 12
#define SLACK_SHARE 4
#define SLACK_SHARE_CHEAP 1
#define WINDOW_LEAST_MS 100
#define WINDOW_MOST_MS 20000

hk_keep_terms_t hk_keep_terms(const hk_price_t *price) {
  uint64_t break_even_ms = hk_price_break_even_ms(price);
  uint64_t dearness = hk_larger(price->ns_per_mib_second / HK_PRICE_BALANCED, 1);
  bool is_cheap = hk_price_is_cheap(price->ns_per_mib_second);
  return (hk_keep_terms_t){
      .window_ms = hk_smaller(hk_larger(break_even_ms, WINDOW_LEAST_MS), WINDOW_MOST_MS),
      .share = SHARE * dearness,
      .slack_share = is_cheap ? SLACK_SHARE_CHEAP : SLACK_SHARE,
      .is_trusting = is_cheap,
  };
}

size_t hk_keep_base(const hk_keep_view_t *view) {
  return hk_larger(view->in_use_bytes / view->terms.share, view->retain_bytes);
}

/* What lay idle above the base all through the window was not needed. When nobody looked for a whole window more,
 * nothing changed in it, and what lay there then was not needed either. */
static void end_window(hk_keep_t *keep, uint64_t now_ms, bool is_long_over) {
  size_t unneeded = is_long_over ? keep->surplus_bytes : keep->least_surplus_bytes;
  keep->earned_bytes -= hk_smaller(unneeded, keep->earned_bytes);
  keep->least_surplus_bytes = keep->surplus_bytes;
  keep->given_back_before_bytes = is_long_over ? 0 : keep->given_back_bytes;
  keep->given_back_bytes = 0;
  keep->peak_before_bytes = is_long_over ? keep->in_use_bytes : keep->peak_bytes;
  keep->peak_bytes = keep->in_use_bytes;
  keep->window_start_ms = now_ms;
}

/* Threads read the clock before they take the lock: one may come with an earlier time than the one before it. */
static void pass_time(hk_keep_t *keep, const hk_keep_view_t *view) {
  if (view->now_ms < keep->window_start_ms) return;
  uint64_t elapsed_ms = view->now_ms - keep->window_start_ms, window_ms = view->terms.window_ms;
  if (elapsed_ms >= window_ms) end_window(keep, view->now_ms, elapsed_ms >= 2 * window_ms);
}

void hk_keep_look(hk_keep_t *keep, const hk_keep_view_t *view) {
  pass_time(keep, view);
  size_t base = hk_keep_base(view);
  size_t surplus_bytes = view->idle_bytes > base ? view->idle_bytes - base : 0;
  bool is_trusted = view->terms.is_trusting && view->retain_bytes > 0 && surplus_bytes > keep->surplus_bytes;
  if (is_trusted) keep->earned_bytes = hk_larger(keep->earned_bytes, surplus_bytes);
  keep->surplus_bytes = surplus_bytes;
  keep->least_surplus_bytes = hk_smaller(keep->least_surplus_bytes, keep->surplus_bytes);
  keep->in_use_bytes = view->in_use_bytes;
  keep->peak_bytes = hk_larger(keep->peak_bytes, view->in_use_bytes);
}

static size_t peak_of_late(const hk_keep_t *keep) { return hk_larger(keep->peak_bytes, keep->peak_before_bytes); }

size_t hk_keep_slack(const hk_keep_t *keep, const hk_keep_view_t *view) {
  return hk_larger(peak_of_late(keep) / view->terms.slack_share, view->retain_bytes);
}

size_t hk_keep_limit(const hk_keep_t *keep, const hk_keep_view_t *view) {
  size_t base = hk_keep_base(view);
  size_t most = hk_add_saturating(peak_of_late(keep), hk_keep_slack(keep, view));
  size_t below_most = most > view->in_use_bytes ? most - view->in_use_bytes : 0;
  return hk_larger(base, hk_smaller(hk_add_saturating(base, keep->earned_bytes), below_most));
}

void hk_keep_note_given_back(hk_keep_t *keep, size_t bytes) {
  keep->given_back_bytes = hk_add_saturating(keep->given_back_bytes, bytes);
}

size_t hk_keep_note_wanted(hk_keep_t *keep, const hk_keep_view_t *view, size_t bytes) {
  pass_time(keep, view);
  if (view->retain_bytes == 0) return 0;
  size_t from_before = hk_smaller(bytes, keep->given_back_before_bytes);
  size_t from_now = hk_smaller(bytes - from_before, keep->given_back_bytes);
  keep->given_back_before_bytes -= from_before;
  keep->given_back_bytes -= from_now;
  keep->earned_bytes = hk_add_saturating(keep->earned_bytes, from_before + from_now);
  return from_before + from_now;
}

void hk_keep_forget(hk_keep_t *keep) {
  keep->earned_bytes = 0;
  keep->given_back_bytes = keep->given_back_before_bytes = 0;
}
