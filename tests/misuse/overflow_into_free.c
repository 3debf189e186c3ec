/* tests/misuse/overflow_into_free.c - A block that is in use is written beyond its end, into the free block above
 * it. */
#include "scenario.h"

/* Neighbours in one slab are of one span; across its border they may not be. */
enum { SLAB_BYTES = 64 * 1024 };

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  enum { count = 64 };
  char *blocks[count];
  for (int i = 0; i < count; i++) blocks[i] = (char *)keep(size);
  size_t usable = malloc_usable_size(blocks[0]);
  /* The last pair of neighbours: its slab is the one that the next blocks come from. */
  for (int i = count - 1; i >= 0; i--) {
    for (int k = count - 1; k >= 0; k--) {
      if (blocks[k] != blocks[i] + usable) continue;
      if (((uintptr_t)blocks[k] ^ (uintptr_t)blocks[i]) >= SLAB_BYTES) continue;
      say_bad(blocks[k]);
      say_block(blocks[k]);
      for (int n = 0; n < kept_count; n++) {
        if (kept[n].start == (uintptr_t)blocks[k]) kept[n] = kept[--kept_count];
      }
      free(blocks[k]);
      memset(forget(blocks[i]), 'A', usable + 16);
      return aftermath(size);
    }
  }
  return 98; /* no two neighbours: the test has to find them another way */
}
