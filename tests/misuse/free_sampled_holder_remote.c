/* tests/misuse/free_sampled_holder_remote.c - Another thread: free(p - 16), of a block that the heap profile has
 * sampled. */
#include "sampled_block.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = keep_sampled(size);
  say_bad(block - 16);
  say_block(block);
  in_thread(free_once, block - 16);
  return aftermath(size);
}
