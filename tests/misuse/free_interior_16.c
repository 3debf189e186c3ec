/* tests/misuse/free_interior_16.c - free(p + 16): aligned like a block, inside one. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = (char *)keep(size);
  say_bad(block + 16);
  say_block(block);
  free(forget(block + 16));
  return aftermath(size);
}
