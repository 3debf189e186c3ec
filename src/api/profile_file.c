/* api/profile_file.c - L6. See profile_file.h. */
#include "api/profile_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/format.h"
#include "base/units.h"
#include "os/new_file.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/output_path.h"
#include "profile/output.h"
#include "profile/pprof.h"
#include "profile/profile.h"

/* Address space: room for all sites that there can be. */
#define PROFILE_BYTES (64 * HK_MIB)

/* Set at the start, before a second thread exists. */
static uint64_t owner; /* the process that started with it; 0: not yet */
static bool is_hopeless;

/* "-" before the path: whoever set the variable knows that the file may not come about. */
static bool is_quiet(void) { return hk_option.profile_file[0] == '-'; }

static const char *pattern(void) { return is_quiet() ? hk_option.profile_file + 1 : hk_option.profile_file; }

static void complain(int error) {
  if (error == 0 || is_quiet()) return;
  hk_option_warn("HAKMEM_PROFILE_FILE", hk_option.profile_file, "cannot be written", hk_output_path_reason(error));
}

static void expand(hk_format_t *path, char *buffer) {
  hk_format_init(path, buffer, HK_OUTPUT_PATH_BYTES);
  hk_output_path_expand(path, pattern());
}

/* Whoever wants to read it while the program runs sets the path to "-". */
static void check_that_one_is_named(void) {
  if (!hk_option.profile || is_quiet() || *pattern() != '\0') return;
  hk_option_warn("HAKMEM_PROFILE", "1", "writes no file",
                 "HAKMEM_PROFILE_FILE names none; `-` is for who reads it in between");
}

void hk_profile_file_check(void) {
  if (owner != 0) return;
  owner = hk_os_process_id();
  check_that_one_is_named();
  if (*pattern() == '\0') return;
  char buffer[HK_OUTPUT_PATH_BYTES];
  hk_format_t path;
  expand(&path, buffer);
  int error = hk_new_file_obstacle(path.text);
  complain(error);
  is_hopeless = error != 0;
}

static bool is_wanted(void) {
  if (*pattern() == '\0' || is_hopeless || hk_profile_span().rate_bytes == 0) return false;
  return owner == hk_os_process_id() || hk_output_path_has_process_id(pattern());
}

static int write_file(unsigned char *buffer) {
  hk_profile_span_t span = hk_profile_span();
  hk_output_buffer_t profile;
  hk_output_buffer_init(&profile, buffer, PROFILE_BYTES);
  if (!hk_pprof_write(&profile.output, &span)) return ENOMEM;
  char path_buffer[HK_OUTPUT_PATH_BYTES];
  hk_format_t path;
  expand(&path, path_buffer);
  return hk_new_file_write(path.text, (const char *)profile.bytes, profile.length);
}

void hk_profile_file_finish(void) {
  if (!is_wanted()) return;
  unsigned char *buffer = hk_os_reserve(PROFILE_BYTES, hk_os_page_size());
  complain(buffer != NULL ? write_file(buffer) : ENOMEM);
  if (buffer != NULL) (void)hk_os_unmap(buffer, PROFILE_BYTES);
}
