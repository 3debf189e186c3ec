/* tests/preload/check.h - what the programs of this folder share. They know nothing of hakmem: each is an ordinary
 * program that must behave the same under every correct malloc. They say nothing but their result; a failed CHECK
 * ends them. */
#ifndef PRELOAD_CHECK_H
#define PRELOAD_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { exit_failed = 1, exit_usage = 2, exit_skipped = 77 };

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

#define CHECK(condition)                                                                   \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      dprintf(2, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
      _exit(exit_failed);                                                                  \
    }                                                                                      \
  } while (0)

/* Fills a block so that its neighbours' writes would show. */
static inline void paint(void *block, size_t size, unsigned seed) { memset(block, (int)(seed * 37 + 11) & 0xff, size); }

static inline int is_painted(const void *block, size_t size, unsigned seed) {
  const unsigned char *bytes = (const unsigned char *)block;
  const unsigned char expected = (unsigned char)(seed * 37 + 11);
  return size == 0 || (bytes[0] == expected && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* A number from a line of /proc/self/status, in KiB; allocates nothing. */
static inline long status_kib(const char *name) {
  char text[8192];
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  CHECK(length > 0);
  text[length] = 0;
  const char *line = strstr(text, name);
  CHECK(line != NULL);
  return atol(line + strlen(name) + 1);
}

/* A small random generator, so that a run can be repeated. */
static inline unsigned next_random(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

#endif /* PRELOAD_CHECK_H */
