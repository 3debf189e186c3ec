/* report/report.h - L9. The counters and figures as text, JSON and OpenMetrics.
 *
 * These functions write into a long text (report/long_text.h). They allocate nothing and keep errno. They use some KiB
 * of stack, and the library's thread-local variables. Where the system refuses memory, the text says so.
 */
#ifndef HK_REPORT_REPORT_H
#define HK_REPORT_REPORT_H

#include "base/format.h"

/* Writes the text that HAKMEM_STATS=1 prints at the end of the program. */
void hk_report_text(hk_format_t *out);

/* Writes one JSON object. Its schema is docs/stats.schema.json. */
void hk_report_json(hk_format_t *out);

/* Write OpenMetrics 1.0, and the older text format of Prometheus. */
void hk_report_openmetrics(hk_format_t *out);
void hk_report_prometheus(hk_format_t *out);

/* Writes all superslabs and large blocks as JSON, for a map of the memory. */
void hk_report_map(hk_format_t *out);

#endif /* HK_REPORT_REPORT_H */
