/* serve/serve_command.h - L10. What the process answers to who asks it from outside: one table of commands. */
#ifndef HK_SERVE_SERVE_COMMAND_H
#define HK_SERVE_SERVE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* Answers a line, without its end. NULL: `out` holds the answer. Otherwise why there is none, in one line. The caller
 * has no heap and holds nothing. `*run` is the client's: 0 at first, then the run of the heap profile that ends with
 * it. What takes long goes on while `may_go_on`, which is called often then, says so. */
const char *hk_serve_command(hk_format_t *out, const char *line, uint64_t *run, bool (*may_go_on)(void));

HK_C_END

#endif /* HK_SERVE_SERVE_COMMAND_H */
