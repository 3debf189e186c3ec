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
 * HK_COUNTDOWN_ACTIVE, and lower where a bin is a sampled heap's open one (sample_countdown.h) or an idle one with
 * blocks in use (idle_bin.c). The thread that counts one down to 0 sets it anew. Mid bins have no such state.
 */
#ifndef HK_HEAP_BIN_H
#define HK_HEAP_BIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "heap/handover.h"
#include "policy/safety.h"
#include "policy/size_class.h"
#include "space/slab.h"

/* Where the countdown of a tiny class's bin begins: see above. */
#define HK_COUNTDOWN_FRESH UINT32_MAX
#define HK_COUNTDOWN_ACTIVE (UINT32_MAX / 2)

/* Returns a block from a bin; NULL when the bin's list is exhausted or its first block is damaged. HK_FORGET keeps gcc
 * from another register for the block than the result's. */
HK_INLINE hk_block_t *hk_bin_pop_at(hk_free_list_t *bin) {
  hk_block_t *block = bin->free;
  HK_FORGET(block);
  hk_block_t *next;
  if (HK_UNLIKELY(!hk_block_open(block, &next))) return NULL;
  hk_handover_t handover;
  if (HK_HARDENED) {
    handover = hk_handover_of(block);
    if (HK_UNLIKELY(!hk_handover_is_ready(block, handover))) return NULL;
  }
  bin->free = next;
  hk_block_unseal(block);
  if (HK_HARDENED) hk_handover_give(block, handover);
  if (HK_HARDENED) __builtin_prefetch((const char *)next + HK_CACHE_LINE_BYTES); /* it is compared with zero */
  __builtin_prefetch(next);
  return block;
}

/* hk_bin_pop_at for a tiny and for a mid class. The countdown of a mid class's bin is the room left in its list
 * (mid.h); its pop_step is 1, or 0 while it is metered and pops do not count. HK_FORGET keeps the bin's address in one
 * register: some processors forward a store to the next load at no cost where the address is a register, and in five
 * cycles where it is a sum of two (docs/experiments/2026-11-25-one-register.md). */
HK_INLINE hk_block_t *hk_bin_pop(hk_free_list_t *bin) {
  HK_FORGET(bin);
  return hk_bin_pop_at(bin);
}
HK_INLINE hk_block_t *hk_bin_pop_mid(hk_free_list_t *bin) {
  HK_FORGET(bin);
  hk_block_t *block = hk_bin_pop_at(bin);
  if (HK_LIKELY(block != NULL)) bin->countdown += bin->pop_step;
  return block;
}

/* Returns whether the next block of a tiny class's bin is known to be zero behind its first 16 bytes. */
HK_INLINE bool hk_bin_is_fresh(const hk_free_list_t *bin) { return bin->countdown == HK_COUNTDOWN_FRESH; }

/* Returns the countdown of a tiny class's bin that takes over the whole list of `from`. */
HK_INLINE uint32_t hk_bin_countdown_of_list(const hk_free_list_t *from) {
  return hk_bin_is_fresh(from) ? HK_COUNTDOWN_FRESH : HK_COUNTDOWN_ACTIVE;
}

/* Puts a block of the caller's own heap on a free list. Returns true when the countdown is over: the caller then calls
 * hk_bin_countdown_over (mid.h). */
HK_INLINE bool hk_free_list_push(hk_free_list_t *free_list, hk_block_t *block) {
  hk_block_link(block, free_list->free);
  hk_keep_store_order(); /* a child of fork must not find a block in the list before it is linked */
  free_list->free = block;
  return --free_list->countdown == 0;
}

/* Returns the number of blocks of a list from `block` on, up to `most`, and up to a damaged one. Sets `*last` to the
 * last of them; NULL: there is none. */
HK_INLINE uint32_t hk_free_list_count(hk_block_t *block, uint32_t most, hk_block_t **last) {
  uint32_t count = 0;
  for (*last = NULL; count < most && block != HK_LIST_END && hk_block_is_intact(block); count++) {
    *last = block;
    block = hk_block_next(block);
  }
  return count;
}

/* Returns the block behind those that hk_free_list_count has counted from `first` on: HK_LIST_END, or one more. */
HK_INLINE hk_block_t *hk_free_list_rest(hk_block_t *first, hk_block_t *last) {
  return last != NULL ? hk_block_next(last) : first;
}

/* Makes `rest` what follows `last` in the list; with NULL, the whole list. */
HK_INLINE void hk_free_list_set_rest(hk_free_list_t *list, hk_block_t *last, hk_block_t *rest) {
  if (last != NULL) {
    hk_block_link(last, rest);
  } else {
    list->free = rest;
  }
}

/* Counts a list. Returns false where it is damaged, or longer than `most`: a block that was freed twice makes a
 * ring. */
HK_INLINE bool hk_free_list_measure(hk_block_t *first, uint32_t most, uint32_t *length) {
  hk_block_t *last;
  *length = hk_free_list_count(first, most, &last);
  return hk_free_list_rest(first, last) == HK_LIST_END;
}

/* Returns the length of a list, up to a damaged block. */
HK_INLINE uint32_t hk_free_list_length(hk_block_t *block) {
  hk_block_t *last;
  return hk_free_list_count(block, UINT32_MAX, &last);
}

#endif /* HK_HEAP_BIN_H */
