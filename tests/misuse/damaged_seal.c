/* tests/misuse/damaged_seal.c - A write after free to the second word of the block. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  uintptr_t *block = (uintptr_t *)fresh_free_block(size);
  block[1] = 0;
  return aftermath(size);
}
