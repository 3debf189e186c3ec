/* Files of the kernel with contents from an input. kernel_text.c has os/kernel_file's functions with system calls of
 * its own. Until the first input is loaded, real system calls serve the library's start. */
#ifndef HK_TESTS_FUZZ_KERNEL_TEXT_H
#define HK_TESTS_FUZZ_KERNEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets the files. A line "@<end of a path>" begins one. Text before the first such line is the content of all other
 * paths; without such text no other file exists. The caller keeps the input. Reads return few bytes, depending on
 * the input's length, and some are interrupted. */
void kernel_text_load(const uint8_t *data, size_t size);

/* Removes all files. */
void kernel_text_clear(void);

/* Returns the content of the file at `path`; NULL when there is none. */
const uint8_t *kernel_text_find(const char *path, size_t *size);

/* Returns the number of open files. */
unsigned kernel_text_open_count(void);

/* The kind of file system that SYS_fstatfs returns for every file. */
#define KERNEL_TEXT_PROC_MAGIC 0x9fa0

/* Does the system calls SYS_openat, SYS_read, SYS_close and SYS_fstatfs. The user and group are root's. Any other call
 * returns 0. */
long kernel_text_call(long number, long a, long b, long c);

#endif /* HK_TESTS_FUZZ_KERNEL_TEXT_H */
