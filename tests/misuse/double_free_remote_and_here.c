/* tests/misuse/double_free_remote_and_here.c - Another thread frees the block, then the owner does. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  keep_many(3, size);
  void *block = malloc(size);
  say_bad(block);
  say_block(block);
  in_thread(free_once, block);
  free(forget(block));
  return aftermath(size);
}
