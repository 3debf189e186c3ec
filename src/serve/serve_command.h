/* serve/serve_command.h - L10. The commands of the socket: one table. */
#ifndef HK_SERVE_SERVE_COMMAND_H
#define HK_SERVE_SERVE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* Answers a line without its newline. Returns NULL and stores the answer in `out`, or returns the reason why there is
 * none, as one line. Requires that the caller has no heap and holds no lock. `*run` belongs to the client: 0 at first,
 * then the run of the heap profile that ends with the client. A long command calls `may_go_on` often, and stops when it
 * returns false. */
const char *hk_serve_command(hk_format_t *out, const char *line, uint64_t *run, bool (*may_go_on)(void));

HK_C_END

#endif /* HK_SERVE_SERVE_COMMAND_H */
