/* tests/misuse/free_before_sampled.c - free(p - 8), of a block that the heap profile has sampled. */
#include "scenario.h"

_Bool hakmem_profile_start(size_t rate) __attribute__((weak));

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  if (hakmem_profile_start != NULL) (void)hakmem_profile_start(1);
  char *block = (char *)keep(size);
  say_bad(block - 8);
  say_block(block);
  free(forget(block - 8));
  return aftermath(size);
}
