/* policy/keep.c - L2. See keep.h. */
#include "policy/keep.h"

#include "base/arithmetic.h"

#define SHARE 12
#define SLACK_SHARE 2
#define SLACK_SHARE_CHEAP 1
#define WINDOW_LEAST_MS 100
#define WINDOW_MOST_MS 20000

/* Chosen: for each byte that was wanted again so many may stay. A program that frees ever more of what it has pays for every byte of it
 * with one for one, and with two for about half (docs/design.md, "Giving memory back"). */
#define EARNED_FOR_EACH 2

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

static size_t peak_of_late(const hk_keep_t *keep) { return hk_larger(keep->peak_bytes, keep->peak_before_bytes); }

size_t hk_keep_slack(const hk_keep_t *keep, const hk_keep_view_t *view) {
  return hk_larger(peak_of_late(keep) / view->terms.slack_share, view->retain_bytes);
}

/* The most that all there is may come to. */
static size_t most_bytes(const hk_keep_t *keep, const hk_keep_view_t *view) {
  return hk_add_saturating(peak_of_late(keep), hk_keep_slack(keep, view));
}

/* What lay idle above the base all through the window was not needed. When nobody looked for a whole window more,
 * nothing changed in it, and what lay there then was not needed either. */
static void end_window(hk_keep_t *keep, const hk_keep_view_t *view, bool is_long_over) {
  size_t unneeded = is_long_over ? keep->excess_bytes : keep->least_excess_bytes;
  keep->earned_bytes -= hk_smaller(unneeded, keep->earned_bytes);
  keep->least_excess_bytes = keep->excess_bytes;
  keep->peak_before_bytes = is_long_over ? keep->in_use_bytes : keep->peak_bytes;
  keep->peak_bytes = keep->in_use_bytes;
  /* What is wanted again and again, and cannot stay, is not earned for good. */
  keep->earned_bytes = hk_smaller(keep->earned_bytes, most_bytes(keep, view));
  hk_low_water_end_window(&keep->low_water);
  keep->window_start_ms = view->now_ms;
}

static void pass_parts(hk_keep_t *keep, const hk_keep_view_t *view) {
  if (view->now_ms < keep->part_start_ms) return;
  uint64_t part_ms = view->terms.window_ms / HK_KEEP_PARTS;
  uint64_t passed = (view->now_ms - keep->part_start_ms) / part_ms;
  if (passed == 0) return;
  for (size_t i = HK_KEEP_PARTS; i-- > 0;)
    keep->given_back_bytes[i] = i < passed ? 0 : keep->given_back_bytes[i - passed];
  keep->part_start_ms += passed * part_ms;
}

/* Threads read the clock before they take the lock: one may come with an earlier time than the one before it. */
static void pass_time(hk_keep_t *keep, const hk_keep_view_t *view) {
  pass_parts(keep, view);
  if (view->now_ms < keep->window_start_ms) return;
  uint64_t elapsed_ms = view->now_ms - keep->window_start_ms, window_ms = view->terms.window_ms;
  if (elapsed_ms >= window_ms) end_window(keep, view, elapsed_ms >= 2 * window_ms);
}

void hk_keep_look(hk_keep_t *keep, const hk_keep_view_t *view) {
  pass_time(keep, view);
  size_t base = hk_keep_base(view);
  size_t excess_bytes = view->idle_bytes > base ? view->idle_bytes - base : 0;
  bool is_trusted = view->terms.is_trusting && view->retain_bytes > 0 && excess_bytes > keep->excess_bytes;
  if (is_trusted) keep->earned_bytes = hk_larger(keep->earned_bytes, excess_bytes);
  keep->excess_bytes = excess_bytes;
  keep->least_excess_bytes = hk_smaller(keep->least_excess_bytes, keep->excess_bytes);
  keep->in_use_bytes = view->in_use_bytes;
  keep->peak_bytes = hk_larger(keep->peak_bytes, view->in_use_bytes);
  hk_low_water_note(&keep->low_water, view->in_use_bytes);
}

/* Who is trusted has paid for what it may keep in the end. */
static size_t earned_here(const hk_keep_t *keep, const hk_keep_view_t *view) {
  if (view->terms.is_trusting) return keep->earned_bytes;
  return hk_low_water_credit_bytes(&keep->low_water, keep->earned_bytes, view->in_use_bytes, peak_of_late(keep));
}

size_t hk_keep_limit(const hk_keep_t *keep, const hk_keep_view_t *view) {
  size_t base = hk_keep_base(view);
  size_t below_most = hk_subtract_to_zero(most_bytes(keep, view), view->in_use_bytes);
  return hk_larger(base, hk_smaller(hk_add_saturating(base, earned_here(keep, view)), below_most));
}

/* The purge thread comes when nothing has changed for long. */
void hk_keep_note_given_back(hk_keep_t *keep, const hk_keep_view_t *view, size_t bytes) {
  pass_parts(keep, view);
  keep->given_back_bytes[0] = hk_add_saturating(keep->given_back_bytes[0], bytes);
}

/* What was given back first is forgotten first, so it is regretted first. */
size_t hk_keep_note_wanted(hk_keep_t *keep, const hk_keep_view_t *view, size_t bytes) {
  pass_time(keep, view);
  if (view->retain_bytes == 0) return 0;
  size_t left = bytes;
  for (size_t i = HK_KEEP_PARTS; i-- > 0;) {
    size_t from_part = hk_smaller(left, keep->given_back_bytes[i]);
    keep->given_back_bytes[i] -= from_part;
    left -= from_part;
  }
  size_t regretted = bytes - left;
  keep->earned_bytes = hk_add_saturating(keep->earned_bytes, hk_multiply_saturating(EARNED_FOR_EACH, regretted));
  return regretted;
}

void hk_keep_forget(hk_keep_t *keep) {
  keep->earned_bytes = 0;
  for (size_t i = 0; i < HK_KEEP_PARTS; i++) keep->given_back_bytes[i] = 0;
}

#if HK_DEBUG
void hk_keep_check(const hk_keep_t *keep) {
  HK_REQUIRE(keep->least_excess_bytes <= keep->excess_bytes, "the least excess is at most the last one");
  HK_REQUIRE(keep->in_use_bytes <= keep->peak_bytes, "the peak is at least what was in use last");
}
#endif
