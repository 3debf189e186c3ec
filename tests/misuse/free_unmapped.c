/* tests/misuse/free_unmapped.c - frees a large block twice, the second time after its mapping has gone. */
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
