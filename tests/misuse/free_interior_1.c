/* tests/misuse/free_interior_1.c - free(p + 1): not aligned like any block. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = (char *)keep(size);
  say_bad(block + 1);
  say_block(block);
  free(forget(block + 1));
  return aftermath(size);
}
