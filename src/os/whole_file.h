/* os/whole_file.h - L1. A small file that is read and replaced as a whole. By bare system calls: no allocation, errno stays. */
#ifndef HK_OS_WHOLE_FILE_H
#define HK_OS_WHOLE_FILE_H

#include <stddef.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Reads up to `capacity` bytes. 0, or the error number: ELOOP of a symbolic link, ENXIO of what is no regular file. Waits for
 * nobody. */
int hk_whole_file_read(const char *path, void *bytes, size_t capacity, size_t *length);

/* Puts a file with these bytes, for its owner alone, in the place of what has the name, in one step: whoever reads finds
 * the old one or the new one, whole. (After a failure of the machine it may be empty.) A symbolic link would be replaced
 * itself, not what it leads to. 0, or the error number: the old one is then as it was, and nothing is left behind. */
int hk_whole_file_replace(const char *path, const void *bytes, size_t length);

/* The same, for whom the mode says. */
int hk_whole_file_replace_as(const char *path, const void *bytes, size_t length, unsigned mode);

HK_C_END

#endif /* HK_OS_WHOLE_FILE_H */
