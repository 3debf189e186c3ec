/* tests/misuse/double_free_here_and_remote.c - The owner frees the block, then another thread does. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void *block = block_among_kept(size);
  free(block);
  in_thread(free_once, forget(block));
  return aftermath(size);
}
