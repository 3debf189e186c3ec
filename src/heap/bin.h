/* heap/bin.h - L4. The fast path: pops a block from a bin, and pushes one to the free list that its slab names.
 *
 *   malloc: thread's heap -> bin of the class -> hk_bin_pop, else the slow path (refill.h)
 *   free:   descriptor -> owner is my heap? -> hk_free_list_push, else the slow path (remote.h, space/run.h,
 *           space/large.h)
 *
 * One comparison stands for many cases in each. An exhausted list, a class that was never used, a thread without a heap
 * and a damaged block all fail hk_block_open. A pointer that is NULL, foreign, another thread's, a run, a large
 * block or sampled has another owner than the caller's heap.
 *
 * The countdown of a tiny class's bin also tells whether its list is fresh: HK_COUNTDOWN_FRESH means that the list was
 * carved from memory known to be zero, and that no block came back since. Frees count down and nothing counts up, so
 * only a store makes a bin fresh: by hk_span_carve, or by the move of a whole fresh list. Other lists begin at
 * HK_COUNTDOWN_ACTIVE, and those of a sampled heap's open bins lower (sample_countdown.h). Mid bins have no such state.
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

/* Where the countdown of a tiny class's bin begins: see above. */
#define HK_COUNTDOWN_FRESH UINT32_MAX
#define HK_COUNTDOWN_ACTIVE (UINT32_MAX / 2)

/* Returns a block from the bin at `bin_offset` in `heap`; NULL when the bin's list is exhausted or its first block is
 * damaged. HK_FORGET makes the compiler use heap + offset as the address in both instructions, which costs less than an
 * addition. For the block it keeps gcc from another register than the result's. */
HK_INLINE hk_block_t *hk_bin_pop(hk_heap_t *heap, size_t bin_offset) {
  hk_block_t *block = ((hk_free_list_t *)((uintptr_t)heap + bin_offset))->free;
  HK_FORGET(block);
  hk_block_t *next;
  if (HK_UNLIKELY(!hk_block_open(block, &next))) return NULL;
  HK_FORGET(bin_offset);
  ((hk_free_list_t *)((uintptr_t)heap + bin_offset))->free = next;
  hk_block_unseal(block);
  __builtin_prefetch(next);
  return block;
}

/* hk_bin_pop for a mid class, whose bin's countdown is the room left in its list (mid.h). */
HK_INLINE hk_block_t *hk_bin_pop_mid(hk_heap_t *heap, size_t bin_offset) {
  hk_block_t *block = hk_bin_pop(heap, bin_offset);
  HK_FORGET(bin_offset);
  if (HK_LIKELY(block != NULL)) ((hk_free_list_t *)((uintptr_t)heap + bin_offset))->countdown++;
  return block;
}

/* Returns whether the next block of a tiny class's bin is known to be zero behind its first 16 bytes. */
HK_INLINE bool hk_bin_is_fresh(const hk_free_list_t *bin) { return bin->countdown == HK_COUNTDOWN_FRESH; }

/* Returns the countdown of a tiny class's bin that takes over the whole list of `from`. */
HK_INLINE uint32_t hk_bin_countdown_of_list(const hk_free_list_t *from) {
  return hk_bin_is_fresh(from) ? HK_COUNTDOWN_FRESH : HK_COUNTDOWN_ACTIVE;
}

/* Returns whether the block that was popped right after a refill is zero behind its first 16 bytes. A mid bin's mark
 * is set when its last refill carved zero memory. */
HK_INLINE bool hk_bin_was_fresh(const hk_free_list_t *bin, unsigned class_index) {
  return hk_class_is_mid(class_index) ? bin->mark != 0 : hk_bin_is_fresh(bin);
}

/* Puts a block of the caller's own heap on a free list. Returns true when the countdown is over: the caller then calls
 * hk_bin_settle (mid.h). */
HK_INLINE bool hk_free_list_push(hk_free_list_t *free_list, hk_block_t *block) {
  hk_block_link(block, free_list->free);
  hk_keep_store_order(); /* a child of fork must not find a block in the list before it is linked */
  free_list->free = block;
  return --free_list->countdown == 0;
}

#endif /* HK_HEAP_BIN_H */
