/* bench/micro/floor_lists.h - BENCH_FLOOR 1: a free list for each thread and size: 16-byte steps up to 1 KiB, then
 * eight sizes a doubling, refilled from fresh memory.
 *
 * With BENCH_BLOCKS_MIGRATE, where other threads free the blocks, a list that grew long goes to the others as a whole:
 * one exchange for many blocks. And a thread that ends leaves its lists to the next one that begins, as a whole too.
 */
#ifndef BENCH_FLOOR_LISTS_H
#define BENCH_FLOOR_LISTS_H

#include <stdatomic.h>
#include <string.h>

#include "floor.h"

enum { floor_class_count = 320, floor_chunk_bytes = 1 << 20, floor_list_most = 256 };

typedef struct {
  void *freed;     /* this thread's frees, last first */
  void *last;      /* the oldest of them; only kept with BENCH_BLOCKS_MIGRATE, like what follows */
  void *taken;     /* another thread's list, taken as a whole */
  uint32_t length; /* of `freed` */
} floor_bin_t;

typedef struct floor_heap {
  floor_bin_t bins[floor_class_count];
  char *next, *end;             /* fresh memory */
  struct floor_heap *next_idle; /* under `lock` of floor_idle */
} floor_heap_t;

#if BENCH_BLOCKS_MIGRATE

static _Thread_local floor_heap_t *floor_own;
static struct {
  atomic_flag lock;
  floor_heap_t *first;
} floor_idle = {.lock = ATOMIC_FLAG_INIT, .first = NULL};
static _Atomic(void *) floor_shared[floor_class_count];

FLOOR_SLOW floor_heap_t *floor_adopt_heap(void) {
  while (atomic_flag_test_and_set_explicit(&floor_idle.lock, memory_order_acquire)) continue;
  floor_own = floor_idle.first;
  if (floor_own) floor_idle.first = floor_own->next_idle;
  atomic_flag_clear_explicit(&floor_idle.lock, memory_order_release);
  if (floor_own == NULL) floor_own = floor_map(sizeof *floor_own);
  return floor_own;
}

FLOOR_INLINE floor_heap_t *floor_heap(void) {
  return __builtin_expect(floor_own != NULL, 1) ? floor_own : floor_adopt_heap();
}

FLOOR_INLINE void block_thread_end(void) {
  if (floor_own == NULL) return;
  while (atomic_flag_test_and_set_explicit(&floor_idle.lock, memory_order_acquire)) continue;
  floor_own->next_idle = floor_idle.first;
  floor_idle.first = floor_own;
  atomic_flag_clear_explicit(&floor_idle.lock, memory_order_release);
  floor_own = NULL;
}

/* A whole list of another thread, or NULL. */
FLOOR_INLINE void *floor_take_shared(unsigned class) {
  if (atomic_load_explicit(&floor_shared[class], memory_order_relaxed) == NULL) return NULL;
  return atomic_exchange_explicit(&floor_shared[class], NULL, memory_order_acquire);
}

FLOOR_SLOW void floor_give_away(floor_bin_t *bin, unsigned class) {
  void *others = atomic_load_explicit(&floor_shared[class], memory_order_relaxed);
  do {
    memcpy(bin->last, &others, sizeof others);
  } while (!atomic_compare_exchange_weak_explicit(&floor_shared[class], &others, bin->freed, memory_order_release,
                                                  memory_order_relaxed));
  bin->freed = NULL;
  bin->length = 0;
}

#else

static _Thread_local floor_heap_t floor_own;
FLOOR_INLINE floor_heap_t *floor_heap(void) { return &floor_own; }
FLOOR_INLINE void block_thread_end(void) {}
FLOOR_INLINE void *floor_take_shared(unsigned class) { return (void)class, NULL; }
FLOOR_INLINE void floor_give_away(floor_bin_t *bin, unsigned class) { (void)bin, (void)class; }

#endif

FLOOR_INLINE unsigned floor_class(size_t size) {
  if (size <= 1024) return (unsigned)((size + 15) >> 4);
  const unsigned doubling = 63u - (unsigned)__builtin_clzll(size - 1);
  return 65u + (doubling - 10) * 8 + ((unsigned)((size - 1) >> (doubling - 3)) & 7u);
}

FLOOR_INLINE size_t floor_class_bytes(unsigned class) {
  if (class <= 64) return (size_t) class << 4;
  return (size_t)(9 + (class - 65) % 8) << (7 + (class - 65) / 8);
}

/* Fresh memory, zero. Large blocks have a mapping each, so that they can grow in place. */
FLOOR_SLOW void *floor_carve(floor_heap_t *heap, unsigned class) {
  const size_t bytes = floor_class_bytes(class);
  if (bytes >= floor_chunk_bytes) return floor_map(bytes);
  if ((size_t)(heap->end - heap->next) < bytes) {
    heap->next = floor_map(floor_chunk_bytes);
    heap->end = heap->next + floor_chunk_bytes;
  }
  void *block = heap->next;
  heap->next += bytes;
  return block;
}

/* A block that was used before, or NULL. */
FLOOR_INLINE void *floor_pop(floor_heap_t *heap, unsigned class) {
  floor_bin_t *bin = &heap->bins[class];
  void *block = bin->freed;
  if (__builtin_expect(block != NULL, 1)) {
    memcpy(&bin->freed, block, sizeof bin->freed);
    if (BENCH_BLOCKS_MIGRATE) --bin->length;
    return block;
  }
  if (!BENCH_BLOCKS_MIGRATE) return NULL;
  block = bin->taken ? bin->taken : floor_take_shared(class);
  if (block != NULL) memcpy(&bin->taken, block, sizeof bin->taken);
  return block;
}

FLOOR_INLINE void *block_alloc(size_t size) {
  floor_heap_t *heap = floor_heap();
  const unsigned class = floor_class(size);
  void *block = floor_pop(heap, class);
  return floor_hide(__builtin_expect(block != NULL, 1) ? block : floor_carve(heap, class));
}

FLOOR_INLINE void *block_calloc(size_t size) {
  floor_heap_t *heap = floor_heap();
  const unsigned class = floor_class(size);
  void *block = floor_pop(heap, class);
  return floor_hide(block ? memset(block, 0, size) : floor_carve(heap, class));
}

FLOOR_INLINE void block_free(void *block, size_t size) {
  const unsigned class = floor_class(size);
  floor_bin_t *bin = &floor_heap()->bins[class];
  memcpy(floor_hide(block), &bin->freed, sizeof bin->freed);
  if (BENCH_BLOCKS_MIGRATE && bin->freed == NULL) bin->last = block;
  bin->freed = block;
  if (BENCH_BLOCKS_MIGRATE && ++bin->length == floor_list_most) floor_give_away(bin, class);
}

FLOOR_INLINE void *block_realloc(void *block, size_t old_size, size_t size) {
  const unsigned old_class = floor_class(old_size), class = floor_class(size);
  if (class == old_class) return block;
  const size_t old_bytes = floor_class_bytes(old_class), bytes = floor_class_bytes(class);
  if (old_bytes >= floor_chunk_bytes && bytes >= floor_chunk_bytes) {
    void *moved = mremap(block, old_bytes, bytes, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) bench_fail("out of memory in the floor");
    return moved;
  }
  void *moved = memcpy(block_alloc(size), block, old_size < size ? old_size : size);
  block_free(block, old_size);
  return moved;
}

#endif /* BENCH_FLOOR_LISTS_H */
