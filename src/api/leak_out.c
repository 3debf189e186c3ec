/* api/leak_out.c - L6. See leak_out.h. */
#include "api/leak_out.h"

#include <stdint.h>
#include <string.h>

#include "api/leak_report.h"
#include "base/units.h"
#include "os/new_file.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/output_path.h"
#include "profile/profile.h"

/* Chosen: some 10,000 sites. Where the system has not that much, some hundred. */
#define REPORT_BYTES (16 * HK_MIB)
#define SMALL_BYTES (2 * HK_MIB)

static const char no_memory[] = "hakmem: leaks: the system refuses memory for the report\n";

/* ---- The file. */

/* "-" before the path: whoever set the variable knows that the file may not come about. */
static bool is_quiet(void) { return hk_option.leaks_file[0] == '-'; }

static const char *pattern(void) { return is_quiet() ? hk_option.leaks_file + 1 : hk_option.leaks_file; }

static bool is_hopeless;
static uint64_t owner; /* the process that started with it; 0: not yet */

static bool is_wanted(void) { return hk_option.leaks != hk_leaks_off; }

static bool is_somebody_elses(void) {
  return *pattern() != '\0' && owner != 0 && owner != hk_os_process_id() && !hk_output_path_has_process_id(pattern());
}

static void complain(int error) {
  if (error == 0 || is_quiet()) return;
  hk_option_warn("HAKMEM_LEAKS_FILE", hk_option.leaks_file, "cannot be written", hk_output_path_reason(error));
}

static void expand(hk_format_t *path, char *buffer) {
  hk_format_init(path, buffer, HK_OUTPUT_PATH_BYTES);
  hk_output_path_expand(path, pattern());
}

void hk_leak_out_check(void) {
  if (!is_wanted() || *pattern() == '\0') return;
  owner = hk_os_process_id();
  char buffer[HK_OUTPUT_PATH_BYTES];
  hk_format_t path;
  expand(&path, buffer);
  int error = hk_new_file_obstacle(path.text);
  complain(error);
  is_hopeless = error != 0;
}

static void write_file(const hk_format_t *text) {
  char buffer[HK_OUTPUT_PATH_BYTES];
  hk_format_t path;
  expand(&path, buffer);
  complain(hk_new_file_write(path.text, text->text, text->length));
}

/* ---- When the program ends. */

static void tell(hk_leak_t *leak) {
  size_t bytes = REPORT_BYTES;
  char *buffer = hk_os_reserve(bytes, hk_os_page_size());
  if (buffer == NULL) buffer = hk_os_reserve(bytes = SMALL_BYTES, hk_os_page_size());
  if (buffer == NULL) {
    hk_os_write_stderr(no_memory, sizeof no_memory - 1);
    return;
  }
  hk_format_t text;
  hk_format_init(&text, buffer, bytes);
  if (*pattern() != '\0') {
    hk_leak_report_json(&text, leak);
    write_file(&text);
  } else {
    hk_leak_report_text(&text, leak);
    hk_os_write_stderr(text.text, text.length);
  }
  (void)hk_os_unmap(buffer, bytes);
}

/* Not in a build without checks, which has said so when it was to begin. */
static bool has_samples(void) { return hk_profile_is_running() || hk_profile_sums().samples > 0; }

/* A frame of its own, above which nothing of the scan's is on the stack. */
HK_NOINLINE void hk_leak_out_at_exit(void) {
  if (!is_wanted() || is_hopeless || is_somebody_elses() || !has_samples()) return;
  hk_leak_t leak;
  if (!hk_leak_take(&leak, hk_option.leaks == hk_leaks_scan, (uintptr_t)__builtin_frame_address(0))) {
    hk_os_write_stderr(no_memory, sizeof no_memory - 1);
    return;
  }
  tell(&leak);
  hk_leak_end(&leak);
}

/* ---- Who asks. */

HK_NOINLINE const char *hk_leak_out_command(hk_format_t *out, const char *arguments) {
  bool is_scanned = strcmp(arguments, "scan") == 0;
  if (!is_scanned && *arguments != '\0') return "leaks takes no other word than scan";
  if (!has_samples()) return "nothing was sampled: the heap profile is off";
  hk_leak_t leak;
  if (!hk_leak_take(&leak, is_scanned, (uintptr_t)__builtin_frame_address(0))) return "the system refuses memory";
  hk_leak_report_json(out, &leak);
  hk_leak_end(&leak);
  return NULL;
}
