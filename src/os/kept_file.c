/* os/kept_file.c - L1. See kept_file.h. */
#include "os/kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "os/syscall.h"

enum { lowest_kept_file = 100 };

/* Reads the file's status by the C library's function, which has the kernel's layout of the struct on each
 * architecture. Returns 0 or the error number; errno stays. */
static int about_file(int file, struct stat *about) {
  int saved_errno = errno;
  int error = fstat(file, about) == 0 ? 0 : errno;
  errno = saved_errno;
  return error;
}

int hk_kept_file_take(hk_kept_file_t *kept, int file) {
  struct stat about;
  int error = about_file(file, &about);
  if (error != 0) return error;
  long own = hk_syscall3(SYS_fcntl, file, F_DUPFD_CLOEXEC, lowest_kept_file);
  if (hk_syscall_failed(own)) return (int)-own;
  *kept = (hk_kept_file_t){.file = (int)own, .device = about.st_dev, .inode = about.st_ino};
  return 0;
}

bool hk_kept_file_is_at(const hk_kept_file_t *kept, int file) {
  struct stat about;
  return about_file(file, &about) == 0 && about.st_dev == kept->device && about.st_ino == kept->inode;
}

void hk_kept_file_close(const hk_kept_file_t *kept) {
  if (hk_kept_file_is_at(kept, kept->file)) (void)hk_syscall2(SYS_close, kept->file, 0);
}
