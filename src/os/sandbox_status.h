/* os/sandbox_status.h - L1. Reads from the kernel's files whether a filter came through exec, and of which kind. All by
 * calls that the dynamic loader makes too. */
#ifndef HK_OS_SANDBOX_STATUS_H
#define HK_OS_SANDBOX_STATUS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "os/sandbox.h"

HK_C_BEGIN

/* Reads a file of the form of /proc/self/status. A file that cannot be read counts as an inherited filter. Called at
 * the start: a filter that came through exec lets the dynamic loader read files. */
hk_sandbox_t hk_sandbox_status_read(const char *path);

/* Returns whether both processes have as many filters, by files of that form: the process, and the first one of its pid
 * namespace, which has none but its container's. */
bool hk_sandbox_status_is_same(const char *path, const char *firsts);

/* Returns whether the process is in a container, by a variable of the environment (NULL: there is none) or a file that
 * container engines make, the last of which is followed by NULL. */
bool hk_sandbox_status_is_contained(const char *const *environment, const char *const *files);

/* The files that container engines make. */
extern HK_HIDDEN const char *const hk_sandbox_container_files[];

HK_C_END

#endif /* HK_OS_SANDBOX_STATUS_H */
