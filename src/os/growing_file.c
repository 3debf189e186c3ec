/* os/growing_file.c - L1. See growing_file.h. */
#include "os/growing_file.h"

#include <errno.h>
#include <sys/uio.h>

#include "os/new_file.h"
#include "os/syscall.h"

static int write_piece(int file, uint64_t at, const hk_file_piece_t *piece) {
  struct iovec parts[2] = {{(void *)piece->head, piece->head_bytes}, {(void *)piece->body, piece->body_bytes}};
  long bytes = (long)(piece->head_bytes + piece->body_bytes), written;
  if (hk_new_file_is_above_limit(at + (uint64_t)bytes)) return EFBIG;
  do {
    written = hk_syscall6(SYS_pwritev, file, (long)parts, 2, (long)at, 0, 0);
  } while (written == -EINTR);
  if (written == bytes) return 0;
  if (written > 0) (void)hk_syscall3(SYS_ftruncate, file, (long)at, 0);
  return written < 0 ? (int)-written : ENOSPC;
}

int hk_growing_file_open(hk_kept_file_t *file, const char *path, const hk_file_piece_t *first) {
  /* First: a file that cannot be written is not made. */
  if (!hk_sandbox_permits(SYS_pwritev) || !hk_sandbox_permits(SYS_fcntl)) return EPERM;
  long made = hk_new_file_open(path);
  if (hk_syscall_failed(made)) return (int)-made;
  int error = write_piece((int)made, 0, first);
  if (error == 0) error = hk_kept_file_take(file, (int)made);
  (void)hk_syscall2(SYS_close, made, 0);
  if (error != 0) hk_new_file_remove(path);
  return error;
}

int hk_growing_file_write(const hk_kept_file_t *file, uint64_t at, const hk_file_piece_t *piece) {
  if (!hk_kept_file_is_at(file, file->file)) return EBADF;
  return write_piece(file->file, at, piece);
}
