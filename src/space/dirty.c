/* space/dirty.c - L3. See dirty.h. In a child of fork the numbers may be those of a moment when a thread of the
 * parent was changing them: they decide when memory is purged and nothing else. */
#include "space/dirty.h"

#include "base/arithmetic.h"
#include "base/panic.h"
#include "base/units.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/peak.h"
#include "policy/safety.h"
#include "policy/stat.h"
#include "space/apart.h"
#include "space/purge_wakeup.h"
#include "space/recording.h"

/* Chosen: memory is purged in batches of this size, so that not every release purges. A batch is at most this part
 * of the memory that may stay. */
#define BATCH_BYTES HK_SUPERSLAB_BYTES
#define BATCH_SHARE 4

/* Chosen: after a look, an account's changes are put off and noted as one, at the time of the last of them. That holds
 * while the coarse clock shows the same ms (a tick, 1 to 10 ms) and the account's memory in use stays near its amount
 * at the look. All accounts together may differ by half of all memory in use, and by 8 MiB in any case. Each shard that
 * threads take from at once may differ by an equal part of this amount, and by a superslab at least. Within a tick the
 * clock does not tell the changes apart, and the learner decides about times many times as long (measured:
 * docs/experiments/2026-11-27-one-look-in-a-tick.md). */
#define IN_USE_CHANGE_SHARE 2
#define IN_USE_CHANGE_BYTES (4 * HK_SUPERSLAB_BYTES)

/* Chosen: the program has grown when it holds this part more than after the purge thread's last visit. */
#define GROWN_SHARE 8

/* Chosen: the least and most time between two visits of the purge thread while it has work. */
#define VISIT_MIN_MS 10
#define VISIT_MAX_MS 1000
/* Without work it only checks that the program still has other threads. */
#define VISIT_NOTHING_MS 4000

_Atomic(bool) hk_dirty_is_near_limit;
_Atomic(bool) hk_dirty_is_heap_purge_due;

/* Chosen: near a limit, a purge of heaps is due at most once in HEAPS_MIN_MS, and only when this part of the limit more
 * is in use than the last time. That level is forgotten after HEAPS_FORGET_MS: a program whose use goes up and down
 * does not lose heaps each time. */
#define HEAPS_MIN_MS 1
#define HEAPS_GROWTH_SHARE 64
#define HEAPS_FORGET_MS 100

/* Changes with each purge, each visit of the purge thread and each look at the system's limit. An account's look allows
 * nothing once this number is another one. Written under hk_lock_space, read without it. */
static _Atomic(uint32_t) look_version;

static struct {
  hk_retention_t retention; /* all zero before the first look */
  hk_peak_t peak;
  struct {
    size_t due_bytes; /* in use when the purge of heaps was last due */
    uint64_t due_ms;
  } heaps;
  /* A visit has purged memory, or found idle heaps. Idle heaps may have memory to purge once the program is quiet. */
  bool is_quiet_awaited;
  uint64_t changed_ms;  /* when memory was last taken or freed */
  uint64_t woken_ms;    /* when that first happened after a sleep */
  struct {              /* the last visit of the purge thread */
    size_t dirty_bytes; /* at its end */
    /* In use and dirty at its end; without a purge thread, when the program woke. */
    size_t held_bytes;
    uint64_t at_ms;
    uint64_t next_ms; /* when the next visit is planned */
  } visit;
  hk_retention_view_t put_off; /* what note_put_off_locked notes; a stack may have no room for it */
} dirty;

static void invalidate_looks_locked(void) { hk_bump_relaxed(&look_version, 1); }

/* Gives the retention the price of the options, which may be read after the first request. */
static HK_COLD void follow_options_locked(uint64_t now_ms) {
  hk_retention_set_price(&dirty.retention, now_ms, hk_option.mode, !hk_option_is_learning());
}

/* This function is not inline, so that its sums take no stack from the learner's calls. */
static HK_NOINLINE void set_sums(hk_retention_view_t *view) {
  hk_dirty_sums_t sums = hk_dirty_sums();
  view->in_use_bytes = sums.in_use_bytes;
  view->dirty_bytes = sums.dirty_bytes;
  view->lazy_bytes = sums.lazy_bytes;
  view->apart_bytes = hk_load_relaxed(&hk_apart_bytes);
}

/* Notes the changes that were put off, if there are any. Call it before the retention's state is used. `changed` is the
 * account that the caller is changing, which counts with the sums after its change before; NULL: none is changing. */
static void note_put_off_locked(hk_dirty_account_t *changed) {
  uint64_t last_ms = hk_dirty_take_put_off_locked();
  if (HK_LIKELY(last_ms == 0)) return;
  dirty.put_off.now_ms = last_ms;
  set_sums(&dirty.put_off);
  if (changed != NULL) {
    dirty.put_off.in_use_bytes += changed->ended_in_use_bytes - hk_load_relaxed(&changed->in_use_bytes);
    dirty.put_off.dirty_bytes += changed->ended_dirty_bytes - hk_load_relaxed(&changed->dirty_bytes);
  }
  hk_retention_note_change(&dirty.retention, &dirty.put_off);
  dirty.changed_ms = hk_larger(dirty.changed_ms, last_ms);
}

/* Follows the options where the retention has another price, or does not learn as they say. */
HK_INLINE void look_at_options_locked(uint64_t now_ms) {
  const hk_retention_t *retention = &dirty.retention;
  if (HK_UNLIKELY(!hk_retention_has_price(retention, hk_option.mode) ||
                  retention->learn.is_fixed == hk_option_is_learning()))
    follow_options_locked(now_ms);
}

static hk_retention_view_t view_locked(uint64_t now_ms) {
  look_at_options_locked(now_ms);
  hk_retention_view_t now = {
      .now_ms = now_ms,
      .retain_bytes = hk_option.retain,
      .memory_limit_bytes = hk_option.memory_limit,
      .has_purge_thread = hk_purge_wakeup_has_thread_locked(),
  };
  set_sums(&now);
  return now;
}

static size_t held(const hk_retention_view_t *now) { return hk_add_saturating(now->in_use_bytes, now->dirty_bytes); }

/* ---- How much may be dirty. */

/* Memory above a limit that is not by age is purged with a batch more, so that the next release does not purge again.
 * Memory that is too old grows by little at a time. It is purged when it is a batch, and no younger memory with it. */
static hk_purge_verdict_t verdict_by(const hk_retention_limit_t *limit, size_t dirty_bytes) {
  size_t batch = hk_smaller(limit->bytes / BATCH_SHARE, BATCH_BYTES);
  bool is_by_age = limit->cause == hk_purge_too_old;
  size_t most_bytes = hk_add_saturating(limit->bytes, is_by_age ? batch : 0);
  return (hk_purge_verdict_t){
      .keep_bytes = limit->bytes - (is_by_age ? 0 : batch),
      .most_bytes = most_bytes,
      .is_too_much = dirty_bytes > most_bytes,
      .cause = limit->cause,
  };
}

static void forget_limit_locked(void) {
  hk_store_relaxed(&hk_dirty_is_near_limit, false);
  hk_store_relaxed(&hk_dirty_is_heap_purge_due, false);
  dirty.heaps.due_bytes = 0;
}

static void note_near_limit_locked(uint64_t now_ms, const hk_pressure_view_t *pressed) {
  bool is_near = hk_pressure_is_felt(&dirty.retention.pressure, pressed);
  if (!is_near) {
    if (HK_UNLIKELY(hk_load_relaxed(&hk_dirty_is_near_limit))) forget_limit_locked();
    return;
  }
  hk_store_relaxed(&hk_dirty_is_near_limit, true);
  uint64_t since_ms = hk_subtract_to_zero(now_ms, dirty.heaps.due_ms);
  if (since_ms < HEAPS_MIN_MS) return;
  if (since_ms >= HEAPS_FORGET_MS) dirty.heaps.due_bytes = hk_smaller(dirty.heaps.due_bytes, pressed->in_use_bytes);
  size_t growth = hk_dirty_limit_bytes_locked() / HEAPS_GROWTH_SHARE;
  if (hk_subtract_to_zero(pressed->in_use_bytes, dirty.heaps.due_bytes) < growth) return;
  dirty.heaps.due_bytes = pressed->in_use_bytes;
  dirty.heaps.due_ms = now_ms;
  hk_store_relaxed(&hk_dirty_is_heap_purge_due, true);
}

static HK_NOINLINE void judge_limit_locked(const hk_retention_view_t *now, const hk_retention_limit_t *limit,
                                           hk_purge_verdict_t *verdict) {
  hk_pressure_view_t pressed = hk_retention_pressure_view(now);
  note_near_limit_locked(now->now_ms, &pressed);
  if (HK_HARDENED) verdict->is_apart_too_much = hk_apart_note_limit(&dirty.retention.pressure, &pressed);
  verdict->is_limit_look_due = hk_pressure_is_due(&dirty.retention.pressure, &pressed);
  if (verdict->is_too_much && now->dirty_bytes <= limit->unlimited_bytes) hk_stat_add(hk_stat_near_limit, 1);
}

static hk_purge_verdict_t judge_locked(const hk_retention_view_t *now) {
  hk_retention_limit_t limit = hk_retention_limit(&dirty.retention, now);
  size_t lazy_bytes = limit.cause == hk_purge_limited ? now->lazy_bytes : 0;
  hk_purge_verdict_t verdict = verdict_by(&limit, now->dirty_bytes + lazy_bytes);
  if (HK_LIKELY(hk_pressure_is_none(&dirty.retention.pressure, now->memory_limit_bytes))) {
    if (HK_UNLIKELY(hk_load_relaxed(&hk_dirty_is_near_limit))) forget_limit_locked();
    if (HK_HARDENED) hk_apart_forget_limit();
  } else {
    judge_limit_locked(now, &limit, &verdict);
  }
  return verdict;
}

/* ---- After a change. */

static bool has_grown_locked(const hk_retention_view_t *now) {
  return held(now) > hk_add_saturating(dirty.visit.held_bytes, held(now) / GROWN_SHARE);
}

static uint64_t asleep_ms(void) { return hk_price_break_even_ms(&dirty.retention.learn.price) * 2 / 5; }

static void note_awake_locked(const hk_retention_view_t *now) {
  if (now->has_purge_thread || now->now_ms < hk_add_saturating(dirty.changed_ms, asleep_ms())) return;
  dirty.woken_ms = now->now_ms;
  dirty.visit.held_bytes = held(now);
}

/* Expects a wake-up for memory that was freed since the last visit: the planned visit may be too late for it. */
static void expect_visit_locked(const hk_retention_view_t *now) {
  bool is_soon = dirty.visit.next_ms <= hk_add_saturating(now->now_ms, VISIT_MIN_MS);
  bool was_just_now = now->now_ms < hk_add_saturating(dirty.visit.at_ms, VISIT_MIN_MS);
  if (now->dirty_bytes > dirty.visit.dirty_bytes && !is_soon && !was_just_now) hk_purge_wakeup_expect_locked();
}

/* Leaves memory that is too old to the purge thread, so that threads that take or free are not delayed. Without a purge
 * thread, leaves it while the program has just woken: memory that grew too old during a sleep is likely to be requested
 * soon, even if the first request found none of its size. Leaves none when the program has grown much. */
static void leave_old_locked(const hk_retention_view_t *now, hk_purge_verdict_t *verdict) {
  if (HK_LIKELY(verdict->cause != hk_purge_too_old || !verdict->is_too_much)) return;
  bool has_just_woken = now->now_ms < hk_add_saturating(dirty.woken_ms, asleep_ms());
  if ((!now->has_purge_thread && !has_just_woken) || has_grown_locked(now)) return;
  verdict->is_too_much = false;
  if (now->has_purge_thread) expect_visit_locked(now);
}

static bool send_wakeup_locked(const hk_retention_view_t *now) {
  bool is_sent = now->dirty_bytes > hk_retention_quiet_bytes(now) && hk_purge_wakeup_send_locked();
  if (is_sent) dirty.visit.next_ms = now->now_ms;
  return is_sent;
}

bool hk_dirty_put_off_locked(hk_dirty_account_t *account, uint64_t now_ms) {
  hk_dirty_sums_t sums = hk_dirty_sums_seen_by(account);
  size_t least = hk_smaller(sums.in_use_bytes, account->look.in_use_bytes);
  size_t most = hk_larger(sums.in_use_bytes, account->look.in_use_bytes);
  bool is_same = now_ms == account->look.at_ms && hk_load_relaxed(&look_version) == account->look.version &&
                 hk_option.retain == account->look.retain_bytes &&
                 hk_option.memory_limit == account->look.memory_limit_bytes;
  if (!account->look.may_put_off || !is_same || most - least > account->look.in_use_change_bytes) return false;
  bool is_within = sums.dirty_bytes <= account->look.most_dirty_bytes &&
                   sums.in_use_bytes + sums.dirty_bytes < account->look.most_held_bytes;
  if (!is_within || hk_load_relaxed(&hk_recording_state.is_on)) return false;
  if (account->touched_bytes != 0 && account->look.is_refault_possible) return false;
  account->touched_bytes = 0;
  hk_dirty_end_change_locked(account);
  hk_store_release(&account->put_off_ms, now_ms); /* pairs with hk_dirty_take_put_off_locked: the sums come first */
  return true;
}

/* Returns the bound for a sum that an account sees as `seen`, so that the same sum of all accounts, `of_all`, stays
 * within `most`: each of `shares` shards may grow by an equal part of the rest. Memory in use has a share for each
 * shard that threads take from at once, and dirty memory one for each shard, because one thread may free what others
 * took. A shard that looks again gets a new share while the others still have theirs, and a thread may move to a shard
 * that had none. So until the clock moves, all may have up to twice `most`. */
static HK_NOINLINE size_t share_of(size_t shares, size_t seen, size_t of_all, size_t most) {
  return hk_add_saturating(seen, hk_subtract_to_zero(most, of_all) / shares);
}

/* Returns by how much the memory in use of all shards may change before the next looks. Half of that memory is too much
 * where a limit would be felt after such a growth. */
static size_t in_use_change_bytes(const hk_retention_view_t *now) {
  hk_pressure_view_t grown = hk_retention_pressure_view(now);
  size_t bytes = now->in_use_bytes / IN_USE_CHANGE_SHARE;
  grown.in_use_bytes = hk_add_saturating(grown.in_use_bytes, bytes);
  bool is_felt = bytes > IN_USE_CHANGE_BYTES && hk_pressure_is_felt(&dirty.retention.pressure, &grown);
  return is_felt ? IN_USE_CHANGE_BYTES : hk_larger(bytes, IN_USE_CHANGE_BYTES);
}

/* Returns how many bytes may be dirty before the next looks, when as much is in use as `grown` says. */
static size_t most_dirty_locked(const hk_retention_view_t *now, const hk_purge_verdict_t *verdict,
                                const hk_pressure_view_t *grown) {
  size_t most = verdict->most_bytes;
  if (now->has_purge_thread) most = hk_larger(most, now->dirty_bytes); /* the excess is too old, and left to it */
  if (hk_purge_wakeup_is_expected_locked()) most = hk_smaller(most, hk_retention_quiet_bytes(now));
  return hk_pressure_limit(&dirty.retention.pressure, grown, most);
}

/* Returns the bytes in use and dirty at which a look at the limit on memory is due, or a purge thread. */
static size_t most_held_locked(const hk_retention_view_t *now) {
  size_t most = hk_pressure_next_look_bytes(&dirty.retention.pressure, now->memory_limit_bytes);
  most = hk_subtract_to_zero(most, now->apart_bytes); /* the accounts do not count it */
  return hk_smaller(most, hk_purge_wakeup_next_look_bytes_locked(held(now)));
}

/* Decides whether the account's next changes may be put off, and how far they may go. They may not near a limit on
 * memory, nor while the verdict requires work. A program that stops after such a change keeps as much as could stay at
 * this look. This function is not inline, so that the registers that it saves take no stack from the learner's calls
 * below hk_dirty_look_locked. */
static HK_NOINLINE void allow_put_off_locked(hk_dirty_account_t *account, const hk_retention_view_t *now,
                                             const hk_purge_verdict_t *verdict) {
  size_t shards = hk_larger(hk_load_relaxed(&hk_shard_at_once), 1);
  size_t change = hk_larger(in_use_change_bytes(now) / shards, HK_SUPERSLAB_BYTES);
  hk_pressure_view_t grown = hk_retention_pressure_view(now); /* by all that may be put off */
  grown.in_use_bytes = hk_add_saturating(grown.in_use_bytes, shards * change);
  size_t most_dirty = most_dirty_locked(now, verdict, &grown);
  bool counts_lazy = now->lazy_bytes != 0 && hk_dirty_limit_bytes_locked() != 0; /* a limit counts that memory too */
  bool is_near = counts_lazy || hk_pressure_is_felt(&dirty.retention.pressure, &grown);
  size_t most_held = most_held_locked(now);
  hk_dirty_sums_t seen = hk_dirty_sums_seen_by(account);
  bool has_shard = account != &hk_dirty_extents;
  size_t dirty_shares = has_shard ? hk_larger(hk_load_relaxed(&hk_shard_used), 1) : 1;
  account->look.may_put_off = !is_near && !verdict->is_too_much && !verdict->is_limit_look_due;
  account->look.at_ms = now->now_ms;
  account->look.version = hk_load_relaxed(&look_version);
  account->look.in_use_bytes = seen.in_use_bytes;
  account->look.in_use_change_bytes = change;
  account->look.most_dirty_bytes = share_of(dirty_shares, seen.dirty_bytes, now->dirty_bytes, most_dirty);
  account->look.most_held_bytes =
      share_of(has_shard ? shards : 1, seen.in_use_bytes + seen.dirty_bytes, held(now), most_held);
  account->look.retain_bytes = now->retain_bytes;
  account->look.memory_limit_bytes = now->memory_limit_bytes;
  account->look.is_refault_possible = hk_refault_is_possible(&dirty.retention.refault);
}

static void note_touched_locked(hk_dirty_account_t *account, const hk_retention_view_t *now) {
  if (account->touched_bytes == 0) return;
  size_t refaulted = hk_retention_note_touched(&dirty.retention, now, account->touched_bytes);
  account->touched_bytes = 0;
  if (refaulted > 0) hk_stat_add(hk_stat_refaulted, refaulted);
}

static size_t purgeable_at_peak(const hk_retention_view_t *now) {
  return hk_subtract_to_zero(now->dirty_bytes + now->lazy_bytes, hk_retention_peak_bytes(now));
}

hk_purge_verdict_t hk_dirty_look_locked(hk_dirty_account_t *account, uint64_t now_ms) {
  hk_dirty_note_age_locked(account);
  note_put_off_locked(account);
  hk_retention_view_t now = view_locked(now_ms);
  note_touched_locked(account, &now);
  hk_retention_note_change(&dirty.retention, &now);
  hk_recording_note_locked(now_ms, now.in_use_bytes);
  note_awake_locked(&now);
  /* Threads may take the lock in another order than they read the clock. */
  dirty.changed_ms = hk_larger(dirty.changed_ms, now_ms);
  hk_purge_wakeup_note_locked(now_ms, held(&now));
  hk_purge_verdict_t verdict = judge_locked(&now);
  leave_old_locked(&now, &verdict);
  verdict.is_wakeup_sent = send_wakeup_locked(&now);
  allow_put_off_locked(account, &now, &verdict);
  hk_dirty_end_change_locked(account);
  verdict.is_peak_look_due = !verdict.is_too_much &&
                             hk_peak_is_due(&dirty.peak, &dirty.retention.learn.price, now_ms, purgeable_at_peak(&now));
  return verdict;
}

static void note_limit_locked(uint64_t now_ms, const hk_os_memory_limit_t *seen) {
  hk_retention_view_t now = view_locked(now_ms);
  hk_pressure_view_t pressed = hk_retention_pressure_view(&now);
  hk_pressure_note(&dirty.retention.pressure, &pressed, seen);
  invalidate_looks_locked(); /* the limit may be another one */
}

void hk_dirty_look_at_limit(uint64_t now_ms) {
  hk_os_memory_limit_t seen;
  if (!hk_os_memory_limit(&seen)) return;
  hk_lock_acquire(hk_lock_space);
  note_limit_locked(now_ms, &seen);
  hk_lock_release(hk_lock_space);
}

size_t hk_dirty_look_at_peak(uint64_t now_ms, size_t *keep_bytes) {
  size_t peak_bytes = hk_os_peak_resident_bytes();
  hk_lock_acquire(hk_lock_space);
  hk_retention_view_t now = view_locked(now_ms);
  *keep_bytes = hk_retention_peak_bytes(&now);
  size_t bytes = hk_peak_note(&dirty.peak, &dirty.retention.learn.price, now_ms, peak_bytes, purgeable_at_peak(&now));
  hk_lock_release(hk_lock_space);
  return bytes;
}

void hk_dirty_settle_peak(size_t returned_bytes, size_t purged_bytes) {
  hk_lock_acquire(hk_lock_space);
  hk_peak_settle(&dirty.peak, returned_bytes, purged_bytes);
  hk_lock_release(hk_lock_space);
}

void hk_dirty_repair(void) { dirty.peak = (hk_peak_t){0}; }

void hk_dirty_note_purged_locked(uint64_t now_ms, hk_purge_cause_t cause, size_t bytes) {
  note_put_off_locked(NULL);
  hk_retention_view_t now = view_locked(now_ms);
  hk_retention_note_purged(&dirty.retention, &now, cause, bytes);
  invalidate_looks_locked(); /* memory that is touched from now on may be the purged one */
}

void hk_dirty_forget_locked(void) {
  note_put_off_locked(NULL);
  hk_retention_forget(&dirty.retention);
}

/* ---- Without a change. */

/* Returns the time from which on the program is quiet. Chosen: three quarters of the break-even time after the last
 * change. At the balanced price that leaves half a second to purge everything within two seconds. */
static uint64_t quiet_ms(void) {
  return dirty.changed_ms + hk_price_break_even_ms(&dirty.retention.learn.price) * 3 / 4;
}

static bool is_quiet_locked(uint64_t now_ms) { return now_ms >= quiet_ms(); }

bool hk_dirty_is_quiet(uint64_t now_ms, uint64_t *since_ms) {
  hk_lock_acquire(hk_lock_space);
  note_put_off_locked(NULL);
  hk_retention_view_t now = view_locked(now_ms);
  hk_learn_note(&dirty.retention.learn, now_ms, now.in_use_bytes);
  *since_ms = dirty.changed_ms;
  bool is_quiet = is_quiet_locked(now_ms);
  hk_lock_release(hk_lock_space);
  return is_quiet;
}

uint64_t hk_dirty_asleep_ms(void) {
  hk_lock_acquire(hk_lock_space);
  uint64_t for_ms = asleep_ms();
  hk_lock_release(hk_lock_space);
  return for_ms;
}

void hk_dirty_await_quiet(void) {
  hk_lock_acquire(hk_lock_space);
  dirty.is_quiet_awaited = true;
  hk_lock_release(hk_lock_space);
}

void hk_dirty_stay_quiet(uint64_t since_ms) {
  hk_lock_acquire(hk_lock_space);
  note_put_off_locked(NULL);
  dirty.changed_ms = since_ms;
  hk_lock_release(hk_lock_space);
}

/* Returns the time until the purge thread's next visit, which leaves `left_bytes` dirty. Memory that may stay in any
 * case is not due before the program is quiet. */
static uint64_t wait_for_ms(const hk_retention_view_t *now, size_t left_bytes) {
  uint64_t due_ms;
  bool is_due =
      left_bytes > hk_retention_floor(&dirty.retention, now) && hk_learn_next_due(&dirty.retention.learn, &due_ms);
  if (!is_due || due_ms > quiet_ms()) due_ms = quiet_ms();
  uint64_t left_ms = hk_subtract_to_zero(due_ms, now->now_ms);
  return hk_smaller(hk_larger(left_ms, VISIT_MIN_MS), VISIT_MAX_MS);
}

hk_purge_verdict_t hk_dirty_visit_locked(uint64_t now_ms, uint64_t *wait_ms) {
  note_put_off_locked(NULL);
  hk_retention_view_t now = view_locked(now_ms);
  bool is_quiet = now.is_quiet = is_quiet_locked(now_ms);
  invalidate_looks_locked(); /* the purge thread may expect a wake-up from now on */
  hk_retention_note_visit(&dirty.retention, &now);
  hk_purge_verdict_t verdict = judge_locked(&now);
  size_t left_bytes = verdict.is_too_much ? hk_smaller(verdict.keep_bytes, now.dirty_bytes) : now.dirty_bytes;
  bool is_done = left_bytes <= hk_retention_quiet_bytes(&now);
  if (is_done) hk_purge_wakeup_expect_locked();
  dirty.is_quiet_awaited = !is_quiet && (verdict.is_too_much || dirty.is_quiet_awaited);
  *wait_ms = is_done && !dirty.is_quiet_awaited ? VISIT_NOTHING_MS : wait_for_ms(&now, left_bytes);
  dirty.visit.at_ms = now_ms;
  dirty.visit.next_ms = hk_add_saturating(now_ms, *wait_ms);
  return verdict;
}

void hk_dirty_end_visit(void) {
  hk_lock_acquire(hk_lock_space);
  hk_dirty_sums_t sums = hk_dirty_sums();
  dirty.visit.dirty_bytes = sums.dirty_bytes;
  dirty.visit.held_bytes = hk_add_saturating(sums.dirty_bytes, sums.in_use_bytes);
  hk_lock_release(hk_lock_space);
}

size_t hk_dirty_limit_bytes_locked(void) { return hk_retention_memory_limit(&dirty.retention, hk_option.memory_limit); }

size_t hk_dirty_limit_bytes(void) {
  hk_lock_acquire(hk_lock_space);
  size_t limit_bytes = hk_dirty_limit_bytes_locked();
  hk_lock_release(hk_lock_space);
  return limit_bytes;
}

/* ---- The state of the learner. */

void hk_dirty_set_costs_locked(uint64_t now_ms, uint64_t purge_ns, uint64_t fault_ns) {
  look_at_options_locked(now_ms);
  hk_retention_set_costs(&dirty.retention, now_ms, purge_ns, fault_ns);
}

void hk_dirty_copy_learned(hk_learn_t *copy) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  look_at_options_locked(now_ms);
  note_put_off_locked(NULL);
  *copy = dirty.retention.learn;
  hk_lock_release(hk_lock_space);
}

hk_learn_record_verdict_t hk_dirty_import_learned(const unsigned char *bytes, size_t length) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  look_at_options_locked(now_ms);
  note_put_off_locked(NULL);
  hk_learn_record_verdict_t verdict = hk_learn_import(&dirty.retention.learn, bytes, length);
  hk_lock_release(hk_lock_space);
  return verdict;
}

/* ---- The walk. */

#if HK_DEBUG

void hk_dirty_check_locked(void) {
  size_t in_use_bytes = hk_load_relaxed(&hk_dirty_extents.in_use_bytes);
  HK_REQUIRE(in_use_bytes % hk_os_page_size() == 0, "large blocks use whole pages");
  hk_retention_check(&dirty.retention);
}

#endif
