/* tests/misuse/damaged_both.c - A write after free that fills the block with one byte. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  memset(fresh_free_block(size), 0x41, 16);
  return aftermath(size);
}
