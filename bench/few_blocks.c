/* bench/few_blocks.c - a minimal use of an allocator: a few blocks, of a few sizes. */
#include <stdlib.h>
#include <string.h>

int main(void) {
  static const size_t sizes[] = {24, 100, 400, 1000, 3000, 9000};
  void *volatile kept[6];
  for (int i = 0; i < 6; ++i) kept[i] = memset(malloc(sizes[i]), 1, sizes[i]);
  for (int i = 0; i < 6; ++i) free(kept[i]);
  return 0;
}
