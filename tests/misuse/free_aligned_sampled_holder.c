/* tests/misuse/free_aligned_sampled_holder.c - free(p - 64), of a block at a multiple of 64 that the heap profile
 * has sampled. */
#include "sampled_block.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  sample_all();
  char *block = (char *)keep_this(aligned_alloc(64, size), size);
  say_bad(block - 64);
  say_block(block);
  free(forget(block - 64));
  return aftermath(size);
}
