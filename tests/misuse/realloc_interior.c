/* tests/misuse/realloc_interior.c - realloc(p + 16, n). */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = (char *)keep(size);
  say_bad(block + 16);
  say_block(block);
  forget(realloc(forget(block + 16), size * 2));
  return aftermath(size);
}
