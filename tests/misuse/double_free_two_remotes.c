/* tests/misuse/double_free_two_remotes.c - Two other threads free the block, one each. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  keep_many(3, size);
  void *block = malloc(size);
  say_bad(block);
  say_block(block);
  in_thread(free_once, block);
  in_thread(free_once, block);
  return aftermath(size);
}
