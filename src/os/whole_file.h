/* os/whole_file.h - L1. A small file that is read and replaced as a whole. Bare system calls: no allocation, errno
 * stays. */
#ifndef HK_OS_WHOLE_FILE_H
#define HK_OS_WHOLE_FILE_H

#include <stddef.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Reads up to `capacity` bytes. Returns 0 or the error number: ELOOP for a symbolic link, ENXIO for anything that is
 * not a regular file. Does not block. */
int hk_whole_file_read(const char *path, void *bytes, size_t capacity, size_t *length);

/* Replaces the file of this name by one with these bytes, for its owner alone, in one step: a reader finds the old one
 * or the new one, whole. (After a failure of the machine it may be empty.) A symbolic link is replaced itself, not its
 * target. Returns 0 or the error number: the old file is then unchanged, and no other is left behind. */
int hk_whole_file_replace(const char *path, const void *bytes, size_t length);

/* hk_whole_file_replace with the access rights of `mode`. */
int hk_whole_file_replace_as(const char *path, const void *bytes, size_t length, unsigned mode);

HK_C_END

#endif /* HK_OS_WHOLE_FILE_H */
