/* tests/misuse/scenario.h - what the misuse programs share. Each program makes one mistake with blocks of argv[1]
 * bytes, having said on stdout what the message must name; if it lives on, it checks that the mistake gave no memory to
 * two owners.
 *
 * Nothing here knows hakmem: the programs run under any malloc. They write with write(2): stdio would allocate between
 * the steps.
 */
#ifndef HK_TESTS_MISUSE_SCENARIO_H
#define HK_TESTS_MISUSE_SCENARIO_H

#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The compiler forgets what it knew of the pointer: where it came from, and that it was freed. */
static inline void *forget(void *pointer) {
  __asm__ volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

static inline size_t block_size(int argc, char **argv) { return argc > 1 ? strtoull(argv[1], NULL, 10) : 24; }

static inline void say(const char *name, size_t value) {
  char line[80];
  int length = snprintf(line, sizeof line, "%s=0x%zx\n", name, value);
  if (write(STDOUT_FILENO, line, (size_t)length) < 0) _exit(90);
}

/* The message must name `bad`, and the block of `bytes` at `start` that it belongs to or is. */
static inline void say_bad(void *bad) { say("bad", (size_t)bad); }
static inline void say_block(void *start) {
  say("start", (size_t)start);
  say("bytes", malloc_usable_size(start));
}

/* ---- Blocks that live on through the mistake, and what comes after. */

enum { kept_max = 600, after_count = 200 };
static struct kept { uintptr_t start, end; } kept[kept_max];
static int kept_count;

/* Lets a block stay in use to the end. Returns it. */
static inline void *keep_this(void *start, size_t size) {
  char *block = (char *)start;
  if (block == NULL) _exit(91);
  size_t edge = size < 64 ? size : 64;
  memset(block, 0x5a, edge);
  memset(block + size - edge, 0x5a, edge);
  if (kept_count == kept_max) _exit(92);
  kept[kept_count++] = (struct kept){(uintptr_t)block, (uintptr_t)block + size};
  return block;
}

/* A new block that stays in use to the end. */
static inline void *keep(size_t size) { return keep_this(malloc(size), size); }

static inline void keep_many(int count, size_t size) {
  while (count-- > 0) (void)keep(size);
}

/* The block to be misused, which the message must name. */
static inline void *block_among_kept(size_t size) {
  keep_many(3, size);
  void *block = malloc(size);
  say_bad(block);
  say_block(block);
  return block;
}

/* To be returned from main when the mistake was survived: takes many blocks of the size and says "ok", or "OVERLAP"
 * when any two in use share a byte. */
static inline int aftermath(size_t size) {
  const char *verdict = "ok\n";
  keep_many(after_count, size);
  for (int i = 0; i < kept_count; i++) {
    for (int k = 0; k < i; k++) {
      if (kept[i].start < kept[k].end && kept[k].start < kept[i].end) verdict = "OVERLAP\n";
    }
  }
  return write(STDOUT_FILENO, verdict, strlen(verdict)) < 0 ? 93 : 0;
}

/* ---- Another thread. */

static inline void in_thread(void *(*body)(void *), void *argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, argument) != 0) _exit(94);
  if (pthread_join(thread, NULL) != 0) _exit(95);
}

static inline void *free_once(void *block) {
  free(forget(block));
  return NULL;
}

static inline void *free_twice(void *block) {
  free(forget(block));
  free(forget(block));
  return NULL;
}

/* ---- A free block whose neighbours are in use, the last one freed: the next one handed out, if nothing hinders. */

static inline void *fresh_free_block(size_t size) {
  keep_many(3, size);
  void *block = malloc(size);
  memset(block, 0x11, size);
  say_bad(block);
  say_block(block);
  free(block);
  return forget(block);
}

#endif
