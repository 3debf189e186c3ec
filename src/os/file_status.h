/* os/file_status.h - L1. What the kernel knows of an open file, by the call that the C library makes for it: under a
 * filter that came through exec the dynamic loader has made that one. */
#ifndef HK_OS_FILE_STATUS_H
#define HK_OS_FILE_STATUS_H

#include <sys/stat.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Returns 0 or the error number. */
int hk_file_status(long file, struct stat *about);

HK_C_END

#endif /* HK_OS_FILE_STATUS_H */
