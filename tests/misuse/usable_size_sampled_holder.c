/* tests/misuse/usable_size_sampled_holder.c - malloc_usable_size(p - 16), of a block that the heap profile has
 * sampled. */
#include "scenario.h"

_Bool hakmem_profile_start(size_t rate) __attribute__((weak));

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  if (hakmem_profile_start != NULL) (void)hakmem_profile_start(1);
  char *block = (char *)keep(size);
  say_bad(block - 16);
  say_block(block);
  if (malloc_usable_size(forget(block - 16)) != 0) return 97;
  return aftermath(size);
}
