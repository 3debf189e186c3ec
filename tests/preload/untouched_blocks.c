/* A large block that may stay untouched, beside runs that come and go: untouched_blocks MIB touch|leave
 *
 * Requests a block of MIB mebibytes and writes to it (touch) or not (leave). Then requests, fills and frees 8 MB of
 * runs, again and again. Prints `faults COUNT`: the page faults of the later rounds.
 */
#include <sys/resource.h>
#include <time.h>

#include "check.h"

#define RUN_BYTES (200 * KIB)
#define RUNS 40
#define ROUNDS 50
#define PAUSE_NS 300000000

static long faults(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt;
}

static void take_and_free(void) {
  char *run[RUNS];
  for (int i = 0; i < RUNS; ++i) {
    run[i] = malloc(RUN_BYTES);
    CHECK(run[i] != NULL);
    memset(run[i], i, RUN_BYTES);
  }
  for (int i = 0; i < RUNS; ++i) free(run[i]);
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  size_t bytes = strtoul(argv[1], NULL, 10) * MIB;
  char *block = malloc(bytes);
  CHECK(block != NULL);
  if (strcmp(argv[2], "touch") == 0) memset(block, 1, bytes);
  take_and_free();
  CHECK(nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL) == 0);
  take_and_free();
  long before = faults();
  for (int i = 0; i < ROUNDS; ++i) take_and_free();
  printf("faults %ld\n", faults() - before);
  free(block);
  return 0;
}
