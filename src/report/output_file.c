/* report/output_file.c - L9. See output_file.h. */
#include "report/output_file.h"

#include "os/new_file.h"
#include "os/process.h"
#include "policy/option.h"
#include "policy/output_path.h"

bool hk_output_file_is_quiet(const hk_output_file_t *file) { return **file->value == '-'; }

const char *hk_output_file_pattern(const hk_output_file_t *file) {
  return *file->value + hk_output_file_is_quiet(file);
}

bool hk_output_file_is_wanted(const hk_output_file_t *file) {
  return *hk_output_file_pattern(file) != '\0' && !file->is_hopeless;
}

bool hk_output_file_is_own(const hk_output_file_t *file) {
  return file->owner == 0 || file->owner == hk_process_mark() ||
         hk_output_path_has_process_id(hk_output_file_pattern(file));
}

void hk_output_file_complain(const hk_output_file_t *file, int error) {
  if (error == 0 || hk_output_file_is_quiet(file)) return;
  hk_option_warn(file->variable, *file->value, "cannot be written", hk_output_path_reason(error));
}

static int obstacle(const char *path, void *unused) {
  (void)unused;
  return hk_new_file_obstacle(path);
}

void hk_output_file_check(hk_output_file_t *file, hk_renewed_file_is_ours_t *is_ours) {
  if (file->owner != 0 || !hk_output_file_is_wanted(file)) return;
  file->owner = hk_process_mark();
  char path[HK_OUTPUT_PATH_BYTES];
  const char *pattern = hk_output_file_pattern(file);
  hk_output_path_expand(path, pattern);
  int error =
      is_ours != NULL ? hk_renewed_file_obstacle(path, is_ours) : hk_output_path_make(path, pattern, obstacle, NULL);
  hk_output_file_complain(file, error);
  file->is_hopeless = error != 0;
}

typedef struct {
  const void *bytes;
  size_t length;
} content_t;

static int write_new(const char *path, void *context) {
  const content_t *content = context;
  return hk_new_file_write(path, content->bytes, content->length);
}

int hk_output_file_write(const hk_output_file_t *file, hk_renewed_file_is_ours_t *is_ours, const void *bytes,
                         size_t length) {
  char path[HK_OUTPUT_PATH_BYTES];
  const char *pattern = hk_output_file_pattern(file);
  content_t content = {.bytes = bytes, .length = length};
  if (is_ours == NULL) return hk_output_path_make(path, pattern, write_new, &content);
  hk_output_path_expand(path, pattern);
  return hk_renewed_file_write(path, is_ours, bytes, length);
}
