/* os/new_file.c - L1. See new_file.h. */
#include "os/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/syscall.h"

/* The longest folder whose rights hk_new_file_obstacle checks, with its zero: no system call takes a longer path. */
#define FOLDER_BYTES PATH_MAX

bool hk_new_file_is_above_limit(uint64_t bytes) {
  struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  (void)hk_syscall4(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit);
  return limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur;
}

static long write_once(long file, const char *text, size_t bytes) {
  for (;;) {
    long written = hk_syscall3(SYS_write, file, (long)text, (long)bytes);
    if (written != -EINTR) return written;
  }
}

long hk_new_file_open(const char *path) {
  int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  return hk_syscall4(SYS_openat, AT_FDCWD, (long)path, flags, S_IRUSR | S_IWUSR);
}

void hk_new_file_remove(const char *path) { (void)hk_syscall3(SYS_unlinkat, AT_FDCWD, (long)path, 0); }

int hk_new_file_write(const char *path, const char *text, size_t bytes) {
  return hk_new_file_write_as(path, text, bytes, S_IRUSR | S_IWUSR);
}

int hk_new_file_write_as(const char *path, const char *text, size_t bytes, unsigned mode) {
  if (hk_new_file_is_above_limit(bytes)) return EFBIG;
  long file = hk_new_file_open(path);
  if (hk_syscall_failed(file)) return (int)-file;
  long written = write_once(file, text, bytes);
  if (written == (long)bytes && mode != (S_IRUSR | S_IWUSR)) {
    long refused = hk_syscall2(SYS_fchmod, file, mode);
    if (refused != 0) written = refused;
  }
  (void)hk_syscall2(SYS_close, file, 0);
  if (written == (long)bytes) return 0;
  hk_new_file_remove(path);
  return written < 0 ? (int)-written : ENOSPC;
}

/* Copies the part of a path before its last name: "." when there is none. Returns false when that part is too long. */
static bool folder_of(const char *path, char *folder) {
  size_t length = 0;
  for (size_t i = 0; path[i] != '\0'; i++) {
    if (path[i] == '/') length = i + 1; /* with the slash, which the root folder needs */
  }
  if (length >= FOLDER_BYTES) return false;
  __builtin_memcpy(folder, length > 0 ? path : ".", length > 0 ? length : 1);
  folder[length > 0 ? length : 1] = '\0';
  return true;
}

int hk_new_file_obstacle(const char *path) {
  if (!hk_sandbox_permits(SYS_faccessat)) return 0; /* the attempt tells */
  long found = hk_syscall3(SYS_faccessat, AT_FDCWD, (long)path, F_OK);
  if (found != -ENOENT) return found == 0 ? EEXIST : (int)-found;
  char folder[FOLDER_BYTES];
  if (!folder_of(path, folder)) return 0;
  return (int)-hk_syscall3(SYS_faccessat, AT_FDCWD, (long)folder, W_OK | X_OK);
}
