/* report/report_out.h - L9. Where reports go, and when: to stderr and into a file at the end, and before when somebody asks. */
#ifndef HK_REPORT_REPORT_OUT_H
#define HK_REPORT_REPORT_OUT_H

#include <stdbool.h>

/* Writes the summary to stderr. Allocates nothing. */
void hk_report_write(void);

/* To the file of HAKMEM_STATS_FILE, which is wanted, in the form that its name says: at the end, or before, in a process that
 * renews it. */
void hk_report_write_file(bool is_last);

#endif /* HK_REPORT_REPORT_OUT_H */
