/* os/new_file.h - L1. Creates a whole file where none exists. Bare system calls: no allocation, errno stays. */
#ifndef HK_OS_NEW_FILE_H
#define HK_OS_NEW_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Creates the file, readable by its owner alone, and writes `bytes` of `text` in one call. Returns 0 or the error
 * number; on failure no file is left behind. Anything that exists under the name is an error, a symbolic link too. */
int hk_new_file_write(const char *path, const char *text, size_t bytes);

/* hk_new_file_write with the access rights of `mode`. */
int hk_new_file_write_as(const char *path, const char *text, size_t bytes, unsigned mode);

/* Predicts, as far as possible, whether hk_new_file_write would fail. Returns its error number, or 0. */
int hk_new_file_obstacle(const char *path);

/* Returns whether a file of `bytes` exceeds the limit on file sizes (RLIMIT_FSIZE): such a write would raise a signal
 * that ends the program. */
bool hk_new_file_is_above_limit(uint64_t bytes);

/* Creates an empty file and opens it for writing. Returns the descriptor or a negated error number. */
long hk_new_file_open(const char *path);

/* Removes a file that hk_new_file_open has created. */
void hk_new_file_remove(const char *path);

HK_C_END

#endif /* HK_OS_NEW_FILE_H */
