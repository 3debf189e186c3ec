/* os/sandbox_status.h - L1. The filter that came through exec, as the kernel's file says it. */
#ifndef HK_OS_SANDBOX_STATUS_H
#define HK_OS_SANDBOX_STATUS_H

#include "base/compiler.h"
#include "os/sandbox.h"

HK_C_BEGIN

/* Reads a file of the form of /proc/self/status. Where it cannot be read, a filter counts as inherited. For the
 * start: a filter that came through exec lets the dynamic loader read files. */
hk_sandbox_t hk_sandbox_status_read(const char *path);

HK_C_END

#endif /* HK_OS_SANDBOX_STATUS_H */
