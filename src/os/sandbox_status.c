/* os/sandbox_status.c - L1. See sandbox_status.h. */
#include "os/sandbox_status.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "os/kernel_file.h"

/* Returns whether the line shows a filter. Kernels without filters write no such line. */
static bool has_filter(const char *line) {
  const char *mode = hk_text_after(line, "Seccomp:");
  return mode != NULL && hk_text_after(mode, "\t0") == NULL;
}

hk_sandbox_t hk_sandbox_status_read(const char *path) {
  hk_kernel_file_t file;
  if (!hk_kernel_file_open(&file, path)) return hk_sandbox_inherited;
  bool is_filtered = false;
  for (char line[HK_KERNEL_LINE_BYTES]; !is_filtered && hk_kernel_file_line(&file, line);) {
    is_filtered = has_filter(line);
  }
  hk_kernel_file_close(&file);
  return is_filtered || file.is_broken ? hk_sandbox_inherited : hk_sandbox_none;
}
