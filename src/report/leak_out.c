/* report/leak_out.c - L9. See leak_out.h. */
#include "report/leak_out.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/units.h"
#include "inspect/profile.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/safety.h"
#include "report/leak_report.h"
#include "report/long_text.h"
#include "report/output_file.h"

/* Chosen: room for some hundred sites and for the mappings. */
#define LEAST_BYTES (2 * HK_MIB)

static const char no_memory[] = "hakmem: leaks: the system refuses memory for the report\n";

static hk_output_file_t file = {.variable = "HAKMEM_LEAKS_FILE", .value = &hk_option.leaks_file};

static bool has_file(void) { return *hk_output_file_pattern(&file) != '\0'; }

static bool is_wanted(void) { return hk_option.leaks != hk_leaks_off; }

void hk_leak_out_check(void) {
  if (is_wanted()) hk_output_file_check(&file, NULL);
}

/* ---- At the end of the program. */

static void tell(hk_leak_t *leak) {
  hk_format_t text;
  if (!hk_long_text_begin(&text, LEAST_BYTES)) {
    hk_os_write_stderr(no_memory, sizeof no_memory - 1);
    return;
  }
  if (has_file()) {
    hk_leak_report_json(&text, leak);
    hk_output_file_complain(&file, hk_output_file_write(&file, NULL, text.text, text.length));
  } else {
    hk_leak_report_text(&text, leak);
    hk_os_write_stderr(text.text, text.length);
  }
  hk_long_text_end(&text);
}

/* Without a file each process writes its own report to stderr. */
static bool has_reader(void) {
  return !has_file() || (hk_output_file_is_wanted(&file) && hk_output_file_is_own(&file));
}

/* Never true in a build without checks: hk_profile_start has printed a message there. */
static bool has_samples(void) { return hk_profile_is_running() || hk_profile_sums().samples > 0; }

static HK_COLD void find_and_tell(uintptr_t frame) {
  hk_leak_t leak;
  if (!hk_leak_take(&leak, hk_option.leaks == hk_leaks_scan, frame, NULL)) {
    hk_os_write_stderr(no_memory, sizeof no_memory - 1);
    return;
  }
  tell(&leak);
  hk_leak_end(&leak);
}

/* Not inlined: the scan leaves out the stack below this frame. */
HK_NOINLINE void hk_leak_out_at_exit(void) {
  if (is_wanted() && has_reader() && has_samples()) find_and_tell((uintptr_t)__builtin_frame_address(0));
}

/* ---- The command. */

HK_NOINLINE const char *hk_leak_out_command(hk_format_t *out, const char *arguments, bool (*may_go_on)(void)) {
  bool is_scanned = strcmp(arguments, "scan") == 0;
  if (!is_scanned && *arguments != '\0') return "leaks accepts no argument but scan";
  if (!HK_SAFETY) return HK_PROFILE_ABSENT;
  if (!has_samples()) return "nothing was sampled: the heap profile is off";
  hk_leak_t leak;
  uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
  if (!hk_leak_take(&leak, is_scanned, frame, may_go_on)) return "the system refuses memory";
  bool is_stopped = leak.scan == hk_leak_stopped;
  if (!is_stopped) hk_leak_report_json(out, &leak);
  hk_leak_end(&leak);
  return is_stopped ? "the program's rights have changed since the scan began" : NULL;
}
