/* bench/micro/floor_bump.h - BENCH_FLOOR 2: a bump pointer that starts over when all blocks of the thread are free. */
#ifndef BENCH_FLOOR_BUMP_H
#define BENCH_FLOOR_BUMP_H

#include <string.h>

#include "floor.h"

enum { floor_region_bytes = 1 << 28 };
static _Thread_local struct {
  char *start, *next, *end;
  uint64_t live;
} floor_bump;

FLOOR_SLOW void floor_bump_start(void) {
  if (floor_bump.start) bench_fail("more live blocks than the bump pointer's region holds");
  floor_bump.start = floor_bump.next = floor_map(floor_region_bytes);
  floor_bump.end = floor_bump.start + floor_region_bytes;
}

FLOOR_INLINE void *block_alloc(size_t size) {
  const size_t rounded = (size + 15) & ~(size_t)15;
  if (__builtin_expect((size_t)(floor_bump.end - floor_bump.next) < rounded, 0)) floor_bump_start();
  char *block = floor_bump.next;
  floor_bump.next += rounded;
  ++floor_bump.live;
  return floor_hide(block);
}

FLOOR_INLINE void block_free(void *block, size_t size) {
  (void)floor_hide(block), (void)size;
  if (--floor_bump.live == 0) floor_bump.next = floor_bump.start;
}

FLOOR_INLINE void *block_realloc(void *block, size_t old_size, size_t size) {
  void *moved = memcpy(block_alloc(size), block, old_size < size ? old_size : size);
  block_free(block, old_size);
  return moved;
}

FLOOR_INLINE void block_thread_end(void) {}

#endif /* BENCH_FLOOR_BUMP_H */
