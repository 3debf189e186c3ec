/* report/leak_out.h - L9. Who is told of leaks, and when: stderr or a file when the program ends, and who asks from
 * outside. */
#ifndef HK_REPORT_LEAK_OUT_H
#define HK_REPORT_LEAK_OUT_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* At the start: says it now rather than after hours when the file cannot be made. */
void hk_leak_out_check(void);

/* By HAKMEM_LEAKS, if it is on. A failure is said, and changes nothing else. */
void hk_leak_out_at_exit(void);

/* "leaks" and "leaks scan" (serve/serve_command.h): JSON. A scan goes on while `may_go_on`, which is called often, says
 * so. */
const char *hk_leak_out_command(hk_format_t *out, const char *arguments, bool (*may_go_on)(void));

HK_C_END

#endif /* HK_REPORT_LEAK_OUT_H */
