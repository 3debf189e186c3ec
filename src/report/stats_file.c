/* report/stats_file.c - L9. See stats_file.h. */
#include "report/stats_file.h"

#include <errno.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/text.h"
#include "os/os.h"
#include "os/process.h"
#include "policy/option.h"
#include "report/output_file.h"
#include "report/report_form.h"
#include "report/report_metrics.h"

/* Chosen: longest wait at the end of the program for a write that another thread has begun. */
#define FINISH_WAIT_MS 1000

static hk_output_file_t file = {.variable = "HAKMEM_STATS_FILE", .value = &hk_option.stats_file};

/* Mark of the process in which a thread writes the file, or has written it for the last time; 0: none. One thread
 * writes at a time. */
static _Atomic(uint64_t) writer;

/* Mark of the process that has warned that it cannot write the file. */
static _Atomic(uint64_t) complainer;

static bool is_renewed(void) { return hk_option.stats_signal != 0 || hk_option.stats_interval != 0; }

bool hk_stats_file_is_wanted(void) {
  return hk_output_file_is_wanted(&file) && (!is_renewed() || hk_output_file_is_own(&file));
}

hk_stats_form_t hk_stats_file_form(void) {
  if (hk_text_ends(hk_output_file_pattern(&file), ".om")) return hk_stats_openmetrics;
  return hk_text_ends(hk_output_file_pattern(&file), ".prom") ? hk_stats_prometheus : hk_stats_json;
}

/* Returns the test for files that may be replaced; NULL when the file is written only once. */
static hk_renewed_file_is_ours_t *is_ours(void) {
  if (!is_renewed()) return NULL;
  return hk_stats_file_form() == hk_stats_json ? hk_form_json_is_ours : hk_report_metrics_is_ours;
}

void hk_stats_file_check(void) { hk_output_file_check(&file, is_ours()); }

static bool may_write(void) {
  uint64_t own = hk_process_mark(), found = hk_load_relaxed(&writer);
  return found != own && hk_compare_exchange_acquire(&writer, &found, own);
}

static int write_all(const char *text, size_t bytes) {
  return text != NULL ? hk_output_file_write(&file, is_ours(), text, bytes) : ENOMEM;
}

void hk_stats_file_renew(const char *text, size_t bytes) {
  if (!may_write()) return;
  int error = write_all(text, bytes);
  if (error != 0 && hk_load_relaxed(&complainer) != hk_process_mark()) {
    hk_store_relaxed(&complainer, hk_process_mark());
    hk_output_file_complain(&file, error);
  }
  hk_store_release(&writer, 0);
}

/* Waits, so that an earlier write cannot replace the last one. */
static void wait_for_writer(void) {
  for (unsigned waited_ms = 0; waited_ms < FINISH_WAIT_MS && !may_write(); waited_ms++) hk_os_pause(1);
}

void hk_stats_file_finish(const char *text, size_t bytes) {
  wait_for_writer();
  hk_output_file_complain(&file, write_all(text, bytes));
}
