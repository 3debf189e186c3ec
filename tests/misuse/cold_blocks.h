/* tests/misuse/cold_blocks.h - a block that is in no cache: many others were allocated after it. */
#ifndef HK_TESTS_MISUSE_COLD_BLOCKS_H
#define HK_TESTS_MISUSE_COLD_BLOCKS_H

#include "scenario.h"

/* More than the second cache of a processor has. */
enum { cold_bytes = 24 << 20 };

/* Three blocks that were allocated in a row, in the middle of many: the middle one is the block to be misused. */
static struct { void *before, *block, *after; } cold;

static inline void make_cold_block(size_t size) {
  size_t count = cold_bytes / size;
  for (size_t i = 0; i < count; i++) {
    void *block = forget(malloc(size));
    if (i == count / 2) cold.before = block;
    if (i == count / 2 + 1) cold.block = block;
    if (i == count / 2 + 2) cold.after = block;
  }
  say_bad(cold.block);
  say_block(cold.block);
}

#endif
