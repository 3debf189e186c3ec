/* tests/misuse/free_slab_end_in_step.c - frees the address right behind the last block of a slab, where the next block
 * would start. It is too near to the slab's end for one. */
#include "slab_end.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *bad = slab_end(size);
  say_bad(bad);
  free(forget(bad));
  return aftermath(size);
}
