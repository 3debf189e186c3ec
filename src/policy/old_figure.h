/* policy/old_figure.h - L2. The earlier names of figures and counters (old_figure.def). */
#ifndef HK_POLICY_OLD_FIGURE_H
#define HK_POLICY_OLD_FIGURE_H

#include "base/compiler.h"

HK_C_BEGIN

/* Returns the earlier name of a figure of `section` (a counter's is "events"); NULL when it never had another one. */
const char *hk_old_figure_name(const char *section, const char *name);

HK_C_END

#endif /* HK_POLICY_OLD_FIGURE_H */
