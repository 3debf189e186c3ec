/* tests/misuse/double_free_immediate.c - free(p), free(p). */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void *block = malloc(size);
  say_bad(block);
  say_block(block);
  free(block);
  free(forget(block));
  return aftermath(size);
}
