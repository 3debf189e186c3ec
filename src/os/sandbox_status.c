/* os/sandbox_status.c - L1. See sandbox_status.h. */
#include "os/sandbox_status.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "os/kernel_file.h"
#include "os/syscall.h"

/* From linux/fcntl.h: opens a name without its file, for which no rights on the file are needed. */
#ifndef O_PATH
#define O_PATH 010000000
#endif

const char *const hk_sandbox_container_files[] = {"/.dockerenv", "/run/.containerenv", "/run/systemd/container", NULL};

/* Kernels without filters write no such lines, and those before 5.9 only the first. */
typedef struct {
  uint64_t mode, count;
} filters_t;

/* Reads a line's number. A line with the label and without a number counts as 1: a filter that is not understood. */
static void read_number(const char *line, const char *label, uint64_t *number) {
  const char *rest = hk_text_after(line, label);
  if (rest == NULL) return;
  if (*rest != '\t' || hk_text_number(rest + 1, number) == NULL) *number = 1;
}

/* Returns false where the file cannot be read. */
static bool read_filters(const char *path, filters_t *filters) {
  hk_kernel_file_t file;
  *filters = (filters_t){0};
  if (!hk_kernel_file_open(&file, path)) return false;
  for (char line[HK_KERNEL_LINE_BYTES]; hk_kernel_file_line(&file, line);) {
    read_number(line, "Seccomp:", &filters->mode);
    read_number(line, "Seccomp_filters:", &filters->count);
  }
  hk_kernel_file_close(&file);
  return !file.is_broken;
}

hk_sandbox_t hk_sandbox_status_read(const char *path) {
  filters_t filters;
  return !read_filters(path, &filters) || filters.mode != 0 ? hk_sandbox_inherited : hk_sandbox_none;
}

bool hk_sandbox_status_is_same(const char *path, const char *firsts) {
  filters_t own, first;
  if (!read_filters(path, &own) || !read_filters(firsts, &first)) return false;
  return own.mode == first.mode && own.count == first.count;
}

static bool exists(const char *path) {
  long file = hk_syscall4(SYS_openat, AT_FDCWD, (long)path, O_PATH | O_CLOEXEC, 0);
  if (hk_syscall_failed(file)) return false;
  (void)hk_syscall2(SYS_close, file, 0);
  return true;
}

bool hk_sandbox_status_is_contained(const char *const *environment, const char *const *files) {
  for (; environment != NULL && *environment != NULL; environment++) {
    if (hk_text_after(*environment, "container=") != NULL) return true;
    if (hk_text_after(*environment, "KUBERNETES_SERVICE_HOST=") != NULL) return true;
  }
  for (; *files != NULL; files++) {
    if (exists(*files)) return true;
  }
  return false;
}
