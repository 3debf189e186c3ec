/* tests/misuse/free_slab_end.c - frees an address behind the last block of a slab, too near to the slab's end for
 * another block. */
#include "slab_end.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *bad = slab_end(size) + 3;
  say_bad(bad);
  free(forget(bad));
  return aftermath(size);
}
