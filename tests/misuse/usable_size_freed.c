/* tests/misuse/usable_size_freed.c - malloc_usable_size of a block that was freed. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void *block = block_among_kept(size);
  free(block);
  if (malloc_usable_size(forget(block)) != 0) return 97;
  return aftermath(size);
}
