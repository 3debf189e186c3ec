/* tests/misuse/double_free_two_remotes.c - Two other threads free the block, one each. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void *block = block_among_kept(size);
  in_thread(free_once, block);
  in_thread(free_once, block);
  return aftermath(size);
}
