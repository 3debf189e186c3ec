/* policy/retention.c - L2. See retention.h. The formula of hk_retention_limit:
 *
 *   floor  = max(retain, in use / share)
 *   aged   = dirty memory that the learned time-outs keep, by its age
 *   peak   = in use + aged
 *   slack  = max(in use / 16, min(recent fragmentation, max(peak / slack share, retain)))
 *   credit = without a purge thread, for refaults, as deep as the program fell before; else unlimited
 *   limit  = min(room beside a memory limit, max(floor, min(aged + slack, floor + credit)))
 *
 * A program with retain=0 keeps in use / share. A quiet program keeps hk_retention_quiet_bytes when the purge thread
 * visits it. The shares follow from the price of memory, and where memory is cheap, credit is unlimited
 * (hk_retention_terms). Near a memory limit the limit counts lazily purged memory too.
 */
#include "policy/retention.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/units.h"

/* Chosen: see hk_retention_terms_t. */
#define SLACK_SHARE 2
#define SLACK_SHARE_CHEAP 1
#define WINDOW_MIN_MS 100
#define WINDOW_MAX_MS 20000

/* Chosen: less dirty memory than this part of the memory in use, or than this many bytes, is not worth a visit to a
 * quiet program. The same part is the least fragmentation slack. */
#define QUIET_SHARE 16
#define QUIET_BYTES HK_MIB

/* Chosen: this part of what the option `retain` lets stay, stays as the process's peak rises, too. */
#define PEAK_RETAIN_SHARE 8

hk_retention_terms_t hk_retention_terms(const hk_price_t *price) {
  uint64_t break_even_ms = hk_price_break_even_ms(price);
  bool is_cheap = hk_price_is_cheap(price->ns_per_mib_second);
  return (hk_retention_terms_t){
      .window_ms = hk_smaller(hk_larger(break_even_ms, WINDOW_MIN_MS), WINDOW_MAX_MS),
      .share = hk_retention_share(price->ns_per_mib_second),
      .slack_share = is_cheap ? SLACK_SHARE_CHEAP : SLACK_SHARE,
      .has_unlimited_credit = is_cheap,
  };
}

size_t hk_retention_quiet_bytes(const hk_retention_view_t *view) {
  return hk_larger(view->in_use_bytes / QUIET_SHARE, hk_smaller(view->retain_bytes, QUIET_BYTES));
}

size_t hk_retention_peak_bytes(const hk_retention_view_t *view) {
  return hk_larger(view->in_use_bytes / QUIET_SHARE, view->retain_bytes / PEAK_RETAIN_SHARE);
}

size_t hk_retention_floor(const hk_retention_t *retention, const hk_retention_view_t *view) {
  return hk_larger(view->in_use_bytes / retention->terms.share, view->retain_bytes);
}

hk_pressure_view_t hk_retention_pressure_view(const hk_retention_view_t *view) {
  return (hk_pressure_view_t){
      .now_ms = view->now_ms,
      .dirty_bytes = view->dirty_bytes,
      .in_use_bytes = view->in_use_bytes,
      .apart_bytes = view->apart_bytes,
      .own_limit_bytes = view->memory_limit_bytes,
  };
}

/* Bounds the limit near a memory limit, which counts resident memory: lazily purged memory may be resident. */
static hk_retention_limit_t bounded(const hk_retention_t *retention, const hk_retention_view_t *view, size_t bytes,
                                    hk_purge_cause_t cause) {
  hk_retention_limit_t limit = {bytes, bytes, cause};
  if (HK_LIKELY(hk_pressure_is_none(&retention->pressure, view->memory_limit_bytes))) return limit;
  hk_pressure_view_t pressed = hk_retention_pressure_view(view);
  size_t most = hk_add_saturating(bytes, view->lazy_bytes);
  size_t room = hk_pressure_limit(&retention->pressure, &pressed, most);
  return room < most ? (hk_retention_limit_t){room, bytes, hk_purge_limited} : limit;
}

/* Sums over all ages for `aged` only where it can change the result. */
hk_retention_limit_t hk_retention_limit(const hk_retention_t *retention, const hk_retention_view_t *view) {
  if (view->is_quiet) return bounded(retention, view, hk_retention_quiet_bytes(view), hk_purge_too_much);
  size_t floor = hk_retention_floor(retention, view);
  if (view->dirty_bytes <= floor || view->retain_bytes == 0) return bounded(retention, view, floor, hk_purge_too_much);
  size_t aged = hk_learn_kept_bytes(&retention->learn), peak = hk_add_saturating(view->in_use_bytes, aged);
  size_t fragments = hk_slack_recent_bytes(&retention->slack);
  size_t most_slack = hk_larger(peak / retention->terms.slack_share, view->retain_bytes);
  size_t slack = hk_larger(view->in_use_bytes / QUIET_SHARE, hk_smaller(fragments, most_slack));
  size_t wanted = hk_add_saturating(aged, slack), credited = SIZE_MAX;
  if (!view->has_purge_thread && !retention->terms.has_unlimited_credit)
    credited = hk_add_saturating(floor, hk_low_water_credit_bytes(&retention->low_water, view->in_use_bytes, peak));
  bool is_by_age = wanted > floor && wanted <= credited && fragments <= most_slack;
  size_t bytes = hk_larger(floor, hk_smaller(wanted, credited));
  return bounded(retention, view, bytes, is_by_age ? hk_purge_too_old : hk_purge_too_much);
}

/* Sets the terms after the learner has its price. */
void hk_retention_set_price(hk_retention_t *retention, uint64_t now_ms, uint64_t ns_per_mib_second, bool is_fixed) {
  hk_learn_t *learn = &retention->learn;
  bool has_price = learn->price.ns_per_mib_second != 0 ? hk_learn_set_price(learn, now_ms, ns_per_mib_second)
                                                       : hk_learn_init(learn, now_ms, ns_per_mib_second);
  if (has_price) retention->terms = hk_retention_terms(&learn->price);
  hk_learn_fix(learn, is_fixed);
}

void hk_retention_set_costs(hk_retention_t *retention, uint64_t now_ms, uint64_t purge_ns, uint64_t fault_ns) {
  hk_learn_set_costs(&retention->learn, now_ms, purge_ns, fault_ns);
  retention->terms = hk_retention_terms(&retention->learn.price);
}

void hk_retention_note_visit(hk_retention_t *retention, const hk_retention_view_t *view) {
  size_t level_bytes = hk_level_dirty_bytes(&retention->learn.level);
  hk_slack_note(&retention->slack, view->now_ms, retention->terms.window_ms, view->dirty_bytes, level_bytes);
}

void hk_retention_note_change(hk_retention_t *retention, const hk_retention_view_t *view) {
  uint64_t now_ms = view->now_ms, window_ms = retention->terms.window_ms;
  size_t returning_bytes = hk_level_returning_bytes(&retention->learn.level, now_ms, window_ms, view->in_use_bytes);
  hk_low_water_note(&retention->low_water, now_ms, window_ms, view->in_use_bytes, returning_bytes);
  hk_learn_note(&retention->learn, now_ms, view->in_use_bytes);
  hk_retention_note_visit(retention, view);
}

void hk_retention_note_purged(hk_retention_t *retention, const hk_retention_view_t *view, hk_purge_cause_t cause,
                              size_t bytes) {
  if (cause != hk_purge_requested)
    hk_refault_note_purged(&retention->refault, view->now_ms, retention->terms.window_ms, bytes);
  size_t level_bytes = hk_level_dirty_bytes(&retention->learn.level);
  size_t stays_bytes = cause == hk_purge_too_old ? hk_learn_kept_bytes(&retention->learn) : 0;
  hk_slack_note_purged(&retention->slack, bytes, hk_subtract_to_zero(level_bytes, stays_bytes));
}

size_t hk_retention_note_touched(hk_retention_t *retention, const hk_retention_view_t *view, size_t bytes) {
  if (view->retain_bytes == 0) return 0;
  size_t refaulted = hk_refault_note_touched(&retention->refault, view->now_ms, retention->terms.window_ms, bytes);
  hk_low_water_note_refault(&retention->low_water, refaulted);
  return refaulted;
}

void hk_retention_forget(hk_retention_t *retention) {
  memset(&retention->low_water, 0, sizeof retention->low_water);
  hk_refault_forget(&retention->refault);
}

size_t hk_retention_memory_limit(const hk_retention_t *retention, size_t option_bytes) {
  size_t seen = retention->pressure.seen.limit_bytes;
  if (seen == 0 || option_bytes == 0) return hk_larger(seen, option_bytes);
  return hk_smaller(seen, option_bytes);
}

#if HK_DEBUG
void hk_retention_check(const hk_retention_t *retention) {
  hk_slack_check(&retention->slack);
  hk_level_check(&retention->learn.level);
}
#endif
