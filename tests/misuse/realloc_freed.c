/* tests/misuse/realloc_freed.c - realloc of a block that was freed. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  keep_many(3, size);
  void *block = malloc(size);
  say_bad(block);
  say_block(block);
  free(block);
  forget(realloc(forget(block), size * 2));
  return aftermath(size);
}
