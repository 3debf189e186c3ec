/* os/sandbox_status.h - L1. Reads from the kernel's file whether a filter came through exec. */
#ifndef HK_OS_SANDBOX_STATUS_H
#define HK_OS_SANDBOX_STATUS_H

#include "base/compiler.h"
#include "os/sandbox.h"

HK_C_BEGIN

/* Reads a file of the form of /proc/self/status. A file that cannot be read counts as an inherited filter. Called at
 * the start: a filter that came through exec lets the dynamic loader read files. */
hk_sandbox_t hk_sandbox_status_read(const char *path);

HK_C_END

#endif /* HK_OS_SANDBOX_STATUS_H */
