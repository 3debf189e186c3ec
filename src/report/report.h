/* report/report.h - L9. What the counters and the figures say, for readers: text, JSON, OpenMetrics.
 *
 * What writes into a text needs a long one (report/long_text.h). It allocates nothing and keeps errno, and needs no more of its
 * thread than some KiB of stack and the room that our own thread-local variables take. What there is no memory for, it says. */
#ifndef HK_REPORT_REPORT_H
#define HK_REPORT_REPORT_H

#include "base/format.h"

void hk_report_text(hk_format_t *out);

/* docs/stats.schema.json. */
void hk_report_json(hk_format_t *out);

/* OpenMetrics 1.0, and the text format of Prometheus, which it came from. */
void hk_report_openmetrics(hk_format_t *out);
void hk_report_prometheus(hk_format_t *out);

/* All superslabs and large blocks as JSON, for a picture. */
void hk_report_map(hk_format_t *out);

#endif /* HK_REPORT_REPORT_H */
