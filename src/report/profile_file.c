/* report/profile_file.c - L9. See profile_file.h. */
#include "report/profile_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/units.h"
#include "inspect/profile.h"
#include "policy/option.h"
#include "pprof/output.h"
#include "pprof/pprof.h"
#include "report/long_text.h"
#include "report/output_file.h"

/* Chosen: room for some hundred sites. */
#define LEAST_BYTES (256 * HK_KIB)

static hk_output_file_t file = {.variable = "HAKMEM_PROFILE_FILE", .value = &hk_option.profile_file};

/* Warns when a profile runs and no file is named. A path of "-" disables the warning. */
static void check_that_one_is_named(void) {
  if (!hk_option.profile || *hk_option.profile_file != '\0') return;
  hk_option_warn("HAKMEM_PROFILE", "1", "writes no file",
                 "HAKMEM_PROFILE_FILE names none; `-` is for programs whose profile is read while they run");
}

void hk_profile_file_check(void) {
  check_that_one_is_named();
  hk_output_file_check(&file, NULL);
}

static bool is_wanted(void) {
  return hk_output_file_is_wanted(&file) && hk_output_file_is_own(&file) && hk_profile_facts().rate_bytes != 0;
}

static int write_file(void) {
  hk_format_t profile;
  if (!hk_long_text_begin(&profile, LEAST_BYTES)) return ENOMEM;
  hk_profile_facts_t facts = hk_profile_facts();
  hk_output_text_t output;
  hk_output_text_init(&output, &profile, 0);
  int error = ENOMEM;
  if (hk_pprof_write(&output.output, &facts)) error = hk_output_file_write(&file, NULL, profile.text, profile.length);
  hk_long_text_end(&profile);
  return error;
}

void hk_profile_file_finish(void) {
  if (is_wanted()) hk_output_file_complain(&file, write_file());
}
