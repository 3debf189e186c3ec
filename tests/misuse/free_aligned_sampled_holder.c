/* tests/misuse/free_aligned_sampled_holder.c - free(p - 64), of a block at a multiple of 64 that the heap profile
 * has sampled. */
#include "scenario.h"

_Bool hakmem_profile_start(size_t rate) __attribute__((weak));

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  if (hakmem_profile_start != NULL) (void)hakmem_profile_start(1);
  char *block = (char *)keep_this(aligned_alloc(64, size), size);
  say_bad(block - 64);
  say_block(block);
  free(forget(block - 64));
  return aftermath(size);
}
