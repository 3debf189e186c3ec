/* tests/misuse/free_interior_sampled.c - free(p + 5), of a block that the heap profile has sampled. */
#include "sampled_block.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = keep_sampled(size);
  say_bad(block + 5);
  say_block(block);
  free(forget(block + 5));
  return aftermath(size);
}
