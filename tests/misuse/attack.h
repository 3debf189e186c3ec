/* tests/misuse/attack.h - what the attack programs share. `attack_<class> NAME SIZE` runs one attack with blocks of
 * SIZE bytes (attacks.toml lists them), says "reached" or "held" on stdout and exits with 0. An attack is reached when
 * the program uses what the attacker is after: a victim's changed data, two owners of one block, a block at an address
 * that the attacker chose, or a secret. An attack that is not reached goes on with ordinary requests and frees, so that
 * an allocator which checks late can still report it.
 *
 * Nothing here knows hakmem. The attacks that know where an allocator keeps its data say so.
 */
#ifndef HK_TESTS_MISUSE_ATTACK_H
#define HK_TESTS_MISUSE_ATTACK_H

/* dladdr, reallocarray. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "scenario.h"

typedef struct {
  const char *name;
  bool (*run)(size_t size);
} attack_t;

typedef unsigned char byte_t;

enum { mine = 0x5a, secret = 0xa7, forged = 0x41 };

static inline void say_outcome(const char *word) {
  if (write(STDOUT_FILENO, word, strlen(word)) < 0) _exit(93);
  _exit(0);
}

/* ---- Live blocks, each filled with `mine`. */

enum { live_max = 20000 };
static struct live {
  byte_t *start;
  size_t size;
} live[live_max];
static size_t live_count;

/* Returns a new block without writing to it, and enters it. An allocator that refuses after an attack has given the
 * attacker nothing. */
static inline byte_t *take_raw(size_t size) {
  byte_t *block = (byte_t *)forget(malloc(size));
  if (block == NULL) say_outcome("held\n");
  if (live_count == live_max) _exit(92);
  live[live_count++] = (struct live){block, size};
  return block;
}

static inline byte_t *take(size_t size) {
  byte_t *block = take_raw(size);
  memset(block, mine, size);
  return block;
}

static inline void take_many(size_t count, size_t size) {
  while (count-- > 0) (void)take(size);
}

/* Removes a block from the live ones. The newest entry of the address is the owner. */
static inline void leave(const void *block) {
  for (size_t i = live_count; i-- > 0;) {
    if (live[i].start != block) continue;
    live[i] = live[--live_count];
    return;
  }
}

static inline void drop(void *block) {
  leave(block);
  free(forget(block));
}

static inline void drop_all(void) {
  while (live_count > 0) free(forget(live[--live_count].start));
}

/* Returns a new block without unused bytes at its end: the byte behind it is no longer the program's. */
static inline byte_t *take_full(size_t size) {
  void *probe = malloc(size);
  size_t usable = malloc_usable_size(probe);
  free(probe);
  return take(usable);
}

static inline size_t full_size(size_t size) {
  void *probe = malloc(size);
  size_t usable = malloc_usable_size(probe);
  free(probe);
  return usable;
}

/* How many blocks of a size are many: enough to fill some slabs, and few enough to be quick. */
static inline size_t many(size_t size) {
  size_t count = ((size_t)4 << 20) / size;
  return count > 3000 ? 3000 : count < 8 ? 8 : count;
}

/* How many are a few. */
static inline size_t some(size_t size) { return size < 65536 ? 64 : 6; }

/* ---- Goals. */

static inline bool is_all(const byte_t *bytes, size_t count, byte_t value) {
  return count == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0);
}

/* Returns whether eight bytes in turn have the value, somewhere in the range. */
static inline bool shows(const byte_t *bytes, size_t count, byte_t value) {
  for (size_t i = 0; i + 8 <= count; i++) {
    if (is_all(bytes + i, 8, value)) return true;
  }
  return false;
}

/* Returns whether a live block other than `except` has lost its contents. */
static inline bool any_changed(const void *except) {
  for (size_t i = 0; i < live_count; i++) {
    size_t edge = live[i].size < 65536 ? live[i].size : 65536;
    if (live[i].start == except) continue;
    if (!is_all(live[i].start, edge, mine)) return true;
    if (!is_all(live[i].start + live[i].size - edge, edge, mine)) return true;
  }
  return false;
}

/* Takes a block, and returns whether it shares a byte with another live one. */
static inline bool next_overlaps(size_t size, byte_t **taken) {
  byte_t *block = *taken = take_raw(size);
  for (size_t i = 0; i + 1 < live_count; i++) {
    if (block < live[i].start + live[i].size && live[i].start < block + size) return true;
  }
  return false;
}

/* Memory of the attacker's choice: malloc must never return an address in it. */
static _Alignas(4096) byte_t target[1 << 20];
static inline bool is_target(const void *address) {
  return (const byte_t *)address >= target && (const byte_t *)address < target + sizeof target;
}

/* Returns whether one of `count` requests brings a block in the target, or one that overlaps another. */
static inline bool requests_give_target(size_t count, size_t size) {
  byte_t *block = NULL;
  while (count-- > 0) {
    if (next_overlaps(size, &block) || is_target(block)) return true;
  }
  return false;
}

/* ---- The end. */

/* Makes ordinary requests and frees after an attack without effect. Returns whether two owners get one block now. */
static inline bool go_on_reaches(size_t size) {
  size_t count = some(size) * 8;
  if (count > live_max - live_count) count = live_max - live_count;
  if (requests_give_target(count, size)) return true;
  drop_all();
  return false;
}

static inline int run_attack(const attack_t *attacks, size_t count, int argc, char **argv) {
  if (argc < 3) return 64;
  struct rlimit no_core = {0, 0};
  (void)setrlimit(RLIMIT_CORE, &no_core);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(attacks[i].name, argv[1]) != 0) continue;
    size_t size = strtoull(argv[2], NULL, 10);
    say_outcome(attacks[i].run(size) || go_on_reaches(size) ? "reached\n" : "held\n");
  }
  return 65;
}

#define ATTACKS(...)                                                          \
  int main(int argc, char **argv) {                                           \
    static const attack_t attacks[] = {__VA_ARGS__};                          \
    return run_attack(attacks, sizeof attacks / sizeof *attacks, argc, argv); \
  }

#endif
