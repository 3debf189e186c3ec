/* tests/misuse/free_interior_middle.c - free of an aligned address in the middle of a block: in a large one, far
 * from the descriptor of its start. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = (char *)keep(size);
  char *middle = block + size / 2 / 16 * 16;
  say_bad(middle);
  say_block(block);
  free(forget(middle));
  return aftermath(size);
}
