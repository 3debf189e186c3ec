/* bench/micro/block.h - the blocks of a workload: from the allocator under test, or from the floor (floor.h).
 *
 * Frees pass the size, because the floor needs it; malloc's free does not get it. A slot is a stamped block: its first
 * word has size and tag, its last byte repeats the tag's top. Two blocks that overlap, and a block that is handed out
 * twice, have different tags, so one of the two shows the damage when it is freed.
 */
#ifndef BENCH_BLOCK_H
#define BENCH_BLOCK_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define BENCH_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* 0: malloc. 1: per-size free lists. 2: a bump pointer. */
#ifndef BENCH_FLOOR
#define BENCH_FLOOR 0
#endif
/* Whether other threads free blocks than those that allocated them. A workload defines it before it includes this. */
#ifndef BENCH_BLOCKS_MIGRATE
#define BENCH_BLOCKS_MIGRATE 0
#endif

#if BENCH_FLOOR == 1
#include "floor_lists.h"
#elif BENCH_FLOOR == 2
#include "floor_bump.h"
#else

static inline void *block_got(void *block) {
  if (BENCH_UNLIKELY(block == NULL)) bench_fail("the allocator returned NULL");
  return block;
}

static inline void *block_alloc(size_t size) { return block_got(malloc(size)); }

static inline void *block_calloc(size_t size) { return block_got(calloc(1, size)); }

static inline void *block_realloc(void *block, size_t old_size, size_t size) {
  (void)old_size;
  return block_got(realloc(block, size));
}

static inline void block_free(void *block, size_t size) {
  (void)size;
  free(block);
}

/* Called by a thread that ends: the floor has no destructors. */
static inline void block_thread_end(void) {}

#endif

typedef struct {
  void *block; /* NULL: empty */
  uint32_t size;
  uint32_t tag;
} slot_t;

enum { slot_bytes_least = 8 }; /* the first word must fit */

static inline void slot_stamp(const slot_t *slot) {
  const uint64_t head = (uint64_t)slot->tag << 32 | slot->size;
  memcpy(slot->block, &head, sizeof head);
  ((unsigned char *)slot->block)[slot->size - 1] = (unsigned char)(slot->tag >> 24);
}

static inline void slot_check(const slot_t *slot) {
  uint64_t head;
  memcpy(&head, slot->block, sizeof head);
  const unsigned char tail = ((const unsigned char *)slot->block)[slot->size - 1];
  if (BENCH_UNLIKELY(head != ((uint64_t)slot->tag << 32 | slot->size) || tail != (unsigned char)(slot->tag >> 24))) {
    bench_damaged(slot->block, slot->size);
  }
}

/* Fills an empty slot. `tag` differs from block to block. */
static inline void slot_fill(slot_t *slot, size_t size, uint64_t tag) {
  *slot = (slot_t){block_alloc(size), (uint32_t)size, (uint32_t)tag};
  slot_stamp(slot);
}

/* Changes the size of a filled slot's block. Requires that its first word was kept. */
static inline void slot_resize(slot_t *slot, size_t size, uint64_t tag) {
  slot_check(slot);
  void *block = block_realloc(slot->block, slot->size, size);
  const uint64_t head = (uint64_t)slot->tag << 32 | slot->size;
  if (BENCH_UNLIKELY(memcmp(block, &head, sizeof head) != 0)) bench_damaged(block, size);
  *slot = (slot_t){block, (uint32_t)size, (uint32_t)tag};
  slot_stamp(slot);
}

/* Checks and frees; the slot may be empty. */
static inline void slot_clear(slot_t *slot) {
  if (slot->block == NULL) return;
  slot_check(slot);
  block_free(slot->block, slot->size);
  slot->block = NULL;
}

static inline void slots_clear(slot_t *slots, size_t count) {
  for (size_t i = 0; i < count; ++i) slot_clear(&slots[i]);
}

/* The slot of a block of which only the address was kept. Sizes outside the bounds are damage. */
static inline slot_t slot_of_block(void *block, uint64_t least, uint64_t most) {
  uint64_t head;
  memcpy(&head, block, sizeof head);
  if (BENCH_UNLIKELY((uint32_t)head < least || (uint32_t)head > most)) bench_damaged(block, (uint32_t)head);
  return (slot_t){block, (uint32_t)head, (uint32_t)(head >> 32)};
}

/* Frees such a block. Its size is wiped out first: if the block was handed out twice, its second free finds that. */
static inline void block_check_and_free(void *block, uint64_t least, uint64_t most) {
  const slot_t slot = slot_of_block(block, least, most);
  slot_check(&slot);
  memset(block, 0, sizeof slot.size);
  block_free(block, slot.size);
}

static inline slot_t *slots_new(size_t count) { return bench_pages(count * sizeof(slot_t)); }

#endif /* BENCH_BLOCK_H */
