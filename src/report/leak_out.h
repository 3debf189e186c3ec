/* report/leak_out.h - L9. The outputs of the leak report: stderr or a file when the program ends, and the command of
 * the command line tool. */
#ifndef HK_REPORT_LEAK_OUT_H
#define HK_REPORT_LEAK_OUT_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* At the start: checks that the file can be made, and warns if it cannot. */
void hk_leak_out_check(void);

/* Writes the report that HAKMEM_LEAKS selects. On failure it prints a message and changes nothing else. */
void hk_leak_out_at_exit(void);

/* Answers "leaks" and "leaks scan" (serve/serve_command.h) with JSON. The scan calls `may_go_on` often and stops when
 * it returns false. Returns NULL, or the reason why there is no answer. */
const char *hk_leak_out_command(hk_format_t *out, const char *arguments, bool (*may_go_on)(void));

HK_C_END

#endif /* HK_REPORT_LEAK_OUT_H */
