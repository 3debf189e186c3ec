/* serve/guard_command.c - L10. See guard_command.h. */
#include "serve/guard_command.h"

#include <stdint.h>

#include "api/guarded.h"
#include "base/text.h"
#include "os/os.h"
#include "policy/sampling.h"
#include "policy/stat.h"

static uint64_t counted(hk_stat_id_t id) { return hk_load_relaxed(&hk_stat_process.value[id]); }

const char *hk_guard_command_start(hk_format_t *out, const char *arguments) {
  uint64_t rate = HK_GUARD_RATE_RECOMMENDED;
  const char *end = *arguments != '\0' ? hk_text_number(arguments, &rate) : arguments;
  if (end == NULL || *end != '\0' || rate == 0 || rate > HK_SAMPLING_GUARD_RATE_MAX)
    return "guard start accepts a number of allocations, from 1 to 1000000000";
  switch (hk_guarded_start(rate)) {
    case hk_guard_no_memory:
      return "the system refuses the addresses for guard slots";
    case hk_guard_no_handler:
      return "a system call filter may kill the process for a signal handler";
    default:
      return hk_guard_command_state(out, "");
  }
}

const char *hk_guard_command_stop(hk_format_t *out, const char *arguments) {
  (void)arguments;
  if (hk_guarded_rate() == 0) return "no allocation is guarded";
  hk_guarded_stop();
  return hk_guard_command_state(out, "");
}

const char *hk_guard_command_state(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_guard_usage_t usage = hk_guard_slot_usage(hk_os_coarse_ms());
  hk_format_print(out, "{\"rate\":%u,\"recommended\":%u,\"slots\":%u,\"large_slots\":%u,\"live\":%u,\"live_bytes\":%u,",
                  hk_guarded_rate(), (uint64_t)HK_GUARD_RATE_RECOMMENDED, (uint64_t)usage.slots,
                  (uint64_t)usage.large_slots, (uint64_t)usage.live, (uint64_t)usage.live_bytes);
  hk_format_print(out, "\"protected\":%u,\"age_ms\":%u,\"guarded\":%u,\"missed\":%u,\"found\":%u}\n",
                  (uint64_t)usage.freed, usage.age_ms, counted(hk_stat_guarded), counted(hk_stat_guard_missed),
                  counted(hk_stat_guard_found));
  return NULL;
}
