/* policy/learn_log.c - L2. See learn_log.h. */
#include "policy/learn_log.h"

#include <stddef.h>

#include "policy/price.h"

void hk_learn_log_add(hk_learn_log_t *log, const hk_learn_decision_t *decision) {
  log->ring[log->count++ % HK_LEARN_LOG_ENTRIES] = *decision;
}

const hk_learn_decision_t *hk_learn_log_find(const hk_learn_log_t *log, uint64_t back) {
  if (back >= log->count || back >= HK_LEARN_LOG_ENTRIES) return NULL;
  return &log->ring[(log->count - 1 - back) % HK_LEARN_LOG_ENTRIES];
}

const char *hk_learn_state_text(hk_learn_state_t state) {
  static const char *const texts[] = {"learning", "frozen", "canary"};
  return (unsigned)state < sizeof texts / sizeof texts[0] ? texts[state] : "unknown";
}

static void timeout_text(uint64_t timeout_ms, hk_format_t *format) {
  if (timeout_ms == HK_PRICE_NEVER) {
    hk_format_text(format, "never");
  } else {
    hk_format_print(format, "%u ms", timeout_ms);
  }
}

/* Returns by how many percent of `base` `large` is above `small`. `base` is one of them. */
static uint64_t percent(uint64_t large, uint64_t small, uint64_t base) {
  uint64_t hundredth = base / 100;
  return hundredth > 0 && large > small ? (large - small) / hundredth : 0;
}

static void reason_text(const hk_learn_decision_t *decision, hk_format_t *format) {
  uint64_t from = decision->from_cost, to = decision->to_cost;
  switch ((hk_learn_reason_t)decision->reason) {
    case hk_learn_started:
      hk_format_text(format, ", the break-even time");
      break;
    case hk_learn_loaded:
      hk_format_text(format, ", as an earlier run had learned");
      break;
    case hk_learn_found_better:
      hk_format_print(format, ", it cost %u%% less", percent(from, to, from));
      break;
    case hk_learn_settled:
      hk_format_text(format, ", nothing was better for long");
      break;
    case hk_learn_cost_more:
      hk_format_print(format, ", it cost %u%% more than expected", percent(from, to, to));
      break;
    case hk_learn_calmed_down:
      hk_format_text(format, ", none is better");
      break;
    case hk_learn_gave_up:
      hk_format_print(format, ", it cost %u%% less than what was frozen", percent(from, to, from));
      break;
    case hk_learn_price_changed:
      hk_format_text(format, ", memory has another price");
      break;
    case hk_learn_measured:
      hk_format_print(format, ", purging and faulting in a MiB take %u us instead of %u", to / 1000, from / 1000);
      break;
  }
}

void hk_learn_decision_text(const hk_learn_decision_t *decision, hk_format_t *format) {
  hk_format_print(format, "epoch %u: ", decision->epoch);
  timeout_text(decision->to_timeout_ms, format);
  if (decision->to_timeout_ms != decision->from_timeout_ms) {
    hk_format_text(format, " instead of ");
    timeout_text(decision->from_timeout_ms, format);
  }
  reason_text(decision, format);
  hk_format_print(format, ": %s", hk_learn_state_text((hk_learn_state_t)decision->state));
}
