/* policy/output_path.c - L2. See output_path.h. */
#include "policy/output_path.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/format.h"
#include "os/os.h"
#include "os/sandbox.h"

/* Steps over one character, over %p, or over %%, which stands for '%'. Returns whether it was %p. */
static bool take(const char **next, char *character) {
  bool is_process_id = (*next)[0] == '%' && (*next)[1] == 'p';
  bool is_percent = (*next)[0] == '%' && (*next)[1] == '%';
  *character = **next;
  *next += is_process_id || is_percent ? 2 : 1;
  return is_process_id;
}

/* Chosen: how many names a process may try for a file. */
#define NAMES_MAX 256

/* Expands the %p at `timed` to the process id and `time_ms`. NULL: none. */
static void expand(char *path, const char *pattern, const char *timed, uint64_t time_ms) {
  hk_format_t text;
  hk_format_init(&text, path, HK_OUTPUT_PATH_BYTES);
  char character[2] = {'\0', '\0'};
  while (*pattern != '\0') {
    const char *start = pattern;
    if (take(&pattern, character)) {
      hk_format_decimal(&text, hk_os_process_id());
      if (start == timed) hk_format_print(&text, "-%u", time_ms);
    } else {
      hk_format_text(&text, character);
    }
  }
}

void hk_output_path_expand(char *path, const char *pattern) { expand(path, pattern, NULL, 0); }

/* Returns the last %p of the file's name; NULL when there is none behind the last slash. */
static const char *last_of_name(const char *pattern) {
  const char *last = NULL;
  char character;
  while (*pattern != '\0') {
    const char *start = pattern;
    if (take(&pattern, &character)) {
      last = start;
    } else if (character == '/') {
      last = NULL;
    }
  }
  return last;
}

int hk_output_path_make(char *path, const char *pattern, int (*make)(const char *path, void *context), void *context) {
  expand(path, pattern, NULL, 0);
  int error = make(path, context);
  const char *last = last_of_name(pattern);
  uint64_t time_ms = hk_os_unix_ms();
  for (unsigned i = 0; i < NAMES_MAX && error == EEXIST && last != NULL; i++) {
    expand(path, pattern, last, time_ms + i);
    error = make(path, context);
  }
  return error;
}

bool hk_output_path_has_process_id(const char *pattern) {
  char character;
  while (*pattern != '\0') {
    if (take(&pattern, &character)) return true;
  }
  return false;
}

const char *hk_output_path_reason(int error) {
  switch (error) {
    case EEXIST:
      return "it exists already, and %p in the path gives each process a file of its own";
    case ENOENT:
    case ENOTDIR:
      return "its folder does not exist";
    case EPERM:
      /* Of a call that the library leaves out (os/syscall.h), or that the filter has refused. */
      if (hk_sandbox_may_kill()) return "a system call filter may kill for it (see HAKMEM_SANDBOX)";
      return "permission denied";
    case EACCES:
    case EROFS:
      return "permission denied";
    case ENAMETOOLONG:
      return "its name is too long";
    case EFBIG:
    case ENOSPC:
    case EDQUOT:
      return "no space is left, or allowed";
    case EISDIR:
    case ELOOP:
    case ENXIO:
      return "it is no regular file";
    case EMFILE:
      return "the process has as many files open as its limit allows (ulimit -n)";
    case ENFILE:
      return "the system has as many files open as it allows (fs.file-max)";
    case ENOMEM:
      return "the system refuses memory for it";
    case EBADF:
      return "the program has closed it";
    default:
      return "the system refuses";
  }
}
