/* os/kept_file.h - L1. A descriptor of the library's own, in a process whose program does not expect it. The program
 * may close it and get the same number for another file. So the library records which file the descriptor led to. */
#ifndef HK_OS_KEPT_FILE_H
#define HK_OS_KEPT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Descriptors of the library's own have this number or a higher one: programs do not count on getting those. */
#define HK_KEPT_FILE_LOWEST 100

typedef struct {
  int file; /* the descriptor */
  uint64_t device;
  uint64_t inode;
} hk_kept_file_t;

/* Records which file the descriptor `file` leads to, and makes no descriptor. Returns 0 or the error number. */
int hk_kept_file_note(hk_kept_file_t *kept, int file);

/* Makes one more descriptor for the file that `file` leads to, closed by exec, from HK_KEPT_FILE_LOWEST on. Returns 0
 * or the error number. */
int hk_kept_file_take(hk_kept_file_t *kept, int file);

/* Returns whether the descriptor `file` leads to the kept file. */
bool hk_kept_file_is_at(const hk_kept_file_t *kept, int file);

/* Closes the kept descriptor if it still leads to the kept file. */
void hk_kept_file_close(const hk_kept_file_t *kept);

HK_C_END

#endif /* HK_OS_KEPT_FILE_H */
