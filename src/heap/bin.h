/* heap/bin.h - L4. THE fast path: pop a block from a bin, push one back to where its slab says.
 *
 *   malloc: thread's heap -> bin of the class -> hk_bin_pop, else the slow path (refill.h)
 *   free:   descriptor -> owner is my heap? -> hk_free_list_push, else the slow path (remote.h, space/run.h, space/large.h)
 *
 * Each leaves by one comparison that stands for many cases. A bin's list that is exhausted, a class that was never
 * used, a thread that has no heap yet and a damaged block all fail hk_block_is_intact. A pointer that is NULL, foreign,
 * another thread's, a run, a large block or sampled has another owner than the caller's heap.
 */
#ifndef HK_HEAP_BIN_H
#define HK_HEAP_BIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "policy/safety.h"
#include "policy/size_class.h"
#include "space/slab.h"

/* The countdown of a tiny class's bin that allocates from a span:
 *
 *   fresh:       HK_COUNTDOWN_FRESH. The list was carved from memory known to be zero, and no block came back since.
 *   used since:  between the two. Frees count it down from fresh, and nothing counts it up.
 *   counting:    0 to HK_COUNTDOWN_ACTIVE. hk_bin_count_up stays within this range.
 *
 * So only a store makes a bin fresh: hk_span_carve, or the move of a whole fresh list. Mid bins have no such state. */
#define HK_COUNTDOWN_FRESH UINT32_MAX
#define HK_COUNTDOWN_ACTIVE (UINT32_MAX / 2)

/* A block from the bin at `bin_offset` in `heap`, or NULL when its list gives none: it is exhausted, or its first
 * block is damaged. The offset is forgotten and added again because one address in two instructions costs less than
 * an addition. */
HK_INLINE hk_block_t *hk_bin_pop(hk_heap_t *heap, size_t bin_offset) {
  hk_block_t *block = ((hk_free_list_t *)((uintptr_t)heap + bin_offset))->free;
  if (HK_UNLIKELY(!hk_block_is_intact(block))) return NULL;
  hk_block_t *next = block->next;
  HK_FORGET(bin_offset);
  ((hk_free_list_t *)((uintptr_t)heap + bin_offset))->free = next;
  hk_block_unseal(block);
  __builtin_prefetch(next);
  return block;
}

/* hk_bin_pop for a mid class: its bin's countdown is the room that is left in its list (mid.h). */
HK_INLINE hk_block_t *hk_bin_pop_mid(hk_heap_t *heap, size_t bin_offset) {
  hk_block_t *block = hk_bin_pop(heap, bin_offset);
  if (HK_LIKELY(block != NULL)) ((hk_free_list_t *)((uintptr_t)heap + bin_offset))->countdown++;
  return block;
}

/* Whether the next block of a tiny class's bin is known to be zero behind its first 16 bytes. */
HK_INLINE bool hk_bin_is_fresh(const hk_free_list_t *bin) { return bin->countdown == HK_COUNTDOWN_FRESH; }

/* The countdown of a tiny class's bin that takes over the whole list of `from`. */
HK_INLINE uint32_t hk_bin_countdown_of_list(const hk_free_list_t *from) {
  return hk_bin_is_fresh(from) ? HK_COUNTDOWN_FRESH : HK_COUNTDOWN_ACTIVE;
}

/* Lets a tiny class's bin take one more block back before its countdown is over; false when it does not count. */
HK_INLINE bool hk_bin_count_up(hk_free_list_t *bin) {
  if (bin->countdown >= HK_COUNTDOWN_ACTIVE) return false;
  bin->countdown++;
  return true;
}

/* The same for the block that was popped right after a refill. A mid bin's mark tells what its last refill gave. */
HK_INLINE bool hk_bin_was_fresh(const hk_free_list_t *bin, unsigned class_index) {
  return hk_class_is_mid(class_index) ? bin->mark != 0 : hk_bin_is_fresh(bin);
}

/* Takes a block of the caller's own back. True when something is due: hk_bin_settle (mid.h). */
HK_INLINE bool hk_free_list_push(hk_free_list_t *free_list, hk_block_t *block) {
  hk_block_link(block, free_list->free);
  hk_keep_store_order(); /* a child of fork must not find a block in the list before it is linked */
  free_list->free = block;
  return --free_list->countdown == 0;
}

#endif /* HK_HEAP_BIN_H */
