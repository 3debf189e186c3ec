/* os/file_status.c - L1. See file_status.h. On both architectures the C library's struct has the kernel's layout. */
#define _GNU_SOURCE 1

#include "os/file_status.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "os/syscall.h"

/* glibc's version; other C libraries have no such function. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

enum { first_by_name = 33, first_after = 39 };

/* Returns whether the C library asks by an empty name, as glibc 2.33 to 2.38 do. */
static bool asks_by_name(void) {
  uint64_t minor = 0;
  const char *rest = gnu_get_libc_version == NULL ? NULL : hk_text_after(gnu_get_libc_version(), "2.");
  if (rest != NULL) (void)hk_text_number(rest, &minor);
  return minor >= first_by_name && minor < first_after;
}

int hk_file_status(long file, struct stat *about) {
  long answer = asks_by_name() ? hk_syscall4(SYS_newfstatat, file, (long)"", (long)about, AT_EMPTY_PATH)
                               : hk_syscall2(SYS_fstat, file, (long)about);
  return (int)-answer;
}
