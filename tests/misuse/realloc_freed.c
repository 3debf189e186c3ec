/* tests/misuse/realloc_freed.c - realloc of a block that was freed. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void *block = block_among_kept(size);
  free(block);
  forget(realloc(forget(block), size * 2));
  return aftermath(size);
}
