/* serve/profile_command.c - L10. See profile_command.h. */
#include "serve/profile_command.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "api/instruments.h"
#include "base/text.h"
#include "inspect/pinned.h"
#include "inspect/profile.h"
#include "inspect/site_list.h"
#include "policy/safety.h"
#include "policy/sampling.h"
#include "pprof/output.h"
#include "pprof/pprof.h"

#define NS_PER_MS UINT64_C(1000000)

/* Used by the serve thread only. */
static char reason[160];

/* ---- Start and stop. */

typedef struct {
  uint64_t rate; /* 0: the rate of the option */
  bool stays;
} start_t;

/* Parses "[bytes] [stay]". Returns false for any other text. */
static bool read_start(const char *text, start_t *start) {
  *start = (start_t){.rate = 0};
  const char *rest = hk_text_number(text, &start->rate);
  if (rest != NULL && (start->rate == 0 || start->rate > HK_SAMPLING_RATE_MAX)) return false;
  if (rest == NULL) {
    rest = text;
  } else if (*rest == ' ') {
    rest++;
  } else if (*rest != '\0') {
    return false;
  }
  start->stays = strcmp(rest, "stay") == 0;
  return start->stays || *rest == '\0';
}

static const char *runs_already(void) {
  hk_profile_facts_t facts = hk_profile_facts();
  hk_format_t text;
  hk_format_init(&text, reason, sizeof reason);
  hk_format_print(&text, "a profile is already running, for %u s, with a sample for each %n; it continues unchanged",
                  facts.duration_ns / (1000 * NS_PER_MS), facts.rate_bytes);
  return reason;
}

const char *hk_profile_command_start(hk_format_t *out, const char *arguments, uint64_t *run) {
  if (!HK_SAFETY) return HK_PROFILE_ABSENT;
  start_t start;
  if (!read_start(arguments, &start)) return "profile start accepts a number of bytes, from 1 to 4294967296, and stay";
  if (!hk_profile_start(start.rate)) return runs_already();
  if (!start.stays) *run = hk_profile_run();
  return hk_profile_command_state(out, "");
}

const char *hk_profile_command_stop(hk_format_t *out, const char *arguments) {
  (void)arguments;
  if (!hk_profile_stop()) return "no profile runs";
  return hk_profile_command_state(out, "");
}

/* Ends the run of a client that has gone. A run that another client or the program has begun since goes on. */
void hk_profile_command_end(uint64_t run) {
  if (run != 0 && run == hk_profile_run()) (void)hk_profile_stop();
}

const char *hk_profile_command_state(hk_format_t *out, const char *arguments) {
  (void)arguments;
  if (!HK_SAFETY) return HK_PROFILE_ABSENT;
  hk_profile_facts_t facts = hk_profile_facts();
  hk_profile_sums_t sums = hk_profile_sums();
  hk_format_print(out, "{\"running\":%s,\"rate\":%u,\"time_ms\":%u,\"duration_ms\":%u,\"samples\":%u,\"lost\":%u}\n",
                  hk_profile_is_running() ? "true" : "false", facts.rate_bytes, facts.time_ns / NS_PER_MS,
                  facts.duration_ns / NS_PER_MS, sums.samples, sums.lost);
  return NULL;
}

/* ---- Results. */

static const char no_profile[] = "no profile was started in this process";

static const char *result(bool success) {
  return success ? NULL : "the profile is too long, or there is no memory for it";
}

const char *hk_profile_command_pprof(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_profile_facts_t facts = hk_profile_facts();
  if (facts.rate_bytes == 0) return no_profile;
  hk_output_text_t answer;
  hk_output_text_init(&answer, out, 0);
  return result(hk_pprof_write(&answer.output, &facts));
}

const char *hk_profile_command_sites(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_profile_facts_t facts = hk_profile_facts();
  if (facts.rate_bytes == 0) return no_profile;
  bool has_pinned = hk_pinned_estimate();
  hk_output_text_t answer;
  hk_output_text_init(&answer, out, 0);
  return result(hk_site_list_write(&answer.output, facts.rate_bytes, has_pinned));
}
