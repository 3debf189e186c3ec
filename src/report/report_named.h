/* report/report_named.h - L9. Named heaps and tags in the reports: a table, JSON elements, metrics with a label. Each
 * writes nothing while the program has none. */
#ifndef HK_REPORT_REPORT_NAMED_H
#define HK_REPORT_REPORT_NAMED_H

#include <stdbool.h>

#include "base/format.h"
#include "inspect/named_figures.h"

void hk_report_named_text(hk_format_t *out, const hk_named_table_t *table);
void hk_report_named_json(hk_format_t *out, const hk_named_table_t *table);
void hk_report_named_metrics(hk_format_t *out, const hk_named_table_t *table, bool is_openmetrics);

#endif /* HK_REPORT_REPORT_NAMED_H */
