/* os/os_stderr.c - L1. Implements os.h's functions for messages: which file gets them. */
#define _GNU_SOURCE 1

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "os/file_status.h"
#include "os/kept_file.h"
#include "os/os.h"
#include "os/quiet_write.h"
#include "os/syscall.h"

static bool has_no_stderr, is_first_known, is_kept;
static hk_kept_file_t first_file, kept_file;

void hk_os_note_stderr(void) {
  int error = hk_kept_file_note(&first_file, STDERR_FILENO);
  is_first_known = error == 0;
  has_no_stderr = error == EBADF;
}

void hk_os_keep_stderr(void) {
  if (has_no_stderr) return;
  int error = hk_sandbox_permits(SYS_fcntl) ? hk_kept_file_take(&kept_file, STDERR_FILENO)
                                            : hk_kept_file_note(&kept_file, STDERR_FILENO);
  is_kept = error == 0;
  has_no_stderr = error == EBADF;
}

/* Returns whether descriptor 2 leads to a regular file or a socket that it did not lead to at the start, and that is
 * open for reading too, and not for appending. That is most likely the program's data, or a connection, which got the
 * number when the program closed stderr. A log that the program put there is open for writing alone, or appends. */
static bool is_data_at_stderr(void) {
  if (!is_first_known || !hk_sandbox_permits(SYS_fstat) || !hk_sandbox_permits(SYS_fcntl)) return false;
  struct stat about;
  if (hk_kept_file_is_at(&first_file, STDERR_FILENO) || hk_file_status(STDERR_FILENO, &about) != 0) return false;
  if (!S_ISREG(about.st_mode) && !S_ISSOCK(about.st_mode)) return false;
  long flags = hk_syscall2(SYS_fcntl, STDERR_FILENO, F_GETFL);
  return !hk_syscall_failed(flags) && (flags & (O_ACCMODE | O_APPEND)) == O_RDWR;
}

/* Returns the file for messages, or -1. */
static int message_file(void) {
  if (has_no_stderr) return -1;
  if (!is_kept) return is_data_at_stderr() ? -1 : STDERR_FILENO;
  if (!hk_sandbox_permits(SYS_fstat)) return kept_file.file; /* a write is all that the filter permits for certain */
  if (hk_kept_file_is_at(&kept_file, kept_file.file)) return kept_file.file;
  return hk_kept_file_is_at(&kept_file, STDERR_FILENO) ? STDERR_FILENO : -1;
}

void hk_os_write_stderr(const char *text, size_t bytes) {
  int file = message_file();
  while (file >= 0 && bytes > 0) {
    long written = hk_quiet_write(file, text, bytes);
    if (written == -EINTR) continue;
    if (written <= 0) return;
    text += written;
    bytes -= (size_t)written;
  }
}
