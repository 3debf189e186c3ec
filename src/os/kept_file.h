/* os/kept_file.h - L1. A descriptor of our own in a process whose program knows nothing of it. The program may close it, and
 * be given the same number for a file of its own: so what it leads to is remembered. */
#ifndef HK_OS_KEPT_FILE_H
#define HK_OS_KEPT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

typedef struct {
  int file;
  uint64_t device;
  uint64_t inode;
} hk_kept_file_t;

/* One more descriptor for what `file` leads to, closed by exec, with a number far from those that programs count on being
 * given. 0, or the error number. */
int hk_kept_file_take(hk_kept_file_t *kept, int file);

/* Whether `file` leads there. */
bool hk_kept_file_is_at(const hk_kept_file_t *kept, int file);

/* Closes it, if it is still ours. */
void hk_kept_file_close(const hk_kept_file_t *kept);

HK_C_END

#endif /* HK_OS_KEPT_FILE_H */
