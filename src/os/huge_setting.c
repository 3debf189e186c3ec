/* os/huge_setting.c - L1. See huge_setting.h. */
#include "os/huge_setting.h"

#include "base/text.h"
#include "os/kernel_file.h"

/* The line lists all settings, "always [madvise] never", with the active one in brackets. */
static hk_os_huge_t setting_of(const char *line) {
  while (*line != '\0' && *line != '[') line++;
  if (hk_text_after(line, "[always]") != NULL) return hk_os_huge_everywhere;
  return hk_text_after(line, "[madvise]") != NULL ? hk_os_huge_on_request : hk_os_huge_never;
}

hk_os_huge_t hk_huge_setting_read(const char *path) {
  hk_kernel_file_t file;
  char line[HK_KERNEL_LINE_BYTES];
  if (!hk_kernel_file_open(&file, path)) return hk_os_huge_never;
  bool is_told = hk_kernel_file_line(&file, line);
  hk_kernel_file_close(&file);
  return is_told ? setting_of(line) : hk_os_huge_never;
}
