/* os/rights.c - L1. See rights.h. The kernel's own words are compared, and not understood. */
#include "os/rights.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "os/kernel_file.h"

static bool is_about_rights(const char *line) {
  static const char *const labels[] = {"Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:"};
  for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
    if (hk_text_after(line, labels[i]) != NULL) return true;
  }
  return false;
}

/* Of the lines about rights one number (64-bit FNV-1a); 0 where they cannot be read. Who may be in more groups than a
 * line of kernel_file.h holds is told apart by the other lines. */
static uint64_t digest(const char *path) {
  hk_kernel_file_t file;
  if (!hk_kernel_file_open(&file, path)) return 0;
  uint64_t value = 0xcbf29ce484222325u;
  for (char line[HK_KERNEL_LINE_BYTES]; hk_kernel_file_line(&file, line);) {
    if (!is_about_rights(line)) continue;
    for (const char *next = line; *next != '\0'; next++) value = (value ^ (unsigned char)*next) * 0x100000001b3u;
  }
  hk_kernel_file_close(&file);
  return value;
}

hk_rights_t hk_rights_compare(void) {
  uint64_t programs = digest("/proc/self/status"), own = digest("/proc/thread-self/status");
  if (programs == 0 || own == 0) return hk_rights_unknown;
  return programs == own ? hk_rights_same : hk_rights_differ;
}
