/* tests/misuse/double_free_cold.c - A block that was allocated long ago is freed twice, with frees of its neighbours
 * around. */
#include "cold_blocks.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  make_cold_block(size);
  free(cold.before);
  free(cold.block);
  free(cold.after);
  free(forget(cold.block));
  return aftermath(size);
}
