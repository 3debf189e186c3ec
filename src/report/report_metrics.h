/* report/report_metrics.h - L9. The figures as OpenMetrics, or in the text format of Prometheus. */
#ifndef HK_REPORT_REPORT_METRICS_H
#define HK_REPORT_REPORT_METRICS_H

#include <stdbool.h>

#include "base/format.h"
#include "inspect/snapshot.h"

typedef enum { hk_metrics_openmetrics, hk_metrics_prometheus } hk_metrics_form_t;

/* Writes all figures of the snapshot, from the first comment line to the end of the form. */
void hk_report_metrics(hk_format_t *out, hk_metrics_form_t form, const hk_snapshot_t *snapshot);

/* Returns whether a file with this beginning was written by the library. */
bool hk_report_metrics_is_ours(const char *beginning);

#endif /* HK_REPORT_REPORT_METRICS_H */
