/* A module that frees blocks of the program's, and gives it some. See deepbind.c. */
#include <stdlib.h>

#include "../check.h"

void take(void *block) { free(block); }

void *give(size_t bytes) {
  void *block = malloc(bytes);
  paint(block, bytes, 7);
  return block;
}
