/* tests/misuse/free_unmapped.c - A big block is freed and its mapping goes; then it is freed again. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void *block = malloc(size + ((size_t)4 << 20));
  say_bad(block);
  say_block(block);
  free(block);
  malloc_trim(0);
  free(forget(block));
  return aftermath(size);
}
