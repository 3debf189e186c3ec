/* policy/decay.h - L2. How much of the dirty memory of each age stays: a curve that falls in steps. Numbers in,
 * numbers out.
 *
 * One time-out is a curve of one step. Several time-outs that each have a share of the memory make a curve of
 * several steps: of the memory of one age, the shares of those time-outs stay that are longer. The curve costs what
 * the time-outs would cost, each in proportion to its share. While the best time-out is unknown, that loses less
 * than a wrong choice.
 */
#ifndef HK_POLICY_DECAY_H
#define HK_POLICY_DECAY_H

#include <stdint.h>

#include "base/compiler.h"
#include "policy/price.h"

HK_C_BEGIN

/* A kept_q16 of memory that stays whole. */
#define HK_DECAY_WHOLE UINT32_C(65536)

/* Times rise, and the part that stays falls. Memory older than the last step's time does not stay. */
typedef struct {
  unsigned count;
  struct {
    uint64_t until_ms;
    /* The part that stays, in 65536ths, of memory up to this age and older than the step before. */
    uint32_t kept_q16;
  } step[HK_PRICE_CANDIDATES];
} hk_decay_t;

/* Makes the curve of one time-out for all memory. */
void hk_decay_by_one(hk_decay_t *decay, uint64_t timeout_ms);

/* Makes the curve in which each candidate has a share, the smaller the more it owes. A candidate that owes `stake`
 * more than the least has a quarter of the share it would have otherwise. A candidate with less than 1/256 of all
 * has none. */
void hk_decay_by_all(hk_decay_t *decay, const hk_price_t *price, const uint64_t *owed, uint64_t stake);

HK_C_END

#endif /* HK_POLICY_DECAY_H */
