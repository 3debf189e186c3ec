/* tests/misuse/double_free_twice_remote.c - Another thread frees the block, twice. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void *block = block_among_kept(size);
  in_thread(free_twice, block);
  return aftermath(size);
}
