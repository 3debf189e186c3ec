/* api/stats_file.c - L6. See stats_file.h. */
#include "api/stats_file.h"

#include <string.h>

#include "base/format.h"
#include "os/new_file.h"
#include "policy/option.h"
#include "policy/output_path.h"

/* Set at the start: nothing is to be tried at the end. Before a second thread exists. */
static bool is_hopeless;

/* "-" before the path: whoever set the variable knows that the file may not come about. */
static bool is_quiet(void) { return hk_option.stats_file[0] == '-'; }

static const char *pattern(void) { return is_quiet() ? hk_option.stats_file + 1 : hk_option.stats_file; }

bool hk_stats_file_is_wanted(void) { return *pattern() != '\0' && !is_hopeless; }

static bool has_suffix(const char *name, const char *suffix) {
  size_t length = strlen(name), suffix_length = strlen(suffix);
  return length > suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

hk_stats_form_t hk_stats_file_form(void) {
  if (has_suffix(pattern(), ".om")) return hk_stats_openmetrics;
  return has_suffix(pattern(), ".prom") ? hk_stats_prometheus : hk_stats_json;
}

static void complain(int error) {
  if (error == 0 || is_quiet()) return;
  hk_option_warn("HAKMEM_STATS_FILE", hk_option.stats_file, "cannot be written", hk_output_path_reason(error));
}

void hk_stats_file_check(void) {
  if (!hk_stats_file_is_wanted()) return;
  char buffer[HK_OUTPUT_PATH_BYTES];
  hk_format_t path;
  hk_format_init(&path, buffer, sizeof buffer);
  hk_output_path_expand(&path, pattern());
  int error = hk_new_file_obstacle(path.text);
  complain(error);
  is_hopeless = error != 0;
}

void hk_stats_file_write(const char *text, size_t bytes) {
  char buffer[HK_OUTPUT_PATH_BYTES];
  hk_format_t path;
  hk_format_init(&path, buffer, sizeof buffer);
  hk_output_path_expand(&path, pattern());
  complain(hk_new_file_write(path.text, text, bytes));
}
