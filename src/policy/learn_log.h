/* policy/learn_log.h - L2. The last decisions of the learner (policy/learn.h), with their reasons: for people. */
#ifndef HK_POLICY_LEARN_LOG_H
#define HK_POLICY_LEARN_LOG_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* How many are kept. */
#define HK_LEARN_LOG_ENTRIES 16u

typedef enum {
  hk_learn_state_learning, /* every epoch may change the leader */
  hk_learn_state_frozen,   /* the leader stays; is it still as good as expected? */
  hk_learn_state_canary,   /* it was not: is another one better? */
} hk_learn_state_t;

typedef enum {
  hk_learn_started,      /* at the break-even time-out */
  hk_learn_loaded,       /* from a record of an earlier run */
  hk_learn_found_better, /* another candidate has cost less */
  hk_learn_settled,      /* the leader has not changed for long: frozen */
  hk_learn_cost_more,    /* it cost more than expected: canary */
  hk_learn_calmed_down,  /* it does no longer, or none is better: frozen */
  hk_learn_gave_up,      /* it did, and another one would have cost less: learning */
  hk_learn_price_changed,
} hk_learn_reason_t;

typedef struct {
  uint64_t now_ms;
  uint64_t epoch;
  uint64_t from_timeout_ms;
  uint64_t to_timeout_ms;
  uint64_t from_cost; /* of late, in KiB x ms; for a canary what was observed, and in to_cost what was expected */
  uint64_t to_cost;
  uint32_t state;  /* hk_learn_state_t, since then */
  uint32_t reason; /* hk_learn_reason_t */
} hk_learn_decision_t;

/* All zero to begin with. */
typedef struct {
  uint64_t count; /* of all there ever were */
  hk_learn_decision_t ring[HK_LEARN_LOG_ENTRIES];
} hk_learn_log_t;

void hk_learn_log_add(hk_learn_log_t *log, const hk_learn_decision_t *decision);

/* The decision before the last `back` ones; NULL when there are not so many, or no longer. */
const hk_learn_decision_t *hk_learn_log_get(const hk_learn_log_t *log, uint64_t back);

const char *hk_learn_state_text(hk_learn_state_t state);

/* One line, without its end: "epoch 12: 1800 ms instead of 450 ms, it cost 31 % less: learning". */
void hk_learn_decision_text(const hk_learn_decision_t *decision, hk_format_t *format);

HK_C_END

#endif /* HK_POLICY_LEARN_LOG_H */
