/* policy/learn.c - L2. See learn.h. */
#include "policy/learn.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/units.h"

/* ---- Chosen by replaying the traces of bench/learn_traces: docs/experiments/2026-11-22-learn-epochs.md,
 * 2026-11-22-learn-young-programs.md and 2026-11-24-learn-large-stakes.md have the trials. */

/* Gaps of an epoch. The first epochs have 1, 2, 4 and 8: an early result is worth more. */
#define EPOCH_GAPS 16u
/* While memory is dirty, an epoch also ends when keeping memory has cost EPOCH_STAKES usual stakes. That is after
 * 1/32 of the break-even time at the earliest and 1/2 at the latest. With fewer stakes many an epoch ends within a
 * usual gap, and too much is purged. With more it is late for a program that ends soon. */
#define EPOCH_STAKES 2u
#define EPOCH_MIN_SHARE 32u
#define EPOCH_SHARE 2u
/* The usual stake is unknown in the first epochs, or that of a few small gaps: each takes this part of the break-even
 * time. */
#define FIRST_EPOCHS 8u
#define FIRST_EPOCH_SHARE 8u
/* From the program's start, memory is not divided for this part of the break-even time: no memory can have been dirty
 * for longer than the program has run, so short gaps look like long ones. */
#define YOUNG_SHARE 2u
/* The stake for the shares is at least this part of the cost of purging the undecided dirty memory. With a smaller part
 * more than half of much memory is purged while it may return as soon as usual. */
#define UNDECIDED_SHARE 8u
/* A frozen leader keeps all memory only while purging the undecided memory costs at most this number of usual stakes:
 * much memory may follow thousands of small gaps. */
#define THAW_STAKES 4u
/* The usual stake is the mean of this number of epochs. */
#define USUAL_EPOCHS 16u
/* An epoch with the usual stake takes this part of the debts away. */
#define FORGET_SHARE UINT64_C(20)
/* A new leader must owe less than the leader by this part. */
#define HYSTERESIS_SHARE 64u
/* The leader is frozen after epochs of this weight without another leader. */
#define SETTLED_EPOCHS UINT64_C(128)
/* The leader costs more than expected when it does so by more than this part. */
#define CANARY_SHARE 16u
/* After epochs of this weight without a better candidate, a canary's cost becomes the expected one. */
#define CALM_EPOCHS UINT64_C(4)

#define PARTS 256u /* the weight of an epoch with the usual stake */
#define MEAN_RATING 1500
#define RATING_SPAN 400

/* ---- Decisions. */

static void sum_open(hk_learn_t *learn) {
  hk_price_gaps_t *open = &learn->open;
  memset(open, 0, sizeof *open);
  for (unsigned i = 0; i < learn->level.count; i++) {
    hk_price_add_gap(&learn->price, open, hk_level_segment_bytes(&learn->level, i),
                     hk_level_segment_age_ms(&learn->level, i));
  }
}

/* Sums the open gaps. Returns what purging the undecided memory would cost now. */
static uint64_t sum_undecided(hk_learn_t *learn) {
  sum_open(learn);
  return hk_price_purge_cost(&learn->price, &learn->open, HK_PRICE_BREAK_EVEN);
}

/* Returns whether the leader is frozen, and no more memory is undecided than it is known to be right for. A larger
 * stake thaws at once, not by the results of later epochs: one such gap can cost more than all gaps before. */
static bool is_leader_alone(hk_learn_t *learn) {
  if (learn->state != hk_learn_state_frozen) return false;
  return sum_undecided(learn) <= hk_multiply_saturating(learn->usual_stake, THAW_STAKES);
}

/* Divides memory by what each candidate owes if all of them purge the open gaps now. A candidate that keeps them
 * would otherwise be ahead of one that has paid for their purge, until keeping has cost as much. The stake grows
 * with the undecided memory, which has been dirty for no longer than the break-even time: results from small stakes
 * are less certain for large ones. */
static void divide_by_all(hk_learn_t *learn) {
  uint64_t undecided = sum_undecided(learn);
  uint64_t owed[HK_PRICE_CANDIDATES];
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) {
    owed[i] = hk_add_saturating(learn->owed[i], hk_price_purge_cost(&learn->price, &learn->open, i));
  }
  hk_decay_by_all(&learn->decay, &learn->price, owed, hk_larger(learn->usual_stake, undecided / UNDECIDED_SHARE));
}

static void divide(hk_learn_t *learn) {
  if (learn->is_fixed || is_leader_alone(learn)) {
    hk_decay_by_one(&learn->decay, hk_learn_timeout_ms(learn));
  } else if (learn->is_young) {
    hk_decay_by_one(&learn->decay, learn->price.timeout_ms[HK_PRICE_BREAK_EVEN]);
  } else if (learn->epoch < FIRST_EPOCHS) {
    hk_decay_by_all(&learn->decay, &learn->price, learn->owed, learn->usual_stake);
  } else {
    divide_by_all(learn);
  }
}

/* The caller divides afterwards. */
static void decide(hk_learn_t *learn, hk_learn_reason_t reason, hk_learn_state_t state, unsigned leader,
                   uint64_t from_cost, uint64_t to_cost) {
  hk_learn_decision_t decision = {
      .now_ms = learn->level.now_ms,
      .epoch = learn->epoch,
      .from_timeout_ms = hk_learn_timeout_ms(learn),
      .to_timeout_ms = learn->price.timeout_ms[leader],
      .from_cost = from_cost,
      .to_cost = to_cost,
      .state = (uint32_t)state,
      .reason = (uint32_t)reason,
  };
  hk_learn_log_add(&learn->log, &decision);
  learn->leader = leader;
  learn->state = state;
  learn->state_parts = 0;
}

void hk_learn_lead(hk_learn_t *learn, hk_learn_reason_t reason, hk_learn_state_t state, unsigned candidate) {
  learn->is_young = false;
  decide(learn, reason, state, candidate, learn->owed[learn->leader], learn->owed[candidate]);
  divide(learn);
}

/* ---- One epoch's costs. */

/* Adds the cost of ended gaps to `*owed`, and of open gaps the part that earlier epochs did not charge. Returns the
 * sum added. */
static uint64_t charge(uint64_t *owed, uint64_t ended_cost, uint64_t open_cost, uint64_t *charged) {
  uint64_t cost = hk_subtract_to_zero(hk_add_saturating(ended_cost, open_cost), *charged);
  *owed = hk_add_saturating(*owed, cost);
  *charged = open_cost;
  return cost;
}

/* Returns an epoch's weight: its stake in PARTS of the usual stake, at most PARTS. */
static uint64_t weight(const hk_learn_t *learn, uint64_t stake) {
  uint64_t usual = learn->usual_stake;
  if (stake == 0) return 0;
  return stake >= usual ? PARTS : stake / (usual / PARTS + 1);
}

/* Returns `value` after an epoch of this weight has taken its part away. */
static uint64_t discounted(uint64_t value, uint64_t parts) { return value - value / (FORGET_SHARE * PARTS) * parts; }

/* The mean of the first USUAL_EPOCHS stakes, then a moving mean. */
static void note_stake(hk_learn_t *learn, uint64_t stake) {
  uint64_t count = hk_smaller(learn->epoch, USUAL_EPOCHS - 1) + 1;
  learn->epoch++;
  uint64_t usual = learn->usual_stake;
  learn->usual_stake = stake > usual ? usual + (stake - usual) / count : usual - (usual - stake) / count;
}

/* Marks the cost of the open gaps as charged: earlier epochs have charged it. */
static void charge_open(hk_learn_t *learn) {
  sum_open(learn);
  learn->open_stake = hk_price_least_cost(&learn->price, &learn->open, true);
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) {
    learn->open_cost[i] = hk_price_cost(&learn->price, &learn->open, i, true);
  }
}

/* ---- The consequences of an epoch. */

static unsigned cheapest(const hk_learn_t *learn) {
  unsigned best = learn->leader;
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) {
    if (learn->owed[i] < learn->owed[best]) best = i;
  }
  return best;
}

static bool is_better(const hk_learn_t *learn, unsigned candidate) {
  uint64_t owed = learn->owed[learn->leader];
  return learn->owed[candidate] < owed - owed / HYSTERESIS_SHARE;
}

static void freeze(hk_learn_t *learn, hk_learn_reason_t reason) {
  learn->frozen_owed = learn->owed[learn->leader];
  learn->frozen_staked = learn->staked;
  decide(learn, reason, hk_learn_state_frozen, learn->leader, learn->frozen_owed, learn->frozen_owed);
}

/* Returns what the leader is expected to owe for the recent stakes. */
static uint64_t expected_owed(const hk_learn_t *learn) {
  uint64_t for_parts = learn->frozen_owed / (learn->frozen_staked / PARTS + 1);
  return hk_multiply_saturating(learn->staked / PARTS + 1, for_parts);
}

/* Decides about a leader that costs more than expected. Without a better candidate, its cost becomes the expected
 * one. */
static void watch_canary(hk_learn_t *learn, uint64_t owed, uint64_t expected) {
  unsigned best = cheapest(learn);
  if (is_better(learn, best)) {
    decide(learn, hk_learn_gave_up, hk_learn_state_learning, best, owed, learn->owed[best]);
  } else if (owed <= hk_add_saturating(expected, expected / CANARY_SHARE) ||
             learn->state_parts >= CALM_EPOCHS * PARTS) {
    freeze(learn, hk_learn_calmed_down);
  }
}

/* Not inlined: an epoch ends on a caller's stack, which has no room for this frame below the division's. */
static HK_NOINLINE void settle(hk_learn_t *learn) {
  uint64_t owed = learn->owed[learn->leader], expected = expected_owed(learn);
  unsigned best = cheapest(learn);
  switch (learn->state) {
    case hk_learn_state_learning:
      if (is_better(learn, best)) {
        decide(learn, hk_learn_found_better, hk_learn_state_learning, best, owed, learn->owed[best]);
      } else if (learn->state_parts >= SETTLED_EPOCHS * PARTS) {
        freeze(learn, hk_learn_settled);
      }
      break;
    case hk_learn_state_frozen:
      if (owed > hk_add_saturating(expected, expected / CANARY_SHARE)) {
        decide(learn, hk_learn_cost_more, hk_learn_state_canary, learn->leader, owed, expected);
      }
      break;
    case hk_learn_state_canary:
      watch_canary(learn, owed, expected);
      break;
  }
}

static void end_epoch(hk_learn_t *learn) {
  sum_open(learn);
  uint64_t staked_before = learn->staked;
  uint64_t stake = charge(&learn->staked, hk_price_least_cost(&learn->price, &learn->ended, false),
                          hk_price_least_cost(&learn->price, &learn->open, true), &learn->open_stake);
  if (stake > 0) note_stake(learn, stake);
  uint64_t parts = weight(learn, stake);
  learn->staked = hk_add_saturating(discounted(staked_before, parts), stake);
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) {
    learn->owed[i] = discounted(learn->owed[i], parts);
    charge(&learn->owed[i], hk_price_cost(&learn->price, &learn->ended, i, false),
           hk_price_cost(&learn->price, &learn->open, i, true), &learn->open_cost[i]);
  }
  memset(&learn->ended, 0, sizeof learn->ended);
  learn->gap_count = 0;
  learn->epoch_start_ms = learn->level.now_ms;
  if (stake > 0) {
    learn->state_parts += parts;
    settle(learn);
  }
  divide(learn);
}

/* ---- Time and levels. */

static uint64_t gaps_of_epoch(const hk_learn_t *learn) {
  return learn->epoch < 4 ? UINT64_C(1) << learn->epoch : EPOCH_GAPS;
}

/* Returns the longest time of an epoch while memory is dirty. When much more becomes dirty than usual, the epoch
 * ends early, before results from smaller amounts have cost much, and before a frozen leader has kept all of it. */
static uint64_t epoch_ms(const hk_learn_t *learn) {
  uint64_t break_even_ms = hk_price_break_even_ms(&learn->price);
  if (learn->epoch < FIRST_EPOCHS) return break_even_ms / FIRST_EPOCH_SHARE;
  uint64_t longest_ms = break_even_ms / EPOCH_SHARE;
  uint64_t kept_kib = hk_learn_kept_bytes(learn) / HK_KIB + 1;
  uint64_t stakes_ms = hk_multiply_saturating(learn->usual_stake, EPOCH_STAKES) / kept_kib;
  uint64_t least_ms = hk_larger(break_even_ms / EPOCH_MIN_SHARE, 1);
  return hk_smaller(hk_larger(stakes_ms, least_ms), longest_ms);
}

static uint64_t epoch_end_ms(const hk_learn_t *learn) {
  return hk_add_saturating(learn->epoch_start_ms, epoch_ms(learn));
}

/* Looks once in each ms: the kept bytes are a sum over all segments, and a ms may have many changes. */
static bool is_epoch_over(hk_learn_t *learn) {
  uint64_t now_ms = learn->level.now_ms;
  if (learn->looked_ms == now_ms) return false;
  learn->looked_ms = now_ms;
  return now_ms >= epoch_end_ms(learn);
}

static void add_gap(void *context, size_t bytes, uint64_t gap_ms) {
  hk_learn_t *learn = context;
  hk_price_add_gap(&learn->price, &learn->ended, bytes, gap_ms);
  learn->gap_count++;
}

/* Returns when the program stops being young. No memory has been dirty for longer than the program has run, so a
 * short gap and a long one look alike in it, and most gaps are short then. */
static uint64_t young_until_ms(const hk_learn_t *learn) {
  return learn->born_ms + hk_price_break_even_ms(&learn->price) / YOUNG_SHARE;
}

static void grow_older(hk_learn_t *learn) {
  if (HK_LIKELY(!learn->is_young) || learn->level.now_ms < young_until_ms(learn)) return;
  learn->is_young = false;
  divide(learn);
}

bool hk_learn_init(hk_learn_t *learn, uint64_t now_ms, uint64_t ns_per_mib_second) {
  if (!hk_price_init(&learn->price, ns_per_mib_second)) return false;
  memset((char *)learn + offsetof(hk_learn_t, level), 0, sizeof *learn - offsetof(hk_learn_t, level));
  learn->leader = HK_PRICE_BREAK_EVEN;
  learn->born_ms = now_ms;
  learn->is_young = true;
  decide(learn, hk_learn_started, hk_learn_state_learning, HK_PRICE_BREAK_EVEN, 0, 0);
  divide(learn);
  return true;
}

bool hk_learn_set_price(hk_learn_t *learn, uint64_t now_ms, uint64_t ns_per_mib_second) {
  if (ns_per_mib_second == learn->price.ns_per_mib_second) return true;
  /* In place: some threads' stacks have no room for a copy. */
  uint64_t purge_ns = learn->price.purge_ns, fault_ns = learn->price.fault_ns;
  if (!hk_price_init(&learn->price, ns_per_mib_second)) return false;
  hk_price_set_costs(&learn->price, purge_ns, fault_ns);
  hk_level_pass(&learn->level, now_ms);
  memset((char *)learn + offsetof(hk_learn_t, leader), 0, sizeof *learn - offsetof(hk_learn_t, leader));
  learn->leader = HK_PRICE_BREAK_EVEN;
  learn->is_young = true;
  divide(learn);
  learn->is_young = learn->level.now_ms < young_until_ms(learn);
  learn->epoch_start_ms = learn->level.now_ms;
  decide(learn, hk_learn_price_changed, hk_learn_state_learning, HK_PRICE_BREAK_EVEN, 0, 0);
  divide(learn);
  charge_open(learn);
  return true;
}

void hk_learn_rescale(hk_learn_t *learn, uint64_t from_ns, uint64_t to_ns) {
  uint64_t *const costs[] = {&learn->usual_stake, &learn->staked, &learn->frozen_owed, &learn->frozen_staked};
  for (unsigned i = 0; i < sizeof costs / sizeof costs[0]; i++)
    *costs[i] = hk_price_rescaled(*costs[i], from_ns, to_ns);
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) learn->owed[i] = hk_price_rescaled(learn->owed[i], from_ns, to_ns);
}

/* The present epoch begins anew: its gaps were sorted by the old time-outs. */
void hk_learn_set_costs(hk_learn_t *learn, uint64_t now_ms, uint64_t purge_ns, uint64_t fault_ns) {
  uint64_t before_ns = learn->price.purge_ns + learn->price.fault_ns, after_ns = purge_ns + fault_ns;
  if (purge_ns == learn->price.purge_ns && fault_ns == learn->price.fault_ns) return;
  hk_level_pass(&learn->level, now_ms);
  hk_price_set_costs(&learn->price, purge_ns, fault_ns);
  hk_learn_rescale(learn, before_ns, after_ns);
  memset(&learn->ended, 0, sizeof learn->ended);
  learn->gap_count = 0;
  learn->epoch_start_ms = learn->level.now_ms;
  charge_open(learn);
  decide(learn, hk_learn_measured, learn->state, learn->leader, before_ns, after_ns);
  divide(learn);
}

static void forget_gap(void *context, size_t bytes, uint64_t gap_ms) {
  (void)context;
  (void)bytes;
  (void)gap_ms;
}

void hk_learn_fix(hk_learn_t *learn, bool is_fixed) {
  learn->is_fixed = is_fixed;
  divide(learn);
}

void hk_learn_note(hk_learn_t *learn, uint64_t now_ms, size_t in_use_bytes) {
  if (learn->is_fixed) {
    hk_level_note(&learn->level, now_ms, in_use_bytes, forget_gap, NULL);
    return;
  }
  bool was_dirty = hk_level_dirty_bytes(&learn->level) > 0;
  hk_level_pass(&learn->level, now_ms);
  grow_older(learn);
  if (was_dirty && is_epoch_over(learn)) end_epoch(learn);
  hk_level_note(&learn->level, now_ms, in_use_bytes, add_gap, learn);
  if (learn->gap_count >= gaps_of_epoch(learn)) end_epoch(learn);
  /* Time without dirty memory is no part of an epoch. */
  if (!was_dirty && learn->gap_count == 0) learn->epoch_start_ms = learn->level.now_ms;
}

uint64_t hk_learn_timeout_ms(const hk_learn_t *learn) { return learn->price.timeout_ms[learn->leader]; }

size_t hk_learn_kept_bytes(const hk_learn_t *learn) { return hk_level_kept_bytes(&learn->level, &learn->decay); }

bool hk_learn_next_due(const hk_learn_t *learn, uint64_t *due_ms) {
  /* Purged memory is older than the time-out in use. Its gap is known when it is requested again. */
  if (hk_learn_kept_bytes(learn) == 0) return false;
  uint64_t purge_ms;
  uint64_t next_ms = hk_add_saturating(learn->level.now_ms, 1); /* the present ms was looked at */
  *due_ms = learn->is_fixed ? UINT64_MAX : hk_larger(epoch_end_ms(learn), next_ms);
  if (hk_level_next_due(&learn->level, &learn->decay, &purge_ms)) *due_ms = hk_smaller(*due_ms, purge_ms);
  if (learn->is_young && !learn->is_fixed) *due_ms = hk_smaller(*due_ms, hk_larger(young_until_ms(learn), next_ms));
  return *due_ms != UINT64_MAX;
}

int64_t hk_learn_rating(const hk_learn_t *learn, unsigned candidate) {
  uint64_t mean = learn->owed[HK_PRICE_BREAK_EVEN], owed = learn->owed[candidate];
  uint64_t unit = learn->staked / RATING_SPAN + 1;
  if (owed < mean) return MEAN_RATING + (int64_t)hk_smaller((mean - owed) / unit, MEAN_RATING);
  return MEAN_RATING - (int64_t)hk_smaller((owed - mean) / unit, MEAN_RATING);
}
