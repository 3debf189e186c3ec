/* tests/misuse/damaged_next_bit.c - A write after free that changes one bit of the first word: a counter that is
 * decremented, a flag that is cleared. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  uintptr_t *block = (uintptr_t *)fresh_free_block(size);
  block[0] ^= 16;
  return aftermath(size);
}
