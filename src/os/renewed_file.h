/* os/renewed_file.h - L1. A file of ours that is written anew again and again, in one step each time, for readers who may come at
 * any moment. Bare system calls: no allocation, errno stays. */
#ifndef HK_OS_RENEWED_FILE_H
#define HK_OS_RENEWED_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

HK_C_BEGIN

/* So much of what stands there is looked at. */
#define HK_RENEWED_FILE_LOOK_BYTES 128

/* Whether a file that begins so is one of ours, of an earlier time perhaps. The text ends with a zero byte. */
typedef bool hk_renewed_file_is_ours_t(const char *beginning);

/* Why the file would not be replaced: EEXIST where something stands there that is neither empty nor ours, or is another
 * user's; other error numbers of what is no regular file, a symbolic link too. 0: nothing is in the way. */
int hk_renewed_file_obstacle(const char *path, hk_renewed_file_is_ours_t *is_ours);

/* Writes it, unless something is in the way. Who may read it stays as it was; at first it is for its owner alone. 0, or
 * the error number: what was there is then as it was. */
int hk_renewed_file_write(const char *path, hk_renewed_file_is_ours_t *is_ours, const void *bytes, size_t length);

HK_C_END

#endif /* HK_OS_RENEWED_FILE_H */
