/* space/idle.c - L3. See idle.h. In a child of fork the numbers may be those of a moment when a thread that is gone was
 * changing them: they decide when memory is given back and nothing else. */
#include "space/idle.h"

#include "base/arithmetic.h"
#include "base/panic.h"
#include "base/units.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/keep.h"
#include "policy/option.h"
#include "policy/pressure.h"
#include "policy/slack.h"
#include "policy/stat.h"
#include "space/purge_wakeup.h"
#include "space/recording.h"

/* Chosen: memory is given back in batches of so much, so that not every release comes here; but never of more than this
 * part of what may stay. */
#define BATCH_BYTES HK_SUPERSLAB_BYTES
#define BATCH_SHARE 4

/* Chosen: what a quiet program keeps is too little to be worth a visit: this part of what is in use, or so much. The
 * same part comes on top of what may stay for its time, if it does not fit (policy/slack.h). */
#define QUIET_SHARE 16
#define QUIET_BYTES HK_MIB

/* Chosen: so much more than after the purge thread's last visit is more: this part of what is held. */
#define GROWN_SHARE 8

/* Chosen: the purge thread looks no more often, and no less while it has something to look at. */
#define VISIT_LEAST_MS 10
#define VISIT_MOST_MS 1000
/* With nothing to do it only sees to it that the program still has other threads. */
#define VISIT_NOTHING_MS 4000

hk_idle_sum_t hk_idle_slabs;
hk_idle_sum_t hk_idle_extents;
_Atomic(size_t) hk_idle_lazy_bytes;
_Atomic(bool) hk_idle_is_near_limit;
_Atomic(bool) hk_idle_wants_heaps;

/* Chosen: near a limit, heaps are wanted no more often, and not before this part of it more is in use than the last
 * time. That is forgotten after a while: a program whose use goes up and down does not lose heaps each time. */
#define HEAPS_LEAST_MS 1
#define HEAPS_GROWTH_SHARE 64
#define HEAPS_FORGET_MS 100

static struct {
  hk_learn_t learn; /* all zero before the first look */
  hk_keep_terms_t terms;
  hk_keep_t keep;
  hk_slack_t slack;
  hk_pressure_t pressure;
  struct {
    size_t wanted_bytes; /* in use when heaps were wanted last */
    uint64_t wanted_ms;
  } heaps;
  bool is_quiet_awaited; /* what was idle is given back, and the heaps may have some too */
  uint64_t changed_ms;   /* when something was taken or freed last */
  struct {               /* of the purge thread, its last one */
    size_t idle_bytes;   /* that it left */
    size_t held_bytes;   /* the same, and what was in use */
    uint64_t at_ms;
    uint64_t next_ms; /* when it means to come again */
  } visit;
  uint64_t last_age;
} idle;

size_t hk_idle_total(void) {
  return hk_load_relaxed(&hk_idle_slabs.idle_bytes) + hk_load_relaxed(&hk_idle_extents.idle_bytes);
}

size_t hk_idle_in_use(void) {
  return hk_load_relaxed(&hk_idle_slabs.in_use_bytes) + hk_load_relaxed(&hk_idle_extents.in_use_bytes);
}

static bool is_fixed(void) { return hk_option.learn != hk_learn_on; }

/* The options may be read after the first request. The terms come first: a child of fork that finds the learner to have
 * its price does not come here again. */
static HK_COLD void follow_options_locked(uint64_t now_ms) {
  bool has_price = idle.learn.price.ns_per_mib_second != 0 ? hk_learn_set_price(&idle.learn, now_ms, hk_option.mode)
                                                           : hk_learn_init(&idle.learn, now_ms, hk_option.mode);
  if (has_price) idle.terms = hk_keep_terms(&idle.learn.price);
  hk_learn_fix(&idle.learn, is_fixed());
}

static hk_keep_view_t view_locked(uint64_t now_ms) {
  if (HK_UNLIKELY(idle.learn.price.ns_per_mib_second != hk_option.mode || idle.learn.is_fixed != is_fixed()))
    follow_options_locked(now_ms);
  hk_keep_view_t now = {
      .now_ms = now_ms,
      .idle_bytes = hk_idle_total(),
      .in_use_bytes = hk_idle_in_use(),
      .retain_bytes = hk_option.retain,
      .terms = idle.terms,
  };
  now.terms.is_trusting = now.terms.is_trusting && !hk_purge_wakeup_is_received_locked(); /* where time-outs decide */
  return now;
}

static hk_pressure_view_t pressure_view(const hk_keep_view_t *now) {
  return (hk_pressure_view_t){
      .now_ms = now->now_ms,
      .idle_bytes = now->idle_bytes,
      .in_use_bytes = now->in_use_bytes,
      .own_limit_bytes = hk_option.memory_limit,
  };
}

static size_t held(const hk_keep_view_t *now) { return hk_add_saturating(now->in_use_bytes, now->idle_bytes); }

uint64_t hk_idle_next_age_locked(void) { return ++idle.last_age; }

/* ---- How much may be idle. */

static size_t quiet_limit(const hk_keep_view_t *now) {
  return hk_larger(now->in_use_bytes / QUIET_SHARE, hk_smaller(now->retain_bytes, QUIET_BYTES));
}

typedef struct {
  size_t bytes;
  hk_idle_cause_t cause; /* why what is beyond has to go */
} allowance_t;

/* Of what does not fit: what is young, within the slack, or in any case the part that a quiet program keeps. */
static size_t slack_limit_locked(const hk_keep_view_t *now) {
  size_t most = hk_keep_slack(&idle.keep, now);
  return hk_larger(now->in_use_bytes / QUIET_SHARE, hk_smaller(hk_slack_recent_bytes(&idle.slack), most));
}

/* What has not been idle for its time yet may stay where the purge thread comes when the time is over; and what is as
 * old, but was wanted again too soon after such went: free memory does not always have the size that is wanted. Who
 * wants nothing to be retained is not asked to wait. */
static allowance_t allowed_locked(const hk_keep_view_t *now) {
  size_t earned_limit = hk_keep_limit(&idle.keep, now);
  if (!hk_purge_wakeup_is_received_locked() || now->retain_bytes == 0)
    return (allowance_t){earned_limit, hk_idle_too_much};
  if (now->idle_bytes <= earned_limit) return (allowance_t){earned_limit, hk_idle_too_much};
  size_t young = hk_add_saturating(hk_learn_keep_bytes(&idle.learn), slack_limit_locked(now));
  return (allowance_t){hk_larger(earned_limit, young), young > earned_limit ? hk_idle_too_old : hk_idle_too_much};
}

/* Where there is too much, a batch is given back at once. What is too old is so by a little more all the time: it is a
 * batch before it goes, and nothing younger goes with it. */
static hk_idle_verdict_t verdict_by(allowance_t allowed, size_t idle_bytes) {
  size_t batch = hk_smaller(allowed.bytes / BATCH_SHARE, BATCH_BYTES);
  bool is_by_age = allowed.cause == hk_idle_too_old;
  return (hk_idle_verdict_t){
      .keep_bytes = allowed.bytes - (is_by_age ? 0 : batch),
      .is_too_much = idle_bytes > hk_add_saturating(allowed.bytes, is_by_age ? batch : 0),
      .cause = allowed.cause,
  };
}

static void forget_limit_locked(void) {
  hk_store_relaxed(&hk_idle_is_near_limit, false);
  hk_store_relaxed(&hk_idle_wants_heaps, false);
  idle.heaps.wanted_bytes = 0;
}

static void note_near_limit_locked(uint64_t now_ms, const hk_pressure_view_t *pressed) {
  bool is_near = hk_pressure_is_felt(&idle.pressure, pressed);
  if (!is_near) {
    if (HK_UNLIKELY(hk_load_relaxed(&hk_idle_is_near_limit))) forget_limit_locked();
    return;
  }
  hk_store_relaxed(&hk_idle_is_near_limit, true);
  uint64_t since_ms = hk_subtract_to_zero(now_ms, idle.heaps.wanted_ms);
  if (since_ms < HEAPS_LEAST_MS) return;
  if (since_ms >= HEAPS_FORGET_MS) idle.heaps.wanted_bytes = hk_smaller(idle.heaps.wanted_bytes, pressed->in_use_bytes);
  size_t growth = hk_idle_limit_bytes_locked() / HEAPS_GROWTH_SHARE;
  if (hk_subtract_to_zero(pressed->in_use_bytes, idle.heaps.wanted_bytes) < growth) return;
  idle.heaps.wanted_bytes = pressed->in_use_bytes;
  idle.heaps.wanted_ms = now_ms;
  hk_store_relaxed(&hk_idle_wants_heaps, true);
}

/* What was given back lazily may be resident, and the limit is on that. */
static HK_NOINLINE hk_idle_verdict_t look_at_limit_locked(const hk_keep_view_t *now, allowance_t allowed) {
  hk_pressure_view_t pressed = pressure_view(now);
  size_t lazy = hk_load_relaxed(&hk_idle_lazy_bytes), most = hk_add_saturating(allowed.bytes, lazy);
  size_t limit = hk_pressure_limit(&idle.pressure, &pressed, most);
  note_near_limit_locked(now->now_ms, &pressed);
  hk_idle_verdict_t verdict = limit < most ? verdict_by((allowance_t){limit, hk_idle_limited}, now->idle_bytes + lazy)
                                           : verdict_by(allowed, now->idle_bytes);
  verdict.is_system_look_due = hk_pressure_is_due(&idle.pressure, &pressed);
  if (verdict.is_too_much && now->idle_bytes <= allowed.bytes) hk_stat_add(hk_stat_near_limit, 1);
  return verdict;
}

static hk_idle_verdict_t judge_locked(const hk_keep_view_t *now, allowance_t allowed) {
  if (HK_LIKELY(hk_pressure_is_none(&idle.pressure, hk_option.memory_limit))) {
    if (HK_UNLIKELY(hk_load_relaxed(&hk_idle_is_near_limit))) forget_limit_locked();
    return verdict_by(allowed, now->idle_bytes);
  }
  return look_at_limit_locked(now, allowed);
}

static void note_slack_locked(const hk_keep_view_t *now) {
  size_t level_bytes = hk_level_idle_bytes(&idle.learn.level);
  hk_slack_note(&idle.slack, now->now_ms, now->terms.window_ms, now->idle_bytes, level_bytes);
}

/* ---- When something has changed. */

static bool has_grown_locked(const hk_keep_view_t *now) {
  return held(now) > hk_add_saturating(idle.visit.held_bytes, held(now) / GROWN_SHARE);
}

/* What is too old is left to the purge thread, unless much more was mapped beside it. Who takes or frees has no time to
 * lose; and memory that grew too old while the program slept is about to be wanted when it wakes up, also where the
 * first request found none of its size. The purge thread knows when it has to come, but for what was freed meanwhile:
 * for that it is called. */
static void leave_to_visit_locked(const hk_keep_view_t *now, hk_idle_verdict_t *verdict) {
  if (HK_LIKELY(verdict->cause != hk_idle_too_old || !verdict->is_too_much)) return;
  if (has_grown_locked(now)) return;
  verdict->is_too_much = false;
  bool is_soon = idle.visit.next_ms <= hk_add_saturating(now->now_ms, VISIT_LEAST_MS);
  bool was_just_now = now->now_ms < hk_add_saturating(idle.visit.at_ms, VISIT_LEAST_MS);
  if (now->idle_bytes > idle.visit.idle_bytes && !is_soon && !was_just_now) hk_purge_wakeup_expect_locked();
}

static bool ring_locked(const hk_keep_view_t *now) {
  bool is_rung = now->idle_bytes > quiet_limit(now) && hk_purge_wakeup_send_locked();
  if (is_rung) idle.visit.next_ms = now->now_ms;
  return is_rung;
}

hk_idle_verdict_t hk_idle_look_locked(uint64_t now_ms) {
  hk_keep_view_t now = view_locked(now_ms);
  hk_keep_look(&idle.keep, &now);
  hk_learn_note(&idle.learn, now_ms, now.in_use_bytes);
  note_slack_locked(&now);
  hk_recording_note_locked(now_ms, now.in_use_bytes);
  idle.changed_ms = hk_larger(idle.changed_ms, now_ms); /* who read the clock first may get the lock last */
  hk_purge_wakeup_note_locked(now_ms, held(&now));
  hk_idle_verdict_t verdict = judge_locked(&now, allowed_locked(&now));
  leave_to_visit_locked(&now, &verdict);
  verdict.is_wakeup_sent = ring_locked(&now);
  return verdict;
}

static void note_limit_locked(uint64_t now_ms, const hk_os_memory_limit_t *seen) {
  hk_keep_view_t now = view_locked(now_ms);
  hk_pressure_view_t pressed = pressure_view(&now);
  hk_pressure_note(&idle.pressure, &pressed, seen);
}

void hk_idle_ask_system(uint64_t now_ms) {
  hk_os_memory_limit_t seen;
  if (!hk_os_memory_limit(&seen)) return;
  hk_lock_acquire(hk_lock_space);
  note_limit_locked(now_ms, &seen);
  hk_lock_release(hk_lock_space);
}

void hk_idle_note_wanted_locked(uint64_t now_ms, size_t bytes) {
  hk_keep_view_t now = view_locked(now_ms);
  size_t regretted = hk_keep_note_wanted(&idle.keep, &now, bytes);
  if (regretted > 0) hk_stat_add(hk_stat_refaulted, regretted);
}

void hk_idle_note_given_back_locked(uint64_t now_ms, hk_idle_cause_t cause, size_t bytes) {
  hk_keep_view_t now = view_locked(now_ms);
  if (cause != hk_idle_asked) hk_keep_note_given_back(&idle.keep, &now, bytes);
  size_t level_bytes = hk_level_idle_bytes(&idle.learn.level);
  size_t stays_bytes = cause == hk_idle_too_old ? hk_learn_keep_bytes(&idle.learn) : 0;
  hk_slack_note_given_back(&idle.slack, bytes, hk_subtract_to_zero(level_bytes, stays_bytes));
}

void hk_idle_forget_locked(void) { hk_keep_forget(&idle.keep); }

/* ---- When nothing has. */

/* When the program will be quiet, or has become so. Chosen: three quarters of the break-even time, which at the
 * balanced price leaves half a second to give everything back within two. */
static uint64_t quiet_ms(void) { return idle.changed_ms + hk_price_break_even_ms(&idle.learn.price) * 3 / 4; }

static bool is_quiet_locked(uint64_t now_ms) { return now_ms >= quiet_ms(); }

bool hk_idle_is_quiet(uint64_t now_ms, uint64_t *since_ms) {
  hk_lock_acquire(hk_lock_space);
  hk_keep_view_t now = view_locked(now_ms);
  hk_learn_note(&idle.learn, now_ms, now.in_use_bytes);
  *since_ms = idle.changed_ms;
  bool is_quiet = is_quiet_locked(now_ms);
  hk_lock_release(hk_lock_space);
  return is_quiet;
}

uint64_t hk_idle_asleep_ms(void) {
  hk_lock_acquire(hk_lock_space);
  uint64_t asleep_ms = hk_price_break_even_ms(&idle.learn.price) * 2 / 5;
  hk_lock_release(hk_lock_space);
  return asleep_ms;
}

void hk_idle_stay_quiet(uint64_t since_ms) {
  hk_lock_acquire(hk_lock_space);
  idle.changed_ms = since_ms;
  hk_lock_release(hk_lock_space);
}

/* Of what may stay in any case nothing is due before the program is quiet. */
static uint64_t wait_for_ms(const hk_keep_view_t *now, size_t left_bytes) {
  uint64_t due_ms;
  bool is_due = left_bytes > hk_keep_base(now) && hk_learn_next_due(&idle.learn, &due_ms);
  if (!is_due || due_ms > quiet_ms()) due_ms = quiet_ms();
  uint64_t left_ms = hk_subtract_to_zero(due_ms, now->now_ms);
  return hk_smaller(hk_larger(left_ms, VISIT_LEAST_MS), VISIT_MOST_MS);
}

hk_idle_verdict_t hk_idle_visit_locked(uint64_t now_ms, uint64_t *wait_ms) {
  hk_keep_view_t now = view_locked(now_ms);
  bool is_quiet = is_quiet_locked(now_ms);
  note_slack_locked(&now);
  hk_idle_verdict_t verdict =
      judge_locked(&now, is_quiet ? (allowance_t){quiet_limit(&now), hk_idle_too_much} : allowed_locked(&now));
  size_t left_bytes = verdict.is_too_much ? hk_smaller(verdict.keep_bytes, now.idle_bytes) : now.idle_bytes;
  bool is_done = left_bytes <= quiet_limit(&now);
  if (is_done) hk_purge_wakeup_expect_locked();
  idle.is_quiet_awaited = !is_quiet && (verdict.is_too_much || idle.is_quiet_awaited);
  *wait_ms = is_done && !idle.is_quiet_awaited ? VISIT_NOTHING_MS : wait_for_ms(&now, left_bytes);
  idle.visit.at_ms = now_ms;
  idle.visit.next_ms = hk_add_saturating(now_ms, *wait_ms);
  return verdict;
}

void hk_idle_end_visit(void) {
  hk_lock_acquire(hk_lock_space);
  idle.visit.idle_bytes = hk_idle_total();
  idle.visit.held_bytes = hk_add_saturating(idle.visit.idle_bytes, hk_idle_in_use());
  hk_lock_release(hk_lock_space);
}

size_t hk_idle_limit_bytes_locked(void) {
  size_t seen = idle.pressure.seen.limit_bytes, own = hk_option.memory_limit;
  if (seen == 0 || own == 0) return hk_larger(seen, own);
  return hk_smaller(seen, own);
}

size_t hk_idle_limit_bytes(void) {
  hk_lock_acquire(hk_lock_space);
  size_t limit_bytes = hk_idle_limit_bytes_locked();
  hk_lock_release(hk_lock_space);
  return limit_bytes;
}

/* ---- What was learned. */

void hk_idle_copy_learned(hk_learn_t *copy) {
  hk_lock_acquire(hk_lock_space);
  (void)view_locked(hk_os_coarse_ms());
  *copy = idle.learn;
  hk_lock_release(hk_lock_space);
}

hk_learn_record_verdict_t hk_idle_import_learned(const unsigned char *bytes, size_t length) {
  hk_lock_acquire(hk_lock_space);
  (void)view_locked(hk_os_coarse_ms());
  hk_learn_record_verdict_t verdict = hk_learn_import(&idle.learn, bytes, length);
  hk_lock_release(hk_lock_space);
  return verdict;
}

/* ---- The walk. */

#if HK_DEBUG

void hk_idle_check_locked(void) {
  size_t in_use_bytes = hk_load_relaxed(&hk_idle_extents.in_use_bytes);
  HK_REQUIRE(in_use_bytes % hk_os_page_size() == 0, "what big blocks use is whole pages");
  hk_keep_check(&idle.keep);
  hk_slack_check(&idle.slack);
  hk_level_check(&idle.learn.level);
}

#endif
