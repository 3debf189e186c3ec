/* policy/decay.h - L2. How much of what has been idle for how long stays: a curve that falls in steps. Numbers in, numbers
 * out.
 *
 * One time-out is a curve of one step. Several that each have a share of the memory are one of several: of what has been
 * idle for so long, the shares of those stay whose time-out is not over. What that costs is what they would cost, each in
 * proportion to its share, so one who does not know yet which time-out is best loses less than by a wrong choice.
 */
#ifndef HK_POLICY_DECAY_H
#define HK_POLICY_DECAY_H

#include <stdint.h>

#include "base/compiler.h"
#include "policy/price.h"

HK_C_BEGIN

#define HK_DECAY_WHOLE UINT32_C(65536)

/* Times rise, what stays falls. What is older than the last step's time does not stay. */
typedef struct {
  unsigned count;
  struct {
    uint64_t until_ms;
    uint32_t kept_q16; /* of what has been idle for no longer than that, and longer than the step before: this part */
  } step[HK_PRICE_CANDIDATES];
} hk_decay_t;

/* One time-out for all. */
void hk_decay_by_one(hk_decay_t *decay, uint64_t timeout_ms);

/* Every candidate has a share, the smaller the more it owes: `stake` more than who owes least, and the share is a quarter. Those
 * that nearly nothing would be left for have none. */
void hk_decay_by_all(hk_decay_t *decay, const hk_price_t *price, const uint64_t *owed, uint64_t stake);

HK_C_END

#endif /* HK_POLICY_DECAY_H */
