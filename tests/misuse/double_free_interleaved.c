/* tests/misuse/double_free_interleaved.c - free(a), free(b), free(a): what a check of the last freed block alone
 * misses. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void *first = malloc(size), *second = malloc(size);
  say_bad(first);
  say_block(first);
  free(first);
  free(second);
  free(forget(first));
  return aftermath(size);
}
