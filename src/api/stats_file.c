/* api/stats_file.c - L6. See stats_file.h. */
#include "api/stats_file.h"

#include <errno.h>

#include "base/format.h"
#include "os/new_file.h"
#include "os/os.h"
#include "policy/option.h"

/* Each %p may become longer by the digits of a process id. */
#define PATH_BYTES (2 * HK_OPTION_TEXT_BYTES)

/* Set at the start: nothing is to be tried at the end. Before a second thread exists. */
static bool is_hopeless;

/* "-" before the path: whoever set the variable knows that the file may not come about. */
static bool is_quiet(void) { return hk_option.stats_file[0] == '-'; }

static const char *pattern(void) { return is_quiet() ? hk_option.stats_file + 1 : hk_option.stats_file; }

bool hk_stats_file_is_wanted(void) { return *pattern() != '\0' && !is_hopeless; }

/* The path in this process: a child of fork has another %p. */
static void expand(hk_format_t *path) {
  for (const char *next = pattern(); *next != '\0'; next++) {
    if (next[0] == '%' && next[1] == 'p') {
      hk_format_decimal(path, hk_os_process_id());
      next++;
      continue;
    }
    if (next[0] == '%' && next[1] == '%') next++;
    char character[2] = {*next, '\0'};
    hk_format_text(path, character);
  }
}

static const char *reason_of(int error) {
  switch (error) {
    case EEXIST:
      return "it exists already, and %p in the path gives each process a file of its own";
    case ENOENT:
    case ENOTDIR:
      return "its folder does not exist";
    case EACCES:
    case EPERM:
    case EROFS:
      return "permission denied";
    case ENAMETOOLONG:
      return "its name is too long";
    case EFBIG:
    case ENOSPC:
    case EDQUOT:
      return "no space is left, or allowed";
    default:
      return "the system refuses";
  }
}

static void complain(int error) {
  if (error == 0 || is_quiet()) return;
  hk_option_warn("HAKMEM_STATS_FILE", hk_option.stats_file, "cannot be written", reason_of(error));
}

void hk_stats_file_check(void) {
  if (!hk_stats_file_is_wanted()) return;
  char buffer[PATH_BYTES];
  hk_format_t path;
  hk_format_init(&path, buffer, sizeof buffer);
  expand(&path);
  int error = hk_new_file_obstacle(path.text);
  complain(error);
  is_hopeless = error != 0;
}

void hk_stats_file_write(const char *text, size_t bytes) {
  char buffer[PATH_BYTES];
  hk_format_t path;
  hk_format_init(&path, buffer, sizeof buffer);
  expand(&path);
  complain(hk_new_file_write(path.text, text, bytes));
}
