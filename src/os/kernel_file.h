/* os/kernel_file.h - L1. Reads the kernel's own files (/proc, /sys, control groups) line by line; base/text.h parses
 * the lines. Bare system calls, no allocation, little stack. */
#ifndef HK_OS_KERNEL_FILE_H
#define HK_OS_KERNEL_FILE_H

#include <stdbool.h>

/* The longest line, with the zero byte. */
#define HK_KERNEL_LINE_BYTES 1024

typedef struct {
  long file;      /* the descriptor, or a negated errno */
  long count;     /* characters in `chunk` */
  long at;        /* the next one of them */
  bool is_broken; /* the kernel refused a read: the rest of the file may be missing */
  char chunk[512];
} hk_kernel_file_t;

/* Returns false, with the negated errno in `file`, when the file cannot be opened; there is then nothing to close. */
bool hk_kernel_file_open(hk_kernel_file_t *reader, const char *path);

/* Opens the process's file of that name in /proc, or the calling thread's where that one is empty, as those about
 * memory are after the end of the first thread. Fails like hk_kernel_file_open. */
bool hk_kernel_file_open_own(hk_kernel_file_t *reader, const char *name);

/* Reads the next character. Returns false at the end of the file, and when it cannot be read. */
bool hk_kernel_file_character(hk_kernel_file_t *reader, char *character);

/* Reads the next line that is not too long, without its newline. Returns false when there is none. */
bool hk_kernel_file_line(hk_kernel_file_t *reader, char *line);

/* Reads the next line without its newline, of a line that is too long the part that fits. Returns false when there is
 * none. */
bool hk_kernel_file_line_start(hk_kernel_file_t *reader, char *line);

/* Closes a file that was opened. */
void hk_kernel_file_close(const hk_kernel_file_t *reader);

#endif /* HK_OS_KERNEL_FILE_H */
