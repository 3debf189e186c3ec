/* tests/misuse/double_free_cold_remote_and_here.c - Another thread frees a block that was allocated long ago, then its
 * owner does. */
#include "cold_blocks.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  make_cold_block(size);
  in_thread(free_once, cold.block);
  free(forget(cold.block));
  return aftermath(size);
}
