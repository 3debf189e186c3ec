/* tests/misuse/double_free_sampled.c - free(p), free(p), of a block that the heap profile has sampled. */
#include "sampled_block.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  sample_all();
  void *block = malloc(size);
  say_bad(block);
  say_block(block);
  free(block);
  free(forget(block));
  return aftermath(size);
}
