/* api/crash_report.h - L6. HAKMEM_CRASH_REPORT: what is known when the program crashes. */
#ifndef HK_API_CRASH_REPORT_H
#define HK_API_CRASH_REPORT_H

/* Once the options are read; does nothing unless the report was asked for. The calling thread gets a stack for it. */
void hk_crash_report_install(void);

/* For each thread that begins to use the allocator, and when it ends: its stack for the report. Do nothing unless the report
 * was asked for. */
void hk_crash_report_begin_thread(void);
void hk_crash_report_end_thread(void);

#endif /* HK_API_CRASH_REPORT_H */
