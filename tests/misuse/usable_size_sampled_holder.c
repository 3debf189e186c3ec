/* tests/misuse/usable_size_sampled_holder.c - malloc_usable_size(p - 16), of a block that the heap profile has
 * sampled. */
#include "sampled_block.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = keep_sampled(size);
  say_bad(block - 16);
  say_block(block);
  if (malloc_usable_size(forget(block - 16)) != 0) return 97;
  return aftermath(size);
}
