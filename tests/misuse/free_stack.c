/* tests/misuse/free_stack.c - free of a variable on the stack. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  _Alignas(16) char variable[64] = {0};
  say_bad(variable);
  free(forget(variable));
  return aftermath(size);
}
