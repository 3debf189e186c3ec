/* report/stats_file.h - L9. The file that HAKMEM_STATS_FILE names: a report for programs, apart from the program's own
 * streams. Written once at the end into a new file; or, where that was asked for, in between too, and then it replaces
 * what was there if that is ours.
 */
#ifndef HK_REPORT_STATS_FILE_H
#define HK_REPORT_STATS_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether one is wanted. A file that is renewed and has one name for all is its first process's alone. */
bool hk_stats_file_is_wanted(void);

typedef enum { hk_stats_json, hk_stats_openmetrics, hk_stats_prometheus } hk_stats_form_t;

/* What its name says that it is to have in it: .om and .prom. */
hk_stats_form_t hk_stats_file_form(void);

/* At the start: says it now rather than after hours when the file cannot be made. It is then no longer wanted. */
void hk_stats_file_check(void);

/* In between: all of `text`. A failure is said, once, and changes nothing else. */
void hk_stats_file_renew(const char *text, size_t bytes);

/* At the end, after which nothing is written any more. A failure is said, and changes nothing else. */
void hk_stats_file_finish(const char *text, size_t bytes);

#endif /* HK_REPORT_STATS_FILE_H */
