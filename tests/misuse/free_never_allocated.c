/* tests/misuse/free_never_allocated.c - free of the next block of the size, which no request has returned. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  char *block = (char *)malloc(size);
  char *next = block + malloc_usable_size(block);
  say_bad(next);
  say("bytes", malloc_usable_size(block));
  free(forget(next));
  return aftermath(size);
}
