/* os/whole_file.c - L1. See whole_file.h. */
#include "os/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>

#include "base/format.h"
#include "os/file_status.h"
#include "os/new_file.h"
#include "os/os.h"
#include "os/syscall.h"

/* Room for the longest path that a system call takes, and for the suffix of name_beside. */
#define PATH_BYTES (PATH_MAX + 64)

static bool is_regular(long file) {
  struct stat about;
  return hk_file_status(file, &about) == 0 && S_ISREG(about.st_mode);
}

static int read_all(long file, char *bytes, size_t capacity, size_t *length) {
  *length = 0;
  while (*length < capacity) {
    long count = hk_syscall3(SYS_read, file, (long)(bytes + *length), (long)(capacity - *length));
    if (count == -EINTR) continue;
    if (count < 0) return (int)-count;
    if (count == 0) break;
    *length += (size_t)count;
  }
  return 0;
}

int hk_whole_file_read(const char *path, void *bytes, size_t capacity, size_t *length) {
  int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  long file = hk_syscall4(SYS_openat, AT_FDCWD, (long)path, flags, 0);
  if (hk_syscall_failed(file)) return (int)-file;
  int error = is_regular(file) ? read_all(file, bytes, capacity, length) : ENXIO;
  (void)hk_syscall2(SYS_close, file, 0);
  return error;
}

/* Makes an unused name beside the path, of the process's number and the time. Processes in different containers that
 * share a folder may have the same number, but not at the same time. Returns false when the name is too long. */
static bool name_beside(const char *path, hk_format_t *name) {
  hk_format_print(name, "%s.%u.%u.new", path, hk_os_process_id(), hk_os_now_ns());
  return name->length + 1 < name->capacity;
}

int hk_whole_file_replace(const char *path, const void *bytes, size_t length) {
  return hk_whole_file_replace_as(path, bytes, length, S_IRUSR | S_IWUSR);
}

int hk_whole_file_replace_as(const char *path, const void *bytes, size_t length, unsigned mode) {
  /* Where the sandbox permits no exchange, a file that is there stays. */
  if (!hk_sandbox_permits(SYS_renameat2)) return hk_new_file_write(path, bytes, length);
  char buffer[PATH_BYTES];
  hk_format_t name;
  hk_format_init(&name, buffer, sizeof buffer);
  if (!name_beside(path, &name)) return ENAMETOOLONG;
  int error = hk_new_file_write_as(name.text, bytes, length, mode);
  if (error != 0) return error;
  long answer = hk_syscall6(SYS_renameat2, AT_FDCWD, (long)name.text, AT_FDCWD, (long)path, 0, 0);
  if (answer != 0) hk_new_file_remove(name.text);
  return (int)-answer;
}
