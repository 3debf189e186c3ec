/* os/os_resident.c - L1. Implements the figures about the process's memory of os.h on Linux: the resident bytes of the
 * process and of a range, and the number of mappings. */
#define _GNU_SOURCE 1

#include <sys/resource.h>

#include "base/text.h"
#include "base/units.h"
#include "os/kernel_file.h"
#include "os/os.h"
#include "os/syscall.h"

/* ---- The process. */

/* Returns the number in a line "<label>  <number> kB", in bytes; `otherwise` when this is another line. */
static size_t line_bytes(const char *line, const char *label, size_t otherwise) {
  const char *rest = hk_text_after(line, label);
  if (rest == NULL) return otherwise;
  while (*rest == ' ' || *rest == '\t') rest++;
  uint64_t kib;
  return hk_text_number(rest, &kib) != NULL ? kib * HK_KIB : otherwise;
}

static hk_os_memory_t memory_of(const char *path) {
  hk_os_memory_t memory = {0, 0};
  hk_kernel_file_t file;
  if (!hk_kernel_file_open(&file, path)) return memory;
  for (char line[HK_KERNEL_LINE_BYTES]; hk_kernel_file_line(&file, line);) {
    memory.resident_bytes = line_bytes(line, "VmRSS:", memory.resident_bytes);
    memory.peak_resident_bytes = line_bytes(line, "VmHWM:", memory.peak_resident_bytes);
  }
  hk_kernel_file_close(&file);
  return memory;
}

/* The process's file has no sizes after the end of its first thread. */
hk_os_memory_t hk_os_memory(void) {
  hk_os_memory_t memory = memory_of("/proc/self/status");
  return memory.resident_bytes != 0 ? memory : memory_of("/proc/thread-self/status");
}

/* For the calling thread the kernel tells the process's peak too, and does not sum over all threads. */
size_t hk_os_peak_resident_bytes(void) {
  struct rusage usage;
  if (hk_syscall2(SYS_getrusage, RUSAGE_THREAD, (long)&usage) != 0) return 0;
  return (size_t)usage.ru_maxrss * HK_KIB;
}

size_t hk_os_mapping_count(void) {
  hk_kernel_file_t file;
  if (!hk_kernel_file_open_own(&file, "maps")) return 0;
  size_t count = 0;
  for (char character; hk_kernel_file_character(&file, &character);) count += character == '\n';
  hk_kernel_file_close(&file);
  return count;
}

size_t hk_os_mapping_limit(void) {
  hk_kernel_file_t file;
  uint64_t limit = HK_OS_MAPPING_LIMIT;
  if (!hk_kernel_file_open(&file, "/proc/sys/vm/max_map_count")) return limit;
  char line[HK_KERNEL_LINE_BYTES];
  if (hk_kernel_file_line(&file, line)) (void)hk_text_number(line, &limit);
  hk_kernel_file_close(&file);
  return limit;
}

/* ---- A range. */

bool hk_os_resident_pages(void *start, size_t bytes, unsigned char *is_resident) {
  if (hk_syscall3(SYS_mincore, (long)start, (long)bytes, (long)is_resident) != 0) return false;
  for (size_t i = 0; i < bytes / hk_os_page_size(); i++) is_resident[i] &= 1;
  return true;
}

size_t hk_os_resident_bytes(void *start, size_t bytes) {
  unsigned char is_resident[256] = {0}; /* small, for the caller's stack */
  size_t page_bytes = hk_os_page_size(), count = 0;
  for (size_t at = 0; at < bytes;) {
    size_t part = bytes - at < sizeof(is_resident) * page_bytes ? bytes - at : sizeof(is_resident) * page_bytes;
    if (!hk_os_resident_pages((char *)start + at, part, is_resident)) return 0;
    for (size_t i = 0; i < part / page_bytes; i++) count += is_resident[i];
    at += part;
  }
  return count * page_bytes;
}
