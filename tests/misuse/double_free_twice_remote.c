/* tests/misuse/double_free_twice_remote.c - Another thread frees the block, twice. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  keep_many(3, size);
  void *block = malloc(size);
  say_bad(block);
  say_block(block);
  in_thread(free_twice, block);
  return aftermath(size);
}
