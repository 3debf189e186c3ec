/* Phases that each take TAKEN bytes in blocks of another size, write to them, and free all: phases_of_sizes TAKEN
 *
 * Prints `peak BYTES`: the most resident bytes at the end of a phase's requests, without those before the first.
 */
#include "idle_memory.h"

int main(int argc, char **argv) {
  static const size_t sizes[] = {32000, 1000, 5000, 100, 15000, 400, 200000, 2500};
  if (argc != 2) return exit_usage;
  const size_t taken = strtoul(argv[1], NULL, 10), before = resident_bytes();
  size_t peak = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    block_t *chain = take_chain(sizes[i], taken);
    const size_t now = resident_bytes() - before;
    if (now > peak) peak = now;
    free_chain(chain);
  }
  printf("peak %zu\n", peak);
  return 0;
}
