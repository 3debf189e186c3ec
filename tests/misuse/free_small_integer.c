/* tests/misuse/free_small_integer.c - free of a small number, here the size itself. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  say_bad((void *)size);
  free(forget((void *)size));
  return aftermath(size);
}
