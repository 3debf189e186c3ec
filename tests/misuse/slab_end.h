/* tests/misuse/slab_end.h - for programs that free an address behind the last block of a slab of 64 KiB. */
#ifndef HK_TESTS_MISUSE_SLAB_END_H
#define HK_TESTS_MISUSE_SLAB_END_H

#include "scenario.h"

/* Returns the end of the last block of a slab in which each block of the size is live, and names the block. */
static inline char *slab_end(size_t size) {
  enum { slab_bytes = 1 << 16, enough = 3 * slab_bytes };
  uintptr_t block = 0; /* one in a slab that becomes full */
  for (size_t taken = 0; taken < enough; taken += size) {
    void *taken_block = forget(malloc(size));
    if (taken < enough / 2) block = (uintptr_t)taken_block;
  }
  char *slab = (char *)(block / slab_bytes * slab_bytes);
  char *end = slab + slab_bytes / size * size;
  say_block(end - size);
  return end;
}

#endif /* HK_TESTS_MISUSE_SLAB_END_H */
