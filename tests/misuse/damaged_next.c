/* tests/misuse/damaged_next.c - A write after free to the first word of the block. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  uintptr_t *block = (uintptr_t *)fresh_free_block(size);
  block[0] = (uintptr_t)&size;
  return aftermath(size);
}
