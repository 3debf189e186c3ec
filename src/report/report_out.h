/* report/report_out.h - L9. The outputs of reports: stderr and a file, at the end of the program, and earlier on
 * request. */
#ifndef HK_REPORT_REPORT_OUT_H
#define HK_REPORT_REPORT_OUT_H

#include <stdbool.h>

/* Writes the text report to stderr. Allocates nothing. */
void hk_report_write(void);

/* Writes the report to the file of HAKMEM_STATS_FILE, in the form that its name selects. Requires that the file is
 * wanted. `is_last`: at the end of the program. */
void hk_report_write_file(bool is_last);

#endif /* HK_REPORT_REPORT_OUT_H */
