/* tests/misuse/double_free_sampled.c - free(p), free(p), of a block that the heap profile has sampled. */
#include "scenario.h"

_Bool hakmem_profile_start(size_t rate) __attribute__((weak));

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  if (hakmem_profile_start != NULL) (void)hakmem_profile_start(1);
  void *block = malloc(size);
  say_bad(block);
  say_block(block);
  free(block);
  free(forget(block));
  return aftermath(size);
}
