/* tests/misuse/free_before_sampled.c - free(p - 8), of a block that the heap profile has sampled. */
#include "sampled_block.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = keep_sampled(size);
  say_bad(block - 8);
  say_block(block);
  free(forget(block - 8));
  return aftermath(size);
}
