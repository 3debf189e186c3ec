/* policy/sampling.c - L2. See sampling.h. The C library has the logarithm and the exponential in a library of their
 * own, which hakmem must not need. So this file has series, right to nine digits and more. */
#include "policy/sampling.h"

#include "base/arithmetic.h"
#include "base/random.h"

_Atomic(uint64_t) hk_sampling_state;
_Atomic(uint64_t) hk_sampling_guard_rate;

/* Returns the state that follows `state`, with another count. */
static uint64_t next_state(uint64_t state, uint64_t guard_bit, uint64_t rate) {
  uint64_t count = (state >> (HK_SAMPLING_RATE_BITS + 1)) + 1;
  return count << (HK_SAMPLING_RATE_BITS + 1) | guard_bit | rate;
}

static bool change(uint64_t rate) {
  uint64_t state = hk_load_relaxed(&hk_sampling_state);
  do {
    bool is_on = hk_sampling_rate_of(state) != 0;
    if (is_on == (rate != 0)) return false;
  } while (!hk_compare_exchange_weak_release(&hk_sampling_state, &state,
                                             next_state(state, state & HK_SAMPLING_GUARD_BIT, rate)));
  return true;
}

void hk_sampling_set_guard_rate(uint64_t rate) {
  uint64_t state = hk_load_relaxed(&hk_sampling_state), bit = rate != 0 ? HK_SAMPLING_GUARD_BIT : 0;
  hk_store_relaxed(&hk_sampling_guard_rate, rate);
  while (!hk_compare_exchange_weak_release(&hk_sampling_state, &state,
                                           next_state(state, bit, hk_sampling_rate_of(state)))) {
  }
}

bool hk_sampling_begin(uint64_t rate) { return change(rate); }

bool hk_sampling_end(void) { return change(0); }

static void widen(hk_sampling_pace_t *pace, uint64_t took_ms) {
  uint64_t had_ms = pace->saved_ms + took_ms;
  if (had_ms < HK_SAMPLING_PACE_MS) {
    pace->saved_ms = 0;
    if (pace->shift < HK_SAMPLING_SHIFT_MAX) pace->shift++;
  } else {
    pace->saved_ms = (uint16_t)hk_smaller(had_ms - HK_SAMPLING_PACE_MS, HK_SAMPLING_PACE_SAVED_MS);
  }
}

/* Narrows the distances only as far as half of the time stays unused. So a program at a steady pace does not
 * alternate. */
static void narrow(hk_sampling_pace_t *pace, uint64_t took_ms) {
  uint64_t room = took_ms * HK_SAMPLING_PACE_POINTS / HK_SAMPLING_PACE_MS;
  for (uint64_t points = pace->points; pace->shift > 0 && 4 * points <= room; points *= 2) pace->shift--;
}

#define NARROW_MS (UINT64_C(4) * HK_SAMPLING_PACE_MS)

void hk_sampling_keep_pace(hk_sampling_pace_t *pace, uint64_t now_ms) {
  if (pace->since_ms == 0) *pace = (hk_sampling_pace_t){.since_ms = now_ms, .saved_ms = HK_SAMPLING_PACE_SAVED_MS};
  pace->points++;
  uint64_t took_ms = hk_subtract_to_zero(now_ms, pace->since_ms);
  if (pace->points < HK_SAMPLING_PACE_POINTS && (took_ms < NARROW_MS || pace->shift == 0)) return;
  if (took_ms >= NARROW_MS) narrow(pace, took_ms);
  widen(pace, took_ms);
  pace->since_ms = hk_larger(now_ms, pace->since_ms);
  pace->points = 0;
}

#define LN_2 0.69314718055994530942

/* Returns -ln(random / 2^64). With random = m * 2^e and m from 1 to 2: ln m = 2 artanh((m - 1) / (m + 1)). */
static double minus_log(uint64_t random) {
  if (random == 0) random = 1;
  int leading = __builtin_clzll(random);
  double m = (double)(random << leading >> 11) * 0x1p-52;
  double y = (m - 1) / (m + 1);
  double square = y * y;
  static const double parts[] = {1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1};
  double sum = 0;
  for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) sum = sum * square + parts[i];
  return (leading + 1) * LN_2 - 2 * y * sum;
}

uint64_t hk_sampling_distance(uint64_t random, uint64_t rate) { return (uint64_t)(minus_log(random) * (double)rate); }

/* Beyond this, the chance that no point lies in a block is below 2^-64. */
#define CERTAIN 64.0

/* Returns 1 - exp(-x). Computes y = exp(-x) - 1 by its series for small x, and doubles x by e^(2x) - 1 = y (y + 2). */
static double chance_of(double x) {
  if (x >= CERTAIN) return 1;
  unsigned doublings = 0;
  for (; x > 0.125; doublings++) x /= 2;
  static const double parts[] = {1.0 / 10, 1.0 / 9, 1.0 / 8, 1.0 / 7, 1.0 / 6, 1.0 / 5, 1.0 / 4, 1.0 / 3, 1.0 / 2, 1};
  double sum = 0;
  for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) sum = (sum + 1) * -x * parts[i];
  for (; doublings > 0; doublings--) sum *= sum + 2;
  return -sum;
}

double hk_sampling_chance(uint64_t bytes, uint64_t rate) { return chance_of((double)bytes / (double)rate); }

uint64_t hk_sampling_weight(uint64_t bytes, uint64_t rate) {
  return (uint64_t)(65536 / hk_sampling_chance(bytes, rate) + 0.5);
}

/* ---- The profile and guards together. */

/* Returns -ln(1 - 1 / rate): by the series of the logarithm, whose terms fall by a factor of `rate`. */
static double points_of_guard(uint64_t rate) {
  if (rate == 0) return 0;
  if (rate == 1) return CERTAIN;
  double x = 1 / (double)rate, sum = 0;
  unsigned terms = rate < 16 ? 64 : 16;
  for (unsigned i = terms; i > 0; i--) sum = (sum + 1.0 / i) * x;
  return sum;
}

hk_sampling_points_t hk_sampling_points(uint64_t bytes, uint64_t rate, uint64_t guard_rate) {
  return (hk_sampling_points_t){.profile = rate != 0 ? (double)bytes / (double)rate : 0,
                                .guard = points_of_guard(guard_rate)};
}

uint64_t hk_sampling_blocks_before(uint64_t random, hk_sampling_points_t points) {
  if (points.guard >= CERTAIN || points.profile >= CERTAIN) return 0;
  return (uint64_t)(minus_log(random) / (points.profile + points.guard));
}

static double unit_random(uint64_t *random) { return (double)(hk_random(random) >> 11) * 0x1p-53; }

hk_sampling_purpose_t hk_sampling_purpose(uint64_t *random, hk_sampling_points_t points) {
  double sample = chance_of(points.profile), guard = chance_of(points.guard);
  double either = sample + guard - sample * guard;
  bool is_guarded = guard > 0 && unit_random(random) * either < guard;
  return (hk_sampling_purpose_t){.is_sample = sample > 0 && (!is_guarded || unit_random(random) < sample),
                                 .is_guarded = is_guarded};
}
