/* heap/handover.h - L4. What a hardened build does when a small block goes to the program and comes back.
 *
 *   hand out   the block's live bit is clear, and all of it behind its link is zero; then the bit is set, the link is
 *              cleared, and the canary written behind the usable bytes
 *   take back  the live bit is set, and the canary is whole; then the bit is cleared, and the block filled with zeros
 *
 * So a block is all zero when the program gets it, and a write to a free block is noticed when it is handed out.
 */
#ifndef HK_HEAP_HANDOVER_H
#define HK_HEAP_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "policy/safety.h"
#include "space/live_bit.h"
#include "space/wipe.h"

/* Returns the canary of a small block of `bytes` bytes, which it ends with. */
HK_INLINE uintptr_t *hk_handover_canary(void *block, size_t bytes) {
  return (uintptr_t *)((uintptr_t)block + bytes - HK_CANARY_BYTES);
}

/* What malloc needs to know of a block: its live bit, and the block's size by its slab's descriptor. */
typedef struct {
  hk_live_bit_t bit;
  size_t bytes;
} hk_handover_t;

HK_INLINE hk_handover_t hk_handover_of(const void *block) {
  hk_slab_place_t place = hk_slab_place_of(block);
  return (hk_handover_t){.bit = hk_live_bit_at(place, block), .bytes = hk_slab_at(&place)->block_bytes};
}

/* Returns whether a free block may be handed out. */
HK_INLINE bool hk_handover_is_ready(const hk_block_t *block, hk_handover_t handover) {
  return hk_live_bit_is_clear(handover.bit) && hk_wipe_is_zero(block, sizeof *block, handover.bytes);
}

/* Returns whether a block that was filled with zeros still has zeros where its link goes. hk_handover_is_ready compares
 * the others when the block is handed out. */
HK_INLINE bool hk_handover_may_link(const hk_block_t *block) { return ((uintptr_t)block->next | block->seal) == 0; }

/* Hands a block out whose words are all zero. The caller has taken it out of its list: a child of fork must not find a
 * block in a list that is live. */
HK_INLINE void hk_handover_give(hk_block_t *block, hk_handover_t handover) {
  hk_keep_store_order();
  hk_live_bit_set(handover.bit);
  *hk_handover_canary(block, handover.bytes) = hk_canary_of(block);
}

/* Returns whether the program left the canary as it was. */
HK_INLINE bool hk_handover_canary_is_whole(void *block, size_t bytes) {
  return (*hk_handover_canary(block, bytes) & ~HK_CANARY_NOTES) == hk_canary_of(block);
}

/* Notes that realloc gave the block another size than its class serves, or will do so. */
HK_INLINE void hk_handover_note_resized(void *block, size_t bytes) {
  *hk_handover_canary(block, bytes) |= HK_CANARY_RESIZED;
}
HK_INLINE bool hk_handover_is_resized(void *block, size_t bytes) {
  return (*hk_handover_canary(block, bytes) & HK_CANARY_RESIZED) != 0;
}

/* Notes that realloc was refused a smaller block, and left this one: its size may be any that it has room for. */
HK_INLINE void hk_handover_note_unshrunk(void *block, size_t bytes) {
  *hk_handover_canary(block, bytes) |= HK_CANARY_UNSHRUNK;
}
HK_INLINE bool hk_handover_is_unshrunk(void *block, size_t bytes) {
  return (*hk_handover_canary(block, bytes) & HK_CANARY_UNSHRUNK) != 0;
}

#endif /* HK_HEAP_HANDOVER_H */
