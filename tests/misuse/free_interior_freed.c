/* tests/misuse/free_interior_freed.c - free(p); free(p + 8). */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = (char *)malloc(size);
  (void)keep(size);
  say_bad(block + 8);
  say_block(block);
  free(forget(block));
  free(forget(block + 8));
  return aftermath(size);
}
