/* Takes memory and frees it, and computes from then on without a call of the allocator, while another thread sleeps:
 * compute_on SIZE TAKEN BOUND
 *
 * TAKEN bytes in blocks of SIZE, written to. Prints `peak BYTES beats N resident BYTES`: the most resident bytes; how
 * many fiftieths of a second it took until no more than BOUND were (patience ends after 500); and the resident bytes
 * then. The bytes that the program had before are taken off.
 */
#include "idle_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { most_beats = 10 * beats_a_second };

static size_t block_size, taken, peak, before;
static atomic_bool is_freed;
static volatile unsigned result;

static void *compute(void *unused) {
  (void)unused;
  block_t *chain = take_chain(block_size, taken);
  peak = resident_bytes() - before;
  free_chain(chain);
  is_freed = true;
  for (;;) result++;
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 4) return exit_usage;
  alarm(60);
  block_size = strtoul(argv[1], NULL, 10);
  taken = strtoul(argv[2], NULL, 10);
  const size_t bound = strtoul(argv[3], NULL, 10);
  before = resident_bytes();
  free(malloc(1)); /* this thread has a heap too */
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, compute, NULL) == 0);
  while (!is_freed) wait_beats(1);
  const int beats = beats_until_resident(before + bound, most_beats);
  printf("peak %zu beats %d resident %zu\n", peak, beats, resident_bytes() - before);
  return 0;
}
