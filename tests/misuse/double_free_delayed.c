/* tests/misuse/double_free_delayed.c - The second free comes after a hundred frees of the same size and much else. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  enum { others_count = 100 };
  void *others[others_count];
  void *block = block_among_kept(size);
  for (int i = 0; i < others_count; i++) others[i] = malloc(size);
  free(block);
  for (int i = 0; i < others_count; i++) free(others[i]);
  for (int i = 0; i < 2000; i++)
    free(malloc(size * 2 + 100 + (size_t)i % 50 * 16)); /* other sizes: no request gets the block */
  free(forget(block));
  return aftermath(size);
}
