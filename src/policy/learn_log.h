/* policy/learn_log.h - L2. The last decisions of the learner (policy/learn.h) with their reasons, as text for
 * readers. */
#ifndef HK_POLICY_LEARN_LOG_H
#define HK_POLICY_LEARN_LOG_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* Decisions that the log keeps. */
#define HK_LEARN_LOG_ENTRIES 16u

typedef enum {
  hk_learn_state_learning, /* every epoch may change the leader */
  hk_learn_state_frozen,   /* the leader stays, and its cost is compared with the expected one */
  hk_learn_state_canary,   /* it cost more than expected, and other candidates are compared with it */
} hk_learn_state_t;

typedef enum {
  hk_learn_started,      /* at the break-even time-out */
  hk_learn_loaded,       /* from a record of an earlier run */
  hk_learn_found_better, /* another candidate has cost less */
  hk_learn_settled,      /* the leader has not changed for long: frozen */
  hk_learn_cost_more,    /* the leader cost more than expected: canary */
  hk_learn_calmed_down,  /* its cost is as expected again, or no candidate is better: frozen */
  hk_learn_gave_up,      /* it cost more than expected, and another candidate would have cost less: learning */
  hk_learn_price_changed,
  hk_learn_measured, /* purging and faulting in again cost more or less here than assumed */
} hk_learn_reason_t;

typedef struct {
  uint64_t now_ms;
  uint64_t epoch;
  uint64_t from_timeout_ms;
  uint64_t to_timeout_ms;
  /* Recent costs, in KiB x ms. For a canary: the observed cost here, the expected one in to_cost. For
   * hk_learn_measured: CPU time of purging a MiB and faulting it in again, in ns, before and now. */
  uint64_t from_cost;
  uint64_t to_cost;
  uint32_t state;  /* hk_learn_state_t, from then on */
  uint32_t reason; /* hk_learn_reason_t */
} hk_learn_decision_t;

/* Initially all zero. */
typedef struct {
  uint64_t count; /* all decisions so far */
  hk_learn_decision_t ring[HK_LEARN_LOG_ENTRIES];
} hk_learn_log_t;

/* Adds a copy of the decision. A full log drops its oldest one for it. */
void hk_learn_log_add(hk_learn_log_t *log, const hk_learn_decision_t *decision);

/* Returns the decision before the last `back` ones; NULL when the log has none or has dropped it. */
const hk_learn_decision_t *hk_learn_log_find(const hk_learn_log_t *log, uint64_t back);

/* Returns the word for the state in reports; "unknown" for a number that is no state. */
const char *hk_learn_state_text(hk_learn_state_t state);

/* Prints one line, without its end: "epoch 12: 1800 ms instead of 450 ms, it cost 31% less: learning". */
void hk_learn_decision_text(const hk_learn_decision_t *decision, hk_format_t *format);

HK_C_END

#endif /* HK_POLICY_LEARN_LOG_H */
