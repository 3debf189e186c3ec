/* os/renewed_file.c - L1. See renewed_file.h. */
#define _GNU_SOURCE 1

#include "os/renewed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "os/new_file.h"
#include "os/syscall.h"
#include "os/whole_file.h"

enum { for_owner = S_IRUSR | S_IWUSR, for_readers = S_IRGRP | S_IROTH };

/* Checks the file that exists. Returns 0 and the access rights that a new one gets, or the error number: ENOENT when
 * there is no file, EEXIST when it is not the library's. */
static int look(const char *path, hk_renewed_file_is_ours_t *is_ours, unsigned *mode) {
  char beginning[HK_RENEWED_FILE_LOOK_BYTES];
  size_t length;
  int error = hk_whole_file_read(path, beginning, sizeof beginning - 1, &length);
  if (error != 0) return error;
  struct stat about = {.st_nlink = 0}; /* the kernel's own layout, as both C libraries have it */
  long answer = hk_syscall4(SYS_newfstatat, AT_FDCWD, (long)path, (long)&about, AT_SYMLINK_NOFOLLOW);
  if (answer != 0) return (int)-answer;
  beginning[length] = '\0';
  bool is_own = (long)about.st_uid == hk_syscall2(SYS_geteuid, 0, 0) && about.st_nlink == 1;
  if (!is_own || (length > 0 && !is_ours(beginning))) return EEXIST;
  *mode = for_owner | (about.st_mode & for_readers);
  return 0;
}

int hk_renewed_file_obstacle(const char *path, hk_renewed_file_is_ours_t *is_ours) {
  unsigned mode;
  int error = look(path, is_ours, &mode);
  return error == ENOENT ? hk_new_file_obstacle(path) : error;
}

int hk_renewed_file_write(const char *path, hk_renewed_file_is_ours_t *is_ours, const void *bytes, size_t length) {
  unsigned mode = for_owner;
  int error = look(path, is_ours, &mode);
  if (error != 0 && error != ENOENT) return error;
  return hk_whole_file_replace_as(path, bytes, length, mode);
}
