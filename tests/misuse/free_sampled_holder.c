/* tests/misuse/free_sampled_holder.c - free(p - 16), of a block that the heap profile has sampled: there begins the
 * block that holds it. */
#include "sampled_block.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = keep_sampled(size);
  say_bad(block - 16);
  say_block(block);
  free(forget(block - 16));
  return aftermath(size);
}
