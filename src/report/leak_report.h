/* report/leak_report.h - L9. The leak report as text and as JSON. The text marks every number that comes from
 * samples as an estimate; JSON has the rate and the number of samples. */
#ifndef HK_REPORT_LEAK_REPORT_H
#define HK_REPORT_LEAK_REPORT_H

#include "base/format.h"
#include "inspect/leak.h"

/* Writes text for people: the largest sites, with modules and offsets of their stacks. After a scan it lists the
 * unreachable ones. Consumes the rows of `leak`. */
void hk_leak_report_text(hk_format_t *out, hk_leak_t *leak);

/* Writes JSON for the command line tool: all sites with addresses, and the mappings. Counts the sites that there is no
 * room for. Described in docs/leaks.md. */
void hk_leak_report_json(hk_format_t *out, const hk_leak_t *leak);

#endif /* HK_REPORT_LEAK_REPORT_H */
