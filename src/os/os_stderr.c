/* os/os_stderr.c - L1. Implements os.h's functions for messages: which file gets them. */
#define _GNU_SOURCE 1

#include <errno.h>
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

/* Returns whether descriptor 2 leads to a socket that it did not lead to at the start: most likely a connection, which
 * got the number when the program closed stderr. A file gets messages: programs put logs there, and collect stderr. */
static bool is_connection_at_stderr(void) {
  if (!is_first_known || !hk_sandbox_permits(SYS_fstat)) return false;
  struct stat about;
  bool is_socket = hk_file_status(STDERR_FILENO, &about) == 0 && S_ISSOCK(about.st_mode);
  return is_socket && !hk_kept_file_is_at(&first_file, STDERR_FILENO);
}

/* Returns the file for messages, or -1. */
static int message_file(void) {
  if (has_no_stderr) return -1;
  if (!is_kept) return is_connection_at_stderr() ? -1 : STDERR_FILENO;
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
