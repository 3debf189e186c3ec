/* os/renewed_file.h - L1. A file of the library's that is replaced again and again, in one step each time, while others
 * may read it at any moment. Bare system calls: no allocation, errno stays. */
#ifndef HK_OS_RENEWED_FILE_H
#define HK_OS_RENEWED_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Bytes of an existing file that `is_ours` gets, with a zero byte. */
#define HK_RENEWED_FILE_LOOK_BYTES 128

/* Returns whether a file with this beginning is one of the library's, perhaps of an earlier run. The text ends with a
 * zero byte. */
typedef bool hk_renewed_file_is_ours_t(const char *beginning);

/* Returns why the file would not be replaced, or 0. EEXIST: it is neither empty nor the library's, belongs to
 * another user, or has another name too. Other error numbers: not a regular file (also a symbolic link), or the
 * folder refuses. */
int hk_renewed_file_obstacle(const char *path, hk_renewed_file_is_ours_t *is_ours);

/* Writes the file unless there is an obstacle. Its readers keep their access; a new file is for its owner alone.
 * Returns 0 or the error number: the old file is then unchanged. */
int hk_renewed_file_write(const char *path, hk_renewed_file_is_ours_t *is_ours, const void *bytes, size_t length);

HK_C_END

#endif /* HK_OS_RENEWED_FILE_H */
