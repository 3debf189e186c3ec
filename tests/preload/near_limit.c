/* Requests that a limit on addresses refuses: near_limit d|v KIB OPERATIONS [MOST LIVE_KIB]
 *
 * Sets RLIMIT_DATA or RLIMIT_AS, and gives and takes blocks of random sizes of a table, so that its requests are about
 * as much as the limit leaves. With MOST, sizes are from 1 to MOST bytes, each as often, the table has LIVE_KIB, and
 * calloc, posix_memalign and realloc take turns with malloc. The requests do not depend on their results. Prints how
 * many requests were refused, and the most that was live: `refused COUNT live BYTES`. In the end everything is free,
 * and half of the most live bytes can be had again in blocks of another size.
 */
#include <sys/mman.h>
#include <sys/resource.h>

#include "check.h"

enum { least_log = 4, most_log = 20, slots_a_mib = 16 };

typedef struct {
  char *start;
  size_t size;
} block_t;

static block_t *blocks;
static size_t *wishes;

/* Between 16 bytes and 1 MiB, each doubling as often. */
static size_t random_size(unsigned *state) {
  const unsigned log = least_log + next_random(state) % (most_log - least_log);
  return ((size_t)1 << log) + next_random(state) % ((size_t)1 << log);
}

/* Every page is written to, as a program does that has asked for it. */
static void touch(block_t block) {
  for (size_t i = 0; i < block.size; i += 4096) block.start[i] = (char)i;
  block.start[block.size - 1] = 1;
}

static void *map(size_t bytes) {
  void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(start != MAP_FAILED);
  return start;
}

/* Returns NULL with ENOMEM, as each of these functions does. */
static char *take(size_t size, unsigned turn) {
  void *start = NULL;
  errno = 0;
  switch (turn % 4) {
    case 0:
      start = calloc(1, size);
      for (size_t i = 0; start != NULL && i < size; i++) CHECK(((char *)start)[i] == 0);
      break;
    case 1:
      CHECK(posix_memalign(&start, 64, size) == (start != NULL ? 0 : ENOMEM));
      break;
    case 2: {
      char *first = malloc(1);
      if (first == NULL) break;
      *first = 'x';
      start = realloc(first, size);
      CHECK(*(start != NULL ? (char *)start : first) == 'x');
      if (start != NULL) return start;
      CHECK(errno == ENOMEM);
      free(first);
      return NULL;
    }
    default:
      start = malloc(size);
  }
  CHECK(start != NULL || errno == ENOMEM);
  return start;
}

/* Takes half of `bytes` in blocks of 3,000 bytes, and gives them back. */
static void take_again(size_t bytes) {
  void *chain = NULL;
  for (size_t taken = 0; taken < bytes / 2; taken += 3000) {
    void **block = malloc(3000);
    CHECK(block != NULL);
    *block = chain;
    chain = block;
  }
  for (void *next; chain != NULL; chain = next) {
    next = *(void **)chain;
    free(chain);
  }
}

int main(int argc, char **argv) {
  if (argc < 4) return exit_usage;
  const size_t limit = strtoul(argv[2], NULL, 10) * KIB;
  const unsigned operations = (unsigned)atoi(argv[3]);
  const size_t largest = argc > 5 ? strtoul(argv[4], NULL, 10) : 0;
  const struct rlimit limits = {limit, limit};
  CHECK(setrlimit(argv[1][0] == 'd' ? RLIMIT_DATA : RLIMIT_AS, &limits) == 0);
  const unsigned slot_count = largest != 0 ? (unsigned)(strtoul(argv[5], NULL, 10) * KIB / (largest / 2))
                                           : (unsigned)(limit / MIB * slots_a_mib);
  blocks = map(slot_count * sizeof *blocks);
  wishes = map(slot_count * sizeof *wishes);
  unsigned state = 1;
  size_t wanted = 0, live = 0, most = 0, refused = 0;
  for (unsigned i = 0; i < operations; i++) {
    const unsigned slot = next_random(&state) % slot_count;
    const size_t size = largest != 0 ? 1 + next_random(&state) % largest : random_size(&state);
    free(blocks[slot].start);
    live -= blocks[slot].size;
    wanted -= wishes[slot];
    blocks[slot] = (block_t){NULL, 0};
    wishes[slot] = largest != 0 || wanted + size <= limit ? size : 0;
    if (wishes[slot] == 0) continue;
    wanted += size;
    char *start = take(size, largest != 0 ? i : 3);
    if (start == NULL) {
      refused++;
      continue;
    }
    blocks[slot] = (block_t){start, size};
    touch(blocks[slot]);
    live += size;
    if (live > most) most = live;
  }
  for (unsigned i = 0; i < slot_count; i++) free(blocks[i].start);
  take_again(most);
  printf("refused %zu live %zu\n", refused, most);
  return 0;
}
