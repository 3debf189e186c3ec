/* Requests that a limit on addresses refuses: near_limit d|v MIB [OPERATIONS]
 *
 * Sets RLIMIT_DATA or RLIMIT_AS, and gives and takes blocks of random sizes of a table, so that its requests are about
 * as much as the limit leaves. The requests do not depend on their results. Prints how many requests were refused, and
 * the most that was live: `refused COUNT live BYTES`.
 */
#include <sys/resource.h>

#include "check.h"

enum { least_log = 4, most_log = 20, slots_most = 8192, slots_a_mib = 16 };

typedef struct {
  char *start;
  size_t size;
} block_t;

static block_t blocks[slots_most];
static size_t wishes[slots_most];

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

int main(int argc, char **argv) {
  if (argc < 3) return exit_usage;
  const size_t limit = strtoul(argv[2], NULL, 10) * MIB;
  const unsigned operations = argc > 3 ? (unsigned)atoi(argv[3]) : 20000;
  const struct rlimit limits = {limit, limit};
  CHECK(setrlimit(argv[1][0] == 'd' ? RLIMIT_DATA : RLIMIT_AS, &limits) == 0);
  const unsigned slot_count = (unsigned)(limit / MIB * slots_a_mib);
  CHECK(slot_count <= slots_most);
  unsigned state = 1;
  size_t wanted = 0, live = 0, most = 0, refused = 0;
  for (unsigned i = 0; i < operations; i++) {
    const unsigned slot = next_random(&state) % slot_count;
    const size_t size = random_size(&state);
    free(blocks[slot].start);
    live -= blocks[slot].size;
    wanted -= wishes[slot];
    blocks[slot] = (block_t){NULL, 0};
    wishes[slot] = wanted + size <= limit ? size : 0;
    if (wishes[slot] == 0) continue;
    wanted += size;
    char *start = malloc(size);
    if (start == NULL) {
      CHECK(errno == ENOMEM);
      refused++;
      continue;
    }
    blocks[slot] = (block_t){start, size};
    touch(blocks[slot]);
    live += size;
    if (live > most) most = live;
  }
  printf("refused %zu live %zu\n", refused, most);
  return 0;
}
