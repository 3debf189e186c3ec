/* api/stats_file.c - L6. See stats_file.h. */
#include "api/stats_file.h"

#include <stdint.h>
#include <string.h>

#include "api/report_form.h"
#include "api/report_metrics.h"
#include "base/atomic.h"
#include "base/format.h"
#include "os/new_file.h"
#include "os/os.h"
#include "os/renewed_file.h"
#include "policy/option.h"
#include "policy/output_path.h"

/* Chosen: for so long the end of the program waits for the last writing before. */
#define FINISH_WAIT_MS 1000

/* Set at the start: nothing is to be tried at the end. Before a second thread exists. */
static uint64_t owner; /* the process that started with it; 0: not yet */
static bool is_hopeless;

/* The process in which the file is being written, or for the last time: one thread at a time. 0: none. */
static _Atomic(uint64_t) writer;

/* The process that has said that it cannot. */
static _Atomic(uint64_t) complainer;

/* "-" before the path: whoever set the variable knows that the file may not come about. */
static bool is_quiet(void) { return hk_option.stats_file[0] == '-'; }

static const char *pattern(void) { return is_quiet() ? hk_option.stats_file + 1 : hk_option.stats_file; }

static bool is_renewed(void) { return hk_option.stats_signal != 0 || hk_option.stats_interval != 0; }

static bool is_somebody_elses(void) {
  return is_renewed() && owner != 0 && owner != hk_os_process_id() && !hk_output_path_has_process_id(pattern());
}

bool hk_stats_file_is_wanted(void) { return *pattern() != '\0' && !is_hopeless && !is_somebody_elses(); }

static bool has_suffix(const char *name, const char *suffix) {
  size_t length = strlen(name), suffix_length = strlen(suffix);
  return length > suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

hk_stats_form_t hk_stats_file_form(void) {
  if (has_suffix(pattern(), ".om")) return hk_stats_openmetrics;
  return has_suffix(pattern(), ".prom") ? hk_stats_prometheus : hk_stats_json;
}

static hk_renewed_file_is_ours_t *is_ours(void) {
  return hk_stats_file_form() == hk_stats_json ? hk_form_json_is_ours : hk_report_metrics_is_ours;
}

static void complain(int error) {
  if (error == 0 || is_quiet()) return;
  hk_option_warn("HAKMEM_STATS_FILE", hk_option.stats_file, "cannot be written", hk_output_path_reason(error));
}

static void expand(hk_format_t *path, char *buffer) {
  hk_format_init(path, buffer, HK_OUTPUT_PATH_BYTES);
  hk_output_path_expand(path, pattern());
}

void hk_stats_file_check(void) {
  if (owner != 0 || !hk_stats_file_is_wanted()) return;
  owner = hk_os_process_id();
  char buffer[HK_OUTPUT_PATH_BYTES];
  hk_format_t path;
  expand(&path, buffer);
  int error = is_renewed() ? hk_renewed_file_obstacle(path.text, is_ours()) : hk_new_file_obstacle(path.text);
  complain(error);
  is_hopeless = error != 0;
}

static bool may_write(void) {
  uint64_t own = hk_os_process_id(), found = hk_load_relaxed(&writer);
  return found != own && hk_compare_exchange_acquire(&writer, &found, own);
}

void hk_stats_file_renew(const char *text, size_t bytes) {
  if (!may_write()) return;
  char buffer[HK_OUTPUT_PATH_BYTES];
  hk_format_t path;
  expand(&path, buffer);
  int error = hk_renewed_file_write(path.text, is_ours(), text, bytes);
  if (error != 0 && hk_load_relaxed(&complainer) != hk_os_process_id()) {
    hk_store_relaxed(&complainer, hk_os_process_id());
    complain(error);
  }
  hk_store_release(&writer, 0);
}

/* The last writing must not be overtaken by one before it. */
static void wait_for_writer(void) {
  static const uint32_t nothing;
  for (unsigned waited_ms = 0; waited_ms < FINISH_WAIT_MS && !may_write(); waited_ms++) hk_os_wait_for(&nothing, 0, 1);
}

void hk_stats_file_finish(const char *text, size_t bytes) {
  wait_for_writer();
  char buffer[HK_OUTPUT_PATH_BYTES];
  hk_format_t path;
  expand(&path, buffer);
  complain(is_renewed() ? hk_renewed_file_write(path.text, is_ours(), text, bytes)
                        : hk_new_file_write(path.text, text, bytes));
}
