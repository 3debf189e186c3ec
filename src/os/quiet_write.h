/* os/quiet_write.h - L1. A write that raises no signal. */
#ifndef HK_OS_QUIET_WRITE_H
#define HK_OS_QUIET_WRITE_H

#include <stddef.h>

#include "base/compiler.h"

/* Writes as `write`, and returns its result, below 0 the negative error. Where the pipe has no reader, or the file is
 * at the process's limit, the program gets no SIGPIPE or SIGXFSZ, which end it by default; but it does under a filter
 * that may kill for the calls that this takes. Safe in signal handlers. */
long hk_quiet_write(int file, const char *text, size_t bytes);

#endif /* HK_OS_QUIET_WRITE_H */
