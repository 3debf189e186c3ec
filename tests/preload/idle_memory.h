/* tests/preload/idle_memory.h - what the programs share that take memory, free it, and see how much stays resident. */
#ifndef PRELOAD_IDLE_MEMORY_H
#define PRELOAD_IDLE_MEMORY_H

#include "check.h"

#include <time.h>

/* Where blocks come from: the program's malloc, or one that was loaded later. */
static void *(*take)(size_t) = malloc;
static void (*give)(void *) = free;

/* Each block names the next one, so that a program has no tables of its own that would be resident. */
typedef struct block_t {
  struct block_t *next;
} block_t;

static inline block_t *take_chain(size_t size, size_t total) {
  block_t *chain = NULL;
  for (size_t count = total / size; count > 0; --count) {
    block_t *block = take(size);
    CHECK(block != NULL);
    for (size_t at = 0; at < size; at += 4 * KIB) ((char *)block)[at] = 1;
    block->next = chain;
    chain = block;
  }
  return chain;
}

static inline size_t length_of(const block_t *chain) {
  size_t length = 0;
  for (; chain != NULL; chain = chain->next) ++length;
  return length;
}

/* Whatever the allocator asks the system for meanwhile, errno is the program's. */
static inline void free_chain(block_t *chain) {
  errno = 12345;
  while (chain != NULL) {
    block_t *next = chain->next;
    give(chain);
    chain = next;
  }
  CHECK(errno == 12345);
}

static inline size_t resident_bytes(void) {
  char text[128] = {0};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
  close(file);
  char *resident = strchr(text, ' ');
  CHECK(resident != NULL);
  return strtoul(resident, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Time as this process has it: a beat that a busy machine made longer is one beat all the same. */
enum { beat_ms = 20, beats_a_second = 1000 / beat_ms };

static inline void wait_beats(int count) {
  for (; count > 0; --count) nanosleep(&(struct timespec){.tv_nsec = beat_ms * 1000000L}, NULL);
}

/* How many beats it takes until no more than this is resident; `most` if it is more even then. */
static inline int beats_until_resident(size_t bytes, int most) {
  int beats = 0;
  for (; beats < most && resident_bytes() > bytes; ++beats) wait_beats(1);
  return beats;
}

#endif /* PRELOAD_IDLE_MEMORY_H */
