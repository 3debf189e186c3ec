/* tests/misuse/double_free_remote_and_here.c - Another thread frees the block, then the owner does. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void *block = block_among_kept(size);
  in_thread(free_once, block);
  free(forget(block));
  return aftermath(size);
}
