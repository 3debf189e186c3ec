/* report/report_out.c - L9. See report_out.h. */
#include "report/report_out.h"

#include "api/lifecycle.h"
#include "base/units.h"
#include "hakmem/hakmem.h"
#include "inspect/snapshot.h"
#include "os/os.h"
#include "policy/option.h"
#include "report/guard_report.h"
#include "report/leak_out.h"
#include "report/learn_file.h"
#include "report/long_text.h"
#include "report/profile_file.h"
#include "report/report.h"
#include "report/stats_file.h"
#include "space/dirty.h"
#include "space/recording.h"

/* ---- Outputs. */

/* Chosen: room for the report of a few heaps, where address space is rare. */
#define LEAST_BYTES (256 * HK_KIB)

/* Returns false when the system refuses memory for the text. */
static bool deliver(void (*report)(hk_format_t *out), void (*write)(const char *text, size_t bytes)) {
  hk_format_t text;
  if (!hk_long_text_begin(&text, LEAST_BYTES)) return false;
  report(&text);
  write(text.text, text.length);
  hk_long_text_end(&text);
  return true;
}

void hk_report_write(void) {
  static const char refusal[] = "hakmem: no report: the system refuses memory for it\n";
  if (!deliver(hk_report_text, hk_os_write_stderr)) hk_os_write_stderr(refusal, sizeof refusal - 1);
}

void hk_report_write_file(bool is_last) {
  hk_stats_form_t form = hk_stats_file_form();
  void (*write)(const char *text, size_t bytes) = is_last ? hk_stats_file_finish : hk_stats_file_renew;
  bool is_delivered = deliver(form == hk_stats_openmetrics  ? hk_report_openmetrics
                              : form == hk_stats_prometheus ? hk_report_prometheus
                                                            : hk_report_json,
                              write);
  if (!is_delivered) write(NULL, 0);
}

/* ---- Start and end of the program. */

/* Returns whether a failure to write the file of hk_output_file_t gives a line on stderr. */
static bool has_complaint(const char *value) { return *value != '\0' && *value != '-'; }

/* Returns whether the library may write to stderr at the end: then a copy of stderr is kept, because the program may
 * have closed it by then, and have a file of its own at that descriptor. Without need none is kept: where a daemon
 * closes stderr, the reader of a pipe would wait for the daemon's end. */
static bool may_write_at_end(void) {
  bool has_leaks_on_stderr = hk_option.leaks != hk_leaks_off && *hk_option.leaks_file != '-';
  bool has_literal_path = *hk_option.trace != '\0' || *hk_option.learn_file != '\0'; /* a "-" is part of it */
  return hk_option.stats || hk_option.stats_signal != 0 || has_leaks_on_stderr || has_literal_path ||
         has_complaint(hk_option.stats_file) || has_complaint(hk_option.profile_file);
}

__attribute__((constructor)) static void prepare(void) {
  hk_lifecycle_prepare();
  hk_snapshot_note_start();
  if (may_write_at_end()) hk_os_keep_stderr();
  hk_stats_file_check();
  hk_profile_file_check();
  hk_leak_out_check();
  hk_guard_report_check();
  hk_learn_file_load();
  hk_recording_start(hk_dirty_in_use(), hk_option.mode);
}

/* Runs late, so that it counts what the program's own exit handlers do. */
__attribute__((destructor)) static void report_at_exit(void) {
  hk_leak_out_at_exit(); /* first, while all live blocks are the program's */
  if (hk_option.stats) hk_report_write();
  if (hk_stats_file_is_wanted()) hk_report_write_file(true);
  hk_profile_file_finish();
  hk_learn_file_save();
  hk_recording_finish();
}

void hakmem_malloc_stats(void) { hk_report_write(); }
