/* report/stats_file.h - L9. The file that HAKMEM_STATS_FILE names: a report for programs, apart from the program's own
 * streams. It is written once at the end into a new file. With HAKMEM_STATS_SIGNAL or HAKMEM_STATS_INTERVAL it is
 * written earlier too, and replaces an earlier report. */
#ifndef HK_REPORT_STATS_FILE_H
#define HK_REPORT_STATS_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether a file is wanted. A file that is renewed and has no %p in its path belongs to the first process
 * only. */
bool hk_stats_file_is_wanted(void);

typedef enum { hk_stats_json, hk_stats_openmetrics, hk_stats_prometheus } hk_stats_form_t;

/* Returns the form that the name of the file selects: .om, .prom, or JSON otherwise. */
hk_stats_form_t hk_stats_file_form(void);

/* At the start: checks that the file can be made. If it cannot, prints a warning, and the file is no longer wanted. */
void hk_stats_file_check(void);

/* Before the end: writes all of `text`, which is NULL where the system refuses memory for it. On the first failure it
 * prints a warning; failures change nothing else. */
void hk_stats_file_renew(const char *text, size_t bytes);

/* At the end: writes all of `text`, or fails where it is NULL, after which no thread writes the file. On failure it
 * prints a warning and changes nothing else. */
void hk_stats_file_finish(const char *text, size_t bytes);

#endif /* HK_REPORT_STATS_FILE_H */
