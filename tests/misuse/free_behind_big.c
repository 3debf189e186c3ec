/* tests/misuse/free_behind_big.c - frees the address just behind a block. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = (char *)keep(size);
  char *behind = block + malloc_usable_size(block) + 16;
  say_bad(behind);
  say_block(block);
  free(forget(behind));
  return aftermath(size);
}
