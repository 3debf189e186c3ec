/* api/profile_command.c - L6. See profile_command.h. */
#include "api/profile_command.h"

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "policy/safety.h"
#include "policy/sampling.h"
#include "profile/output.h"
#include "profile/pinned.h"
#include "profile/pprof.h"
#include "profile/profile.h"
#include "profile/site_list.h"

#define NS_PER_MS UINT64_C(1000000)

/* Of the one thread that answers. */
static char reason[160];

/* ---- Start and stop. */

/* A number of bytes that a rate may be; 0 where the text is none. */
static uint64_t read_rate(const char *text) {
  uint64_t rate;
  const char *rest = hk_text_number(text, &rate);
  return rest != NULL && *rest == '\0' && rate <= HK_SAMPLING_RATE_MOST ? rate : 0;
}

static const char *runs_already(void) {
  hk_profile_span_t span = hk_profile_span();
  hk_format_t text;
  hk_format_init(&text, reason, sizeof reason);
  hk_format_print(&text, "a profile runs already, for %u s, with a sample for each %u bytes; it goes on as it is",
                  span.duration_ns / (1000 * NS_PER_MS), span.rate_bytes);
  return reason;
}

const char *hk_profile_command_start(hk_format_t *out, const char *arguments) {
  if (!HK_SAFETY) return "this variant has no heap profile: libhakmem.so has";
  uint64_t rate = read_rate(arguments);
  if (rate == 0 && *arguments != '\0') return "profile start takes a number of bytes, from 1 to 4294967296";
  if (!hk_profile_start(rate)) return runs_already();
  return hk_profile_command_state(out, "");
}

const char *hk_profile_command_stop(hk_format_t *out, const char *arguments) {
  (void)arguments;
  if (!hk_profile_stop()) return "no profile runs";
  return hk_profile_command_state(out, "");
}

const char *hk_profile_command_state(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_profile_span_t span = hk_profile_span();
  hk_profile_sums_t sums = hk_profile_sums();
  hk_format_print(out, "{\"running\":%s,\"rate\":%u,\"time_ms\":%u,\"duration_ms\":%u,\"samples\":%u,\"lost\":%u}\n",
                  hk_profile_is_running() ? "true" : "false", span.rate_bytes, span.time_ns / NS_PER_MS,
                  span.duration_ns / NS_PER_MS, sums.samples, sums.lost);
  return NULL;
}

/* ---- What it has found. */

static const char no_profile[] = "no profile was started in this process";

static const char *result(bool success) {
  return success ? NULL : "the profile is too long, or there is no memory for it";
}

const char *hk_profile_command_pprof(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_profile_span_t span = hk_profile_span();
  if (span.rate_bytes == 0) return no_profile;
  hk_output_text_t answer;
  hk_output_text_init(&answer, out, 0);
  return result(hk_pprof_write(&answer.output, &span));
}

const char *hk_profile_command_sites(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_profile_span_t span = hk_profile_span();
  if (span.rate_bytes == 0) return no_profile;
  bool has_pinned = hk_pinned_estimate();
  hk_output_text_t answer;
  hk_output_text_init(&answer, out, 0);
  return result(hk_site_list_write(&answer.output, span.rate_bytes, has_pinned));
}
