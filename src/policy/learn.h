/* policy/learn.h - L2. Learns how long dirty memory should stay. A pure step: its inputs alone determine its
 * results, on every machine. No clock, no lock, no allocation, no floating point.
 *
 * The candidates are the time-outs of policy/price.h. How long memory is dirty (policy/level.h) does not depend on
 * the time-out in use. So at the end of each epoch every candidate is charged what it would have cost, and nothing
 * is tried out in the user's process. Each epoch is a contest of every candidate with every other one. The margin of
 * victory is the difference of their costs. The ratings are Elo's with a straight line in place of the logistic
 * curve: each epoch takes a part of the old rating away. Written out, such ratings are the candidates' discounted
 * costs, and those are stored (docs/learning.md has the argument). While the learner is not frozen, each candidate
 * has a share of the memory by what it owes (policy/decay.h). The leader is the candidate that owes least, once it
 * owes less than the leader before by enough.
 *
 * In a program that has just begun, the break-even time-out has all memory for half of the break-even time.
 *
 * An epoch's weight is its stake: its least cost with knowledge of the future.
 *
 * A leader that has not changed for long is frozen: it has all memory, and epochs change nothing. While far more memory
 * is dirty than when it was frozen, memory is divided as before. A frozen leader that costs more than before, in
 * proportion to the stakes, becomes a canary. A better candidate then ends the freeze. Where there is none, the present
 * cost becomes the expected one.
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

/* One owner, which holds a lock. */
typedef struct {
  hk_price_t price;
  hk_level_t level;
  hk_learn_log_t log;
  /* Scratch: the gaps that have not ended. They are here because stacks may have no room for them. */
  hk_price_gaps_t open;
  bool is_fixed;    /* an option: nothing is learned, and the leader stays */
  uint64_t born_ms; /* when the program began */

  /* ---- The fields from `leader` on belong to one price: hk_learn_set_price clears them first. */

  unsigned leader;  /* the candidate that has been best for long enough */
  hk_decay_t decay; /* in use: the leader's alone, or of all candidates' shares */
  /* The program is young, and nothing was learned before it began. */
  bool is_young;
  hk_learn_state_t state;
  uint64_t epoch;       /* epochs since the start */
  uint64_t state_parts; /* the weight of the epochs since the last change of the state or the leader */
  uint64_t looked_ms;   /* when the end of the epoch was last checked */
  /* When this epoch began; gap_count and `ended` belong to it. */
  uint64_t epoch_start_ms;
  uint64_t gap_count;
  hk_price_gaps_t ended;
  /* Charged by earlier epochs for gaps that have not ended. */
  uint64_t open_cost[HK_PRICE_CANDIDATES];
  uint64_t open_stake;
  /* What each candidate owes: its costs, of which older ones count less. */
  uint64_t owed[HK_PRICE_CANDIDATES];
  /* The mean stake of recent epochs. */
  uint64_t usual_stake;
  uint64_t staked; /* the sum of stakes, discounted as `owed` is */
  /* What the leader owed, and `staked`, when the leader was frozen. */
  uint64_t frozen_owed;
  uint64_t frozen_staked;
} hk_learn_t;

/* Begins the learning when the program begins. Returns false and changes nothing when the price is not valid
 * (hk_price_init). */
bool hk_learn_init(hk_learn_t *learn, uint64_t now_ms, uint64_t ns_per_mib_second);

/* Changes the price. The results of the old one are dropped, and the ages of dirty memory stay. Returns false and
 * changes nothing when the price is not valid; true without effect when it is the same. */
bool hk_learn_set_price(hk_learn_t *learn, uint64_t now_ms, uint64_t ns_per_mib_second);

/* Sets the CPU time that purging a MiB and faulting it in again take here (hk_price_set_costs). The results
 * stay, as parts of the new break-even time. */
void hk_learn_set_costs(hk_learn_t *learn, uint64_t now_ms, uint64_t purge_ns, uint64_t fault_ns);

/* Multiplies all costs that were learned, and their stakes, by `to_ns` / `from_ns` (hk_price_rescaled). */
void hk_learn_rescale(hk_learn_t *learn, uint64_t from_ns, uint64_t to_ns);

/* Notes the bytes in use. Call it after each change, and at hk_learn_next_due with the unchanged bytes. */
void hk_learn_note(hk_learn_t *learn, uint64_t now_ms, size_t in_use_bytes);

/* Stops learning, so that the leader stays (`is_fixed`), or lets it go on. */
void hk_learn_fix(hk_learn_t *learn, bool is_fixed);

/* Returns the leader's time-out. While learning is fixed or the leader frozen, memory that has been dirty for longer
 * is to be purged. */
uint64_t hk_learn_timeout_ms(const hk_learn_t *learn);

/* Returns the bytes that may be dirty now. */
size_t hk_learn_kept_bytes(const hk_learn_t *learn);

/* Computes when the learner is due if nothing changes until then: to purge more, or to end an epoch. Returns false
 * when it is never due. */
bool hk_learn_next_due(const hk_learn_t *learn, uint64_t *due_ms);

/* Makes `candidate` the leader, by a decision of the caller. The log gets the reason. */
void hk_learn_lead(hk_learn_t *learn, hk_learn_reason_t reason, hk_learn_state_t state, unsigned candidate);

/* Returns a candidate's rating, 0 to 3000, for readers: 1500 for the break-even time-out, and 400 more for one that
 * owes less by as much as was staked. */
int64_t hk_learn_rating(const hk_learn_t *learn, unsigned candidate);

HK_C_END

#endif /* HK_POLICY_LEARN_H */
