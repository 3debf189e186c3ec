/* bench/micro/floor.h - the floor: about the least time that the machine needs for a workload. No allocator: callers
 * pass sizes to every free, nothing is checked, nothing is purged, everything is inlined. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <sys/mman.h>

#include "bench.h"

#define FLOOR_INLINE static inline __attribute__((always_inline, unused))
#define FLOOR_SLOW static __attribute__((noinline, cold, unused))

/* Hides a block from the compiler, which would otherwise leave out the measured work. */
FLOOR_INLINE void *floor_hide(void *block) {
  __asm__("" : "+r"(block) : : "memory");
  return block;
}

FLOOR_SLOW void *floor_map(size_t bytes) {
  void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) bench_fail("out of memory in the floor");
  return pages;
}

#endif /* BENCH_FLOOR_H */
