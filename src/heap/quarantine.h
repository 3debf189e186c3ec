/* heap/quarantine.h - L4. The quarantine of a hardened build: freed blocks that wait before they may be used again.
 *
 * Each heap has some places for each class. A freed block goes to a place that is chosen at random, and the block that
 * was there goes to its free list. So no request gets the block that was freed last, and the order of frees does not
 * tell the order of reuse. A block that another thread freed goes there when its heap collects it. Blocks in quarantine
 * count as in use for their spans. All of them belong to spans of the heap: a span that moves to another heap takes its
 * blocks out first (heap/steal.c).
 *
 * Classes of which blocks are carved one by one (heap/refill.c) have some more places, for blocks that were never used:
 * a request gets one of those at random.
 */
#ifndef HK_HEAP_QUARANTINE_H
#define HK_HEAP_QUARANTINE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/random.h"
#include "base/units.h"
#include "policy/safety.h"
#include "policy/size_class.h"

/* Chosen: places for each class; powers of two. */
#define HK_QUARANTINE_PLACES 16u
#define HK_QUARANTINE_PLACES_LARGE 4u
#define HK_QUARANTINE_LARGE_BYTES (2 * HK_KIB)
#define HK_QUARANTINE_UNUSED 4u

typedef struct {
  uint64_t random;
  hk_block_t *held[HK_CLASS_COUNT][HK_QUARANTINE_PLACES];
  hk_block_t *unused[HK_CLASS_COUNT - HK_TINY_CLASS_MAX - 1][HK_QUARANTINE_UNUSED];
} hk_quarantine_t;

/* Puts a freed block of `bytes` to a random place. Returns the block that was there, or NULL. */
HK_INLINE hk_block_t *hk_quarantine_swap(hk_quarantine_t *quarantine, unsigned class_index, size_t bytes,
                                         hk_block_t *block) {
  unsigned places = bytes <= HK_QUARANTINE_LARGE_BYTES ? HK_QUARANTINE_PLACES : HK_QUARANTINE_PLACES_LARGE;
  hk_block_t **place = &quarantine->held[class_index][hk_random_below(&quarantine->random, places)];
  hk_block_t *before = *place;
  *place = block;
  return before;
}

/* Puts a block of a mid class that was never used to a random place. Returns the block that was there, or NULL. */
HK_INLINE hk_block_t *hk_quarantine_swap_unused(hk_quarantine_t *quarantine, unsigned class_index, hk_block_t *block) {
  hk_block_t **row = quarantine->unused[class_index - HK_TINY_CLASS_MAX - 1];
  hk_block_t **place = &row[hk_random_below(&quarantine->random, HK_QUARANTINE_UNUSED)], *before = *place;
  *place = block;
  return before;
}

/* Takes any block of the class that was never used. Returns NULL when there is none. */
HK_INLINE hk_block_t *hk_quarantine_take_unused(hk_quarantine_t *quarantine, unsigned class_index) {
  hk_block_t **row = quarantine->unused[class_index - HK_TINY_CLASS_MAX - 1], *taken = NULL;
  for (unsigned i = 0; i < HK_QUARANTINE_UNUSED && taken == NULL; i++) {
    taken = row[i];
    row[i] = NULL;
  }
  return taken;
}

/* Forgets all blocks, whose memory is gone. */
HK_INLINE void hk_quarantine_forget(hk_quarantine_t *quarantine) {
  memset(quarantine->held, 0, sizeof quarantine->held);
  memset(quarantine->unused, 0, sizeof quarantine->unused);
}

#endif /* HK_HEAP_QUARANTINE_H */
