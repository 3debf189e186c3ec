/* The kernel's files as an input says them: kernel_text.c has os/kernel_file's functions with system calls of its own.
 * Until the first input is loaded they are the kernel's, for the library's start. */
#ifndef HK_TESTS_FUZZ_KERNEL_TEXT_H
#define HK_TESTS_FUZZ_KERNEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets the files: a line "@<end of a path>" begins one; text before the first such line is the content of every other
 * path, and without it no other file exists. The caller keeps the input. Reads are short, by a length that depends on
 * the input's, and now and then interrupted. */
void kernel_text_load(const uint8_t *data, size_t size);

/* No files at all. */
void kernel_text_clear(void);

/* The content of the file at `path`; NULL: there is none. */
const uint8_t *kernel_text_find(const char *path, size_t *size);

/* How many files are open. */
unsigned kernel_text_open_count(void);

/* The file system's kind that SYS_fstatfs tells of every file. */
#define KERNEL_TEXT_PROC_MAGIC 0x9fa0

/* Answers SYS_openat, SYS_read, SYS_close and SYS_fstatfs; user and group are root's, and the result of any other call
 * is 0. */
long kernel_text_call(long number, long a, long b, long c);

#endif /* HK_TESTS_FUZZ_KERNEL_TEXT_H */
