/* os/kept_file.c - L1. See kept_file.h. */
#include "os/kept_file.h"

#include <fcntl.h>

#include "os/file_status.h"
#include "os/syscall.h"

int hk_kept_file_note(hk_kept_file_t *kept, int file) {
  struct stat about;
  int error = hk_file_status(file, &about);
  if (error == 0) *kept = (hk_kept_file_t){.file = file, .device = about.st_dev, .inode = about.st_ino};
  return error;
}

int hk_kept_file_take(hk_kept_file_t *kept, int file) {
  int error = hk_kept_file_note(kept, file);
  if (error != 0) return error;
  long own = hk_syscall3(SYS_fcntl, file, F_DUPFD_CLOEXEC, HK_KEPT_FILE_LOWEST);
  if (hk_syscall_failed(own)) return (int)-own;
  kept->file = (int)own;
  return 0;
}

bool hk_kept_file_is_at(const hk_kept_file_t *kept, int file) {
  struct stat about;
  return hk_file_status(file, &about) == 0 && about.st_dev == kept->device && about.st_ino == kept->inode;
}

void hk_kept_file_close(const hk_kept_file_t *kept) {
  if (hk_kept_file_is_at(kept, kept->file)) (void)hk_syscall2(SYS_close, kept->file, 0);
}
