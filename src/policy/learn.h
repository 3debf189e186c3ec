/* policy/learn.h - L2. Learns for how long idle memory should stay. A pure step: what is told decides what comes out,
 * whatever machine it runs on; no clock, no lock, no allocation, no floating point.
 *
 * The candidates are the time-outs of policy/price.h. How long memory was idle (policy/level.h) does not depend on the
 * time-out in use, so at the end of each epoch every candidate is charged what it would have cost in it: nothing is
 * ever tried out in the user's process. Each epoch is a contest of every candidate with every other one. The margin of
 * victory is the difference of what the two cost, and the ratings that come of it are Elo's with a straight line in the
 * place of the logistic curve: they forget a part of what was for each part that comes. Written out, such ratings are
 * the candidates' costs, discounted; so costs are what is kept here (docs/learning.md has the argument). While there is
 * something to learn each candidate has a share of the memory by what it owes (policy/decay.h). The leader is who owes
 * least, when that is less by enough than what the one before owes.
 *
 * In a program that has just begun the break-even time-out has all the memory, for half of that time.
 *
 * An epoch's weight is what was at stake in it: what one would have paid who knew the future.
 *
 * When the leader has not changed for long it is frozen: all memory is its, and no epoch changes it. When it has cost
 * more than it used to, in proportion to what was at stake, the state is canary: then a better candidate ends the
 * freeze, and where there is none, what it costs now is what is expected.
 */
#ifndef HK_POLICY_LEARN_H
#define HK_POLICY_LEARN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "policy/decay.h"
#include "policy/learn_log.h"
#include "policy/level.h"
#include "policy/price.h"

HK_C_BEGIN

/* One owner, who holds a lock. */
typedef struct {
  hk_price_t price;
  hk_level_t level;
  hk_learn_log_t log;
  hk_price_gaps_t open; /* scratch: the gaps that have not ended. Here because stacks may have no room for it */
  bool is_fixed;        /* the user wants it so: nothing is learned, and the leader stays */
  uint64_t born_ms;     /* when the program began */
  unsigned leader;      /* what follows is of one price: the candidate that has been best for long enough */
  hk_decay_t decay;     /* in use: the leader's alone, or all candidates' */
  bool is_young;        /* the program is, and nothing was learned before it began */
  hk_learn_state_t state;
  uint64_t epoch;          /* of all, since the start */
  uint64_t state_parts;    /* the weight of the epochs since the state or the leader changed last */
  uint64_t looked_ms;      /* when it was last asked whether an epoch is over */
  uint64_t epoch_start_ms; /* of this epoch, and what ended and was idle in it: */
  uint64_t gap_count;
  hk_price_gaps_t ended;
  uint64_t open_cost[HK_PRICE_CANDIDATES]; /* charged by earlier epochs for what is still idle */
  uint64_t open_stake;
  uint64_t owed[HK_PRICE_CANDIDATES]; /* by each candidate, of late; what is long ago counts less */
  uint64_t usual_stake;               /* of an epoch, in the mean of late */
  uint64_t staked;                    /* discounted as `owed` is */
  uint64_t frozen_owed;               /* the leader's and the stake's, discounted, when it was frozen */
  uint64_t frozen_staked;
} hk_learn_t;

/* The program begins now. False, and nothing is changed, when the price is none (hk_price_init). */
bool hk_learn_init(hk_learn_t *learn, uint64_t now_ms, uint64_t ns_per_mib_second);

/* Another price from now on: what was learned at the old one is forgotten, and how long memory has been idle is not.
 * False, and nothing is changed, when it is none; true without effect when it is the same. */
bool hk_learn_set_price(hk_learn_t *learn, uint64_t now_ms, uint64_t ns_per_mib_second);

/* So much is in use now. To be called after each change, and at hk_learn_next_due with what was in use before. */
void hk_learn_note(hk_learn_t *learn, uint64_t now_ms, size_t in_use_bytes);

/* Whether nothing is learned from now on. */
void hk_learn_fix(hk_learn_t *learn, bool is_fixed);

/* The leader's. Where nothing is learned, or the leader is frozen, what has been idle for longer is to be given
 * back. */
uint64_t hk_learn_timeout_ms(const hk_learn_t *learn);

/* How much may be idle now. */
size_t hk_learn_keep_bytes(const hk_learn_t *learn);

/* When something is to be done if nothing changes until then: give back more, or end an epoch. False: nothing. */
bool hk_learn_next_due(const hk_learn_t *learn, uint64_t *due_ms);

/* From now on this candidate leads: somebody else has decided it, who knows the program, for a reason that the log
 * shall have. */
void hk_learn_lead(hk_learn_t *learn, hk_learn_reason_t reason, hk_learn_state_t state, unsigned candidate);

/* A candidate's rating, 0 to 3000, for people: 1500 for the break-even time-out, and 400 more for one that owed less by
 * as much as was at stake. */
int64_t hk_learn_rating(const hk_learn_t *learn, unsigned candidate);

HK_C_END

#endif /* HK_POLICY_LEARN_H */
