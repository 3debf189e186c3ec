/* bench/traces/record_calls.c - a library to preload: records each call of malloc and its relatives, for make_trace.py.
 *
 * The calls go on to glibc's own allocator, by the names that glibc exports for that; no other C library has them. A
 * record is three words: address before, address after, size and kind. All threads write to one file,
 * RECORD_CALLS_FILE, in the order in which they got the lock; a freed block is recorded before, a new one after the
 * call, so that no address is given out twice in the record. A child of fork records nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

enum { kind_malloc = 1, kind_calloc, kind_realloc, kind_free, kind_shift = 56, buffer_records = 4096 };

typedef struct {
  uint64_t before, after, size_and_kind;
} record_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static record_t buffer[buffer_records];
static size_t used;
static int file = -1;
static pid_t owner;

static void write_buffer(void) {
  const char *at = (const char *)buffer;
  size_t left = used * sizeof *buffer;
  while (left != 0) {
    const ssize_t written = write(file, at, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(111); /* half a record is worse than none */
    at += written;
    left -= (size_t)written;
  }
  used = 0;
}

static void record(const void *before, const void *after, size_t size, uint64_t kind) {
  if (file < 0) return;
  buffer[used++] = (record_t){(uintptr_t)before, (uintptr_t)after, size | kind << kind_shift};
  if (used == buffer_records) write_buffer();
}

static void *recorded(void *block, size_t size, uint64_t kind) {
  if (block == NULL) return NULL;
  pthread_mutex_lock(&lock);
  record(NULL, block, size, kind);
  pthread_mutex_unlock(&lock);
  return block;
}

void *malloc(size_t size) { return recorded(__libc_malloc(size), size, kind_malloc); }

void *calloc(size_t count, size_t size) { return recorded(__libc_calloc(count, size), count * size, kind_calloc); }

void free(void *block) {
  if (block == NULL) return;
  pthread_mutex_lock(&lock);
  record(block, NULL, 0, kind_free);
  __libc_free(block);
  pthread_mutex_unlock(&lock);
}

/* Under the lock, because another thread may get the old address before this one has written it down. */
void *realloc(void *block, size_t size) {
  if (block == NULL) return malloc(size);
  if (size == 0) {
    free(block);
    return NULL;
  }
  pthread_mutex_lock(&lock);
  void *moved = __libc_realloc(block, size);
  if (moved != NULL) record(block, moved, size, kind_realloc);
  pthread_mutex_unlock(&lock);
  return moved;
}

void *memalign(size_t alignment, size_t size) { return recorded(__libc_memalign(alignment, size), size, kind_malloc); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
  void *block = memalign(alignment, size);
  if (block == NULL) return ENOMEM;
  *out = block;
  return 0;
}

static void forget_in_child(void) { file = -1; }

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("RECORD_CALLS_FILE");
  if (path == NULL) return;
  unsetenv("LD_PRELOAD"); /* of the program alone, not of what it starts */
  owner = getpid();
  pthread_atfork(NULL, NULL, forget_in_child);
  file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) _exit(111);
}

__attribute__((destructor)) static void end(void) {
  pthread_mutex_lock(&lock);
  if (file >= 0 && owner == getpid()) write_buffer();
  file = -1;
  pthread_mutex_unlock(&lock);
}
