/* heap/sample_mark.h - L4. The mark of a block that holds a sample: the program has an address inside the block, and
 * may not free, resize or measure it at the block's own address. The mark lies where the fast paths look anyway. So
 * such a misuse takes the slow path, without another instruction:
 *
 *   small block                        its second word: the block then may look free; a sample begins behind that word
 *   small block of a hardened build    a bit of its canary, which then is not whole
 *   run, large block                   a bit of block_bytes in its descriptor
 *
 * A small block's mark is a hint: the program may overwrite it, or have such a word of its own. The table of samples
 * decides.
 */
#ifndef HK_HEAP_SAMPLE_MARK_H
#define HK_HEAP_SAMPLE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/handover.h"
#include "policy/safety.h"
#include "space/region_map.h"
#include "space/slab.h"

/* Returns whether a run or large block is marked. */
HK_INLINE bool hk_sample_mark_is_on_larger(const hk_slab_t *slab) {
  return (hk_load_racy(&slab->block_bytes) & HK_SLAB_HOLDS_SAMPLE) != 0;
}

/* Returns whether a live block may be marked. `slab` is its descriptor, or the head of its span. Reads a small block's
 * second word, or its canary. */
HK_INLINE bool hk_sample_mark_may_be_on(const hk_slab_t *slab, void *block) {
  if (hk_slab_state(slab) != hk_slab_small) return hk_sample_mark_is_on_larger(slab);
  if (HK_HARDENED) return (*hk_handover_canary(block, slab->block_bytes) & HK_CANARY_SAMPLE) != 0;
  return hk_block_may_look_free((const hk_block_t *)block);
}

/* Marks a live block. Requires that the program has only an address inside it: the start of a small block is
 * overwritten. */
HK_INLINE void hk_sample_mark_set(void *block) {
  hk_slab_t *slab = hk_slab_of(block);
  if (hk_slab_state(slab) != hk_slab_small) {
    slab->block_bytes |= HK_SLAB_HOLDS_SAMPLE;
  } else if (HK_HARDENED) {
    *hk_handover_canary(block, slab->block_bytes) |= HK_CANARY_SAMPLE;
  } else {
    hk_block_let_look_free((hk_block_t *)block);
  }
}

HK_INLINE void hk_sample_mark_clear(void *block) {
  hk_slab_t *slab = hk_slab_of(block);
  if (hk_slab_state(slab) != hk_slab_small) {
    slab->block_bytes &= ~HK_SLAB_HOLDS_SAMPLE;
  } else if (HK_HARDENED) {
    *hk_handover_canary(block, slab->block_bytes) &= ~HK_CANARY_SAMPLE;
  } else {
    hk_block_unseal((hk_block_t *)block);
  }
}

#endif /* HK_HEAP_SAMPLE_MARK_H */
