/* report/guard_report.h - L9. The report about a memory error that a guard slot has caught: text for people, JSON for
 * machines, and the file that the JSON goes to. docs/guards.md describes both. */
#ifndef HK_REPORT_GUARD_REPORT_H
#define HK_REPORT_GUARD_REPORT_H

#include "base/compiler.h"

HK_C_BEGIN

/* At the start: checks that the file of `guard_file` can be made, and warns if it cannot. */
void hk_guard_report_check(void);

HK_C_END

#endif /* HK_REPORT_GUARD_REPORT_H */
