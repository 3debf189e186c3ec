/* tests/misuse/damaged_remote.c - A write after free to a block that another thread freed. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  keep_many(3, size);
  uintptr_t *block = (uintptr_t *)malloc(size);
  say_bad(block);
  say_block(block);
  in_thread(free_once, block);
  ((uintptr_t *)forget(block))[0] += 64;
  malloc_trim(0); /* collects remote frees */
  return aftermath(size);
}
