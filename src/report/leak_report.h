/* report/leak_report.h - L9. What is still live, in words and as JSON. Every number from samples is told as the estimate that it is. */
#ifndef HK_REPORT_LEAK_REPORT_H
#define HK_REPORT_LEAK_REPORT_H

#include "base/format.h"
#include "inspect/leak.h"

/* Lines for people: the largest sites, with modules and offsets for their stacks. Of a scan those that nothing leads to. */
void hk_leak_report_text(hk_format_t *out, hk_leak_t *leak);

/* All sites, with addresses, and what is mapped, for the tool. What there is no room for is counted. docs/leaks.md. */
void hk_leak_report_json(hk_format_t *out, const hk_leak_t *leak);

#endif /* HK_REPORT_LEAK_REPORT_H */
