/* api/report.h - L6. What the counters say, for readers: text, JSON, XML, and glibc's structs. */
#ifndef HK_API_REPORT_H
#define HK_API_REPORT_H

/* Writes the summary to stderr. Allocates nothing. */
void hk_report_write(void);

#endif /* HK_API_REPORT_H */
