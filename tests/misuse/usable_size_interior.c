/* tests/misuse/usable_size_interior.c - malloc_usable_size(p + 16). */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = (char *)keep(size);
  say_bad(block + 16);
  say_block(block);
  if (malloc_usable_size(forget(block + 16)) != 0) return 97;
  return aftermath(size);
}
