/* space/live_bit.h - L3. The live bits of a hardened build: which small blocks are in use, in a table apart from them.
 *
 * The table lies behind the descriptors of each region, between pages that cannot be written to. A block's start has a
 * bit in two words:
 *
 *   live      the block is the program's; written by the thread that has the span's heap
 *   claimed   another thread freed the block, and its heap has not collected it yet
 *
 * So the owner's malloc and free need no locked instruction. A block is in use when its live bit is set and its claimed
 * bit is not. When both threads free a block at the same moment, each may still read the other's word as it was. The
 * owner then meets the block a second time, in its list or when it collects remote frees: the words tell.
 *
 * A fork in another thread may come between two stores. The order of the callers' stores makes that a lost block, which
 * is neither in use nor in a list.
 */
#ifndef HK_SPACE_LIVE_BIT_H
#define HK_SPACE_LIVE_BIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "policy/safety.h"
#include "space/region_map.h"

/* The bit of a block: its words, and a mask with the bit. */
typedef struct {
  hk_live_words_t *words;
  uint64_t mask;
} hk_live_bit_t;

/* Returns the bit of a block whose descriptor is at `place`. */
HK_INLINE hk_live_bit_t hk_live_bit_at(hk_slab_place_t place, const void *block) {
  size_t number = ((uintptr_t)block >> HK_LIVE_WORD_SHIFT) & (HK_REGION_SLABS * HK_LIVE_WORDS_PER_SLAB - 1);
  hk_live_words_t *words = (hk_live_words_t *)(place.leaf + sizeof(hk_region_t)) + number;
  return (hk_live_bit_t){words, (uint64_t)1 << ((uintptr_t)block / HK_BLOCK_ALIGNMENT % 64)};
}

/* Returns the bit of a block. Requires an address in a slab that was entered (region_map.h). */
HK_INLINE hk_live_bit_t hk_live_bit_of(const void *block) { return hk_live_bit_at(hk_slab_place_of(block), block); }

/* Returns whether the block is in use at some moment of the call. Any thread. */
HK_INLINE bool hk_live_bit_is_set(hk_live_bit_t bit) {
  return (hk_load_relaxed(&bit.words->live) & ~hk_load_relaxed(&bit.words->claimed) & bit.mask) != 0;
}

/* Returns whether the block may be handed out: neither word has its bit. */
HK_INLINE bool hk_live_bit_is_clear(hk_live_bit_t bit) {
  return ((hk_load_relaxed(&bit.words->live) | hk_load_relaxed(&bit.words->claimed)) & bit.mask) == 0;
}

/* Marks a block that is handed out. For the thread that has the span's heap. */
HK_INLINE void hk_live_bit_set(hk_live_bit_t bit) {
  hk_store_relaxed(&bit.words->live, hk_load_relaxed(&bit.words->live) | bit.mask);
}

/* Marks a block that is freed. Returns false when it is not in use. For the thread that has the span's heap. */
HK_INLINE bool hk_live_bit_clear(hk_live_bit_t bit) {
  uint64_t live = hk_load_relaxed(&bit.words->live);
  if (HK_UNLIKELY((live & ~hk_load_relaxed(&bit.words->claimed) & bit.mask) == 0)) return false;
  hk_store_relaxed(&bit.words->live, live ^ bit.mask);
  return true;
}

/* Marks a block that another thread frees. Returns false when it is not in use, or a thread was first. */
HK_INLINE bool hk_live_bit_claim(hk_live_bit_t bit) {
  if ((hk_load_relaxed(&bit.words->live) & bit.mask) == 0) return false;
  return (hk_or_relaxed(&bit.words->claimed, bit.mask) & bit.mask) == 0;
}

/* Marks a claimed block that its heap collects. Returns false when it is not in use or not claimed. For the thread that
 * has the span's heap. */
HK_INLINE bool hk_live_bit_collect(hk_live_bit_t bit) {
  uint64_t live = hk_load_relaxed(&bit.words->live);
  hk_store_relaxed(&bit.words->live, live & ~bit.mask);
  return (hk_and_relaxed(&bit.words->claimed, ~bit.mask) & live & bit.mask) != 0;
}

/* Clears the bits of all addresses in a slab, which has no block. */
HK_INLINE void hk_live_bit_clear_slab(uintptr_t start) {
  hk_live_words_t *words = hk_live_bit_of((const void *)start).words;
  for (unsigned i = 0; i < HK_LIVE_WORDS_PER_SLAB; i++) {
    if ((hk_load_relaxed(&words[i].live) | hk_load_relaxed(&words[i].claimed)) == 0) continue;
    hk_store_relaxed(&words[i].live, 0);
    hk_store_relaxed(&words[i].claimed, 0);
  }
}

/* Returns the number of blocks in use that start in [start, end), of one slab. */
HK_INLINE unsigned hk_live_bit_count(uintptr_t start, uintptr_t end) {
  unsigned count = 0;
  for (uintptr_t at = start; at < end; at += HK_BLOCK_ALIGNMENT)
    count += hk_live_bit_is_set(hk_live_bit_of((const void *)at));
  return count;
}

/* Returns whether a block of a span that was carved is in use, by the live bit of a hardened build, or as far as its
 * own words tell. */
HK_INLINE bool hk_block_is_in_use(const hk_block_t *block) {
  return HK_HARDENED ? hk_live_bit_is_set(hk_live_bit_of(block)) : !hk_block_looks_free(block);
}

#endif /* HK_SPACE_LIVE_BIT_H */
