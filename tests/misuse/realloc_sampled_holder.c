/* tests/misuse/realloc_sampled_holder.c - realloc(p - 16, n), of a block that the heap profile has sampled. */
#include "sampled_block.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = keep_sampled(size);
  say_bad(block - 16);
  say_block(block);
  forget(realloc(forget(block - 16), size * 2));
  return aftermath(size);
}
