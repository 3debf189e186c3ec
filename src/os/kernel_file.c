/* os/kernel_file.c - L1. See kernel_file.h. */
#include "os/kernel_file.h"

#include <errno.h>
#include <fcntl.h>

#include "base/format.h"
#include "os/syscall.h"

bool hk_kernel_file_open(hk_kernel_file_t *reader, const char *path) {
  reader->file = hk_syscall4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
  reader->count = reader->at = 0;
  reader->is_broken = false;
  return !hk_syscall_failed(reader->file);
}

static bool open_in(hk_kernel_file_t *reader, const char *folder, const char *name) {
  char path[64];
  hk_format_t text;
  hk_format_init(&text, path, sizeof path);
  hk_format_text(&text, folder);
  hk_format_text(&text, name);
  return hk_kernel_file_open(reader, path);
}

void hk_kernel_file_close(const hk_kernel_file_t *reader) { (void)hk_syscall2(SYS_close, reader->file, 0); }

/* Reads the next characters. Returns false at the file's end, or when it cannot be read. */
static bool fill(hk_kernel_file_t *reader) {
  long count;
  do count = hk_syscall3(SYS_read, reader->file, (long)reader->chunk, sizeof(reader->chunk));
  while (count == -EINTR);
  if (count < 0) reader->is_broken = true;
  if (count <= 0) return false;
  reader->count = count;
  reader->at = 0;
  return true;
}

/* The process's own files come first: emulators supply them, and not the thread's. Old kernels have no thread-self. */
bool hk_kernel_file_open_own(hk_kernel_file_t *reader, const char *name) {
  if (open_in(reader, "/proc/self/", name)) {
    if (fill(reader)) return true;
    hk_kernel_file_close(reader);
  }
  return open_in(reader, "/proc/thread-self/", name);
}

bool hk_kernel_file_character(hk_kernel_file_t *reader, char *character) {
  if (reader->at == reader->count && !fill(reader)) return false;
  *character = reader->chunk[reader->at++];
  return true;
}

/* Reads a line. Returns false at the file's end. A line that is too long gets the length HK_KERNEL_LINE_BYTES. */
static bool read_line(hk_kernel_file_t *reader, char *line, size_t *length) {
  char character;
  *length = 0;
  while (hk_kernel_file_character(reader, &character)) {
    if (character == '\n') return true;
    if (*length < HK_KERNEL_LINE_BYTES) line[(*length)++] = character;
  }
  return *length > 0;
}

bool hk_kernel_file_line(hk_kernel_file_t *reader, char *line) {
  size_t length;
  do {
    if (!read_line(reader, line, &length)) return false;
  } while (length == HK_KERNEL_LINE_BYTES);
  line[length] = '\0';
  return true;
}

bool hk_kernel_file_line_start(hk_kernel_file_t *reader, char *line) {
  size_t length;
  if (!read_line(reader, line, &length)) return false;
  line[length < HK_KERNEL_LINE_BYTES ? length : HK_KERNEL_LINE_BYTES - 1] = '\0';
  return true;
}
