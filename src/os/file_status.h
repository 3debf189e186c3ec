/* os/file_status.h - L1. What the kernel knows of an open file, by the same system call that the C library makes.
 * A filter that came through exec permits that call, because the dynamic loader has made it (sandbox.h). */
#ifndef HK_OS_FILE_STATUS_H
#define HK_OS_FILE_STATUS_H

#include <sys/stat.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Returns 0 or the error number. */
int hk_file_status(long file, struct stat *about);

HK_C_END

#endif /* HK_OS_FILE_STATUS_H */
