/* Lives in little memory: band_phases MIB ROUNDS
 *
 * In each phase MIB mebibytes are live in blocks of one size, written to, and freed before the next phase asks for
 * another size. Everything must be had although the sum over the phases is far more than the limit that the caller has
 * set: memory freed in one size must serve the others. Half of the phases free from a second thread. Prints `ok`.
 */
#include "check.h"

#include <pthread.h>

static const size_t sizes[] = {64, 20 * MIB, 5000, 100000, 24, 700 * KIB, 1000, 3 * MIB, 30000, 2 * MIB + 1, 48};

typedef struct {
  void **blocks;
  size_t count;
} phase_t;

static void *free_all(void *argument) {
  const phase_t *phase = argument;
  for (size_t i = 0; i < phase->count; ++i) free(phase->blocks[i]);
  return NULL;
}

static void run_phase(size_t size, size_t total, int elsewhere) {
  phase_t phase = {.count = total / size};
  phase.blocks = malloc(phase.count * sizeof(void *));
  CHECK(phase.blocks != NULL);
  for (size_t i = 0; i < phase.count; ++i) {
    phase.blocks[i] = malloc(size);
    CHECK(phase.blocks[i] != NULL);
    paint(phase.blocks[i], size, (unsigned)i);
  }
  for (size_t i = 0; i < phase.count; ++i) CHECK(is_painted(phase.blocks[i], size, (unsigned)i));
  if (elsewhere) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_all, &phase) == 0 && pthread_join(thread, NULL) == 0);
  } else {
    free_all(&phase);
  }
  free(phase.blocks);
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  const size_t total = strtoul(argv[1], NULL, 10) * MIB;
  const int rounds = atoi(argv[2]);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) run_phase(sizes[i], total, (int)(i + round) % 2);
  }
  puts("ok");
  return 0;
}
