/* See kernel_text.h. */
#include "kernel_text.h"

#include <errno.h>
#include <string.h>
#include <sys/vfs.h>

#include "fuzz.h"
#include "os/syscall.h"

#define FILES_MAX 16
#define OPEN_MAX 4
#define FIRST_FILE 1000
#define INTERRUPTED_EVERY 7

typedef struct {
  const uint8_t *name; /* the end of the file's path */
  size_t name_length;
  const uint8_t *content;
  size_t size;
} file_t;

typedef struct {
  const file_t *file;
  size_t at;
} open_t;

static file_t files[FILES_MAX];
static unsigned file_count;
static open_t opened[OPEN_MAX];
static unsigned read_count;
static size_t read_most;
static bool is_loaded;

/* Returns where the line behind the one at `at` begins. */
static size_t line_end(const uint8_t *data, size_t size, size_t at) {
  const uint8_t *end = memchr(data + at, '\n', size - at);
  return end == NULL ? size : (size_t)(end - data) + 1;
}

void kernel_text_clear(void) {
  is_loaded = true;
  file_count = 0;
  read_count = 0;
  memset(opened, 0, sizeof opened);
}

void kernel_text_load(const uint8_t *data, size_t size) {
  kernel_text_clear();
  read_most = 1 + size % 512;
  file_t file = {.content = data};
  size_t start = 0;
  for (size_t at = 0; at < size && file_count + 1 < FILES_MAX;) {
    size_t next = line_end(data, size, at);
    if (data[at] == '@') {
      file.size = at - start;
      if (file.name != NULL || file.size > 0) files[file_count++] = file;
      size_t name_end = data[next - 1] == '\n' ? next - 1 : next;
      file = (file_t){.name = data + at + 1, .name_length = name_end - at - 1, .content = data + next};
      start = next;
    }
    at = next;
  }
  file.size = size - start;
  if (file.name != NULL || file.size > 0) files[file_count++] = file;
}

static const file_t *find(const char *path) {
  size_t length = strlen(path);
  const file_t *otherwise = NULL;
  for (unsigned i = 0; i < file_count; i++) {
    const file_t *file = &files[i];
    if (file->name == NULL) {
      otherwise = file;
    } else if (file->name_length <= length &&
               memcmp(path + length - file->name_length, file->name, file->name_length) == 0) {
      return file;
    }
  }
  return otherwise;
}

const uint8_t *kernel_text_find(const char *path, size_t *size) {
  const file_t *file = find(path);
  *size = file == NULL ? 0 : file->size;
  return file == NULL ? NULL : file->content;
}

unsigned kernel_text_open_count(void) {
  unsigned count = 0;
  for (unsigned i = 0; i < OPEN_MAX; i++) count += opened[i].file != NULL;
  return count;
}

/* ---- System calls. */

static open_t *open_of(long number) {
  FUZZ_CHECK(number >= FIRST_FILE && number < FIRST_FILE + OPEN_MAX);
  open_t *found = &opened[number - FIRST_FILE];
  FUZZ_CHECK(found->file != NULL);
  return found;
}

static long open_file(const char *path) {
  const file_t *file = find(path);
  if (file == NULL) return -ENOENT;
  for (unsigned i = 0; i < OPEN_MAX; i++) {
    if (opened[i].file != NULL) continue;
    opened[i] = (open_t){.file = file};
    return FIRST_FILE + (long)i;
  }
  return -EMFILE;
}

static long read_file(open_t *from, void *to, size_t bytes) {
  if (++read_count % INTERRUPTED_EVERY == 0) return -EINTR;
  size_t left = from->file->size - from->at;
  size_t count = left < bytes ? left : bytes;
  if (count > read_most) count = read_most;
  memcpy(to, from->file->content + from->at, count);
  from->at += count;
  return (long)count;
}

long kernel_text_call(long number, long a, long b, long c) {
  if (!is_loaded) return hk_syscall6(number, a, b, c, 0, 0, 0);
  switch (number) {
    case SYS_openat:
      return open_file((const char *)b);
    case SYS_read:
      return read_file(open_of(a), (void *)b, (size_t)c);
    case SYS_close:
      open_of(a)->file = NULL;
      return 0;
    case SYS_fstatfs:
      open_of(a);
      *(struct statfs *)b = (struct statfs){.f_type = KERNEL_TEXT_PROC_MAGIC};
      return 0;
    case SYS_getresuid:
    case SYS_getresgid:
      *(unsigned *)a = *(unsigned *)b = *(unsigned *)c = 0;
      return 0;
    default:
      return 0;
  }
}

/* ---- The library's own reader, with the system calls above. */

#define hk_syscall2(number, a, b) kernel_text_call(number, a, b, 0)
#define hk_syscall3(number, a, b, c) kernel_text_call(number, a, b, c)
#define hk_syscall4(number, a, b, c, d) ((void)(d), kernel_text_call(number, a, b, c))

#include "os/kernel_file.c"
