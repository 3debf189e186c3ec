/* tests/misuse/free_slab_end_in_step.c - frees the address right behind the last block of a slab of 64 KiB, where the
 * next block would start. It is too near to the slab's end for one. */
#include "scenario.h"

enum { slab_bytes = 1 << 16, enough = 3 * (1 << 16) };

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  uintptr_t block = 0; /* one in a slab that becomes full */
  for (size_t taken = 0; taken < enough; taken += size) {
    void *taken_block = forget(malloc(size));
    if (taken < enough / 2) block = (uintptr_t)taken_block;
  }
  char *slab = (char *)(block / slab_bytes * slab_bytes);
  char *end = slab + slab_bytes / size * size;
  say_bad(end);
  say_block(end - size);
  free(forget(end));
  return aftermath(size);
}
