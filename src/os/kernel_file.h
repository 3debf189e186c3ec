/* os/kernel_file.h - L1. The kernel's own files (/proc, /sys, control groups), line by line (what is in the lines: base/text.h).
 * Bare system calls, no allocation, little stack. */
#ifndef HK_OS_KERNEL_FILE_H
#define HK_OS_KERNEL_FILE_H

#include <stdbool.h>

/* Of a line, with the zero byte. Longer ones are passed over. */
#define HK_KERNEL_LINE_BYTES 1024

typedef struct {
  long file;
  long count;
  long at;
  bool is_broken; /* a read was refused: what was read may not be all */
  char chunk[512];
} hk_kernel_file_t;

/* False, with the negated errno in `file`, when it cannot be opened; nothing is to be closed then. */
bool hk_kernel_file_open(hk_kernel_file_t *reader, const char *path);

/* The next character; false when there is none, or it cannot be read. */
bool hk_kernel_file_character(hk_kernel_file_t *reader, char *character);

/* The next line that is not too long, without its end; false when there is none. */
bool hk_kernel_file_line(hk_kernel_file_t *reader, char *line);

void hk_kernel_file_close(const hk_kernel_file_t *reader);

#endif /* HK_OS_KERNEL_FILE_H */
