/* tests/misuse/free_sampled_holder_remote.c - Another thread: free(p - 16), of a block that the heap profile has
 * sampled. */
#include "scenario.h"

_Bool hakmem_profile_start(size_t rate) __attribute__((weak));

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  if (hakmem_profile_start != NULL) (void)hakmem_profile_start(1);
  char *block = (char *)keep(size);
  say_bad(block - 16);
  say_block(block);
  in_thread(free_once, block - 16);
  return aftermath(size);
}
