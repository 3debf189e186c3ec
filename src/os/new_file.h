/* os/new_file.h - L1. A file that is made whole, in place of none. By bare system calls: no allocation, errno stays. */
#ifndef HK_OS_NEW_FILE_H
#define HK_OS_NEW_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Makes the file, for its owner alone, and writes `bytes` of `text` in one call. 0, or the error number: nothing is left
 * behind then. Whatever stands under the name already, a symbolic link too, is an error. */
int hk_new_file_write(const char *path, const char *text, size_t bytes);

/* The same, for those whom `mode` names. */
int hk_new_file_write_as(const char *path, const char *text, size_t bytes, unsigned mode);

/* Why hk_new_file_write would fail, as far as that shows beforehand: an error number, or 0. */
int hk_new_file_obstacle(const char *path);

/* Above the user's limit on the length of a file a write would end the program by a signal. */
bool hk_new_file_is_above_limit(uint64_t bytes);

/* Makes the file empty, and opens it for writing: a descriptor, or a negated error number. */
long hk_new_file_open(const char *path);

/* What was made and is not wanted after all. */
void hk_new_file_remove(const char *path);

HK_C_END

#endif /* HK_OS_NEW_FILE_H */
