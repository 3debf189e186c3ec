/* tests/misuse/free_static.c - free of a static variable. */
#include "scenario.h"

static _Alignas(16) char variable[4096];

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  say_bad(variable);
  free(forget(variable));
  return aftermath(size);
}
