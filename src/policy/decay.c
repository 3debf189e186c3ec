/* policy/decay.c - L2. See decay.h. */
#include "policy/decay.h"

#include "base/arithmetic.h"

/* ---- Chosen by replaying the traces of bench/learn_traces (docs/experiments/2026-11-22-learn-shares.md). */

/* Initial shares. At the balanced price and above all time-outs are equally likely, except those of four times the
 * break-even time and more: they are for programs that have shown a need of them. Where memory is cheaper, time-outs
 * are longer than most programs live, and unneeded dirty memory costs little. */
static const uint8_t first_share[HK_PRICE_CANDIDATES] = {16, 16, 16, 16, 16, 16, 16, 16, 16, 1, 1, 1};
static const uint8_t first_share_cheap[HK_PRICE_CANDIDATES] = {1, 1, 1, 1, 1, 1, 1, 16, 16, 1, 1, 1};
/* Halvings of the share for each stake that a candidate owes more than the least. */
#define HALVES_FOR_STAKE 2u
/* A share below this part of all shares is dropped. */
#define LEAST_SHARE 256u

#define SHARE_BITS 32u

/* Returns first << SHARE_BITS, halved times_q8 / 256 times; between whole numbers the share is linear. */
static uint64_t halved(uint8_t first, uint64_t times_q8) {
  uint64_t whole = times_q8 >> 8, rest_q8 = times_q8 & 255;
  if (whole >= SHARE_BITS) return 0;
  uint64_t share = ((uint64_t)first << SHARE_BITS) >> whole;
  return share - (share >> 9) * rest_q8;
}

static uint64_t least(const uint64_t *owed) {
  uint64_t found = owed[0];
  for (unsigned i = 1; i < HK_PRICE_CANDIDATES; i++) found = hk_smaller(found, owed[i]);
  return found;
}

static uint64_t sum(const uint64_t *share) {
  uint64_t all = 0;
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) all += share[i];
  return all;
}

void hk_decay_by_one(hk_decay_t *decay, uint64_t timeout_ms) {
  decay->count = 1;
  decay->step[0].until_ms = timeout_ms;
  decay->step[0].kept_q16 = HK_DECAY_WHOLE;
}

void hk_decay_by_all(hk_decay_t *decay, const hk_price_t *price, const uint64_t *owed, uint64_t stake) {
  const uint8_t *first = hk_price_is_cheap(price->ns_per_mib_second) ? first_share_cheap : first_share;
  uint64_t share[HK_PRICE_CANDIDATES], least_owed = least(owed), unit = hk_larger(stake, 1);
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) {
    share[i] = halved(first[i], hk_multiply_saturating(owed[i] - least_owed, HALVES_FOR_STAKE << 8) / unit);
  }
  uint64_t least_share = sum(share) / LEAST_SHARE;
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) {
    if (share[i] < least_share) share[i] = 0;
  }
  uint64_t all = sum(share), left = all;
  decay->count = 0;
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) {
    if (share[i] == 0) continue;
    decay->step[decay->count].until_ms = price->timeout_ms[i];
    decay->step[decay->count++].kept_q16 = (uint32_t)(left * HK_DECAY_WHOLE / all);
    left -= share[i];
  }
}
