/* api/small_block.h - L5. Takes one small block (up to 32 KiB) from a heap that the caller has: from a free list, or by
 * a refill. */
#ifndef HK_API_SMALL_BLOCK_H
#define HK_API_SMALL_BLOCK_H

#include "heap/heap.h"

/* Pops from the class's list in `lists`, an array of one list for each class. Returns NULL when the list is exhausted
 * or its first block is damaged. */
HK_INLINE hk_block_t *hk_small_pop(hk_free_list_t *lists, unsigned class_index) {
  return hk_class_is_mid(class_index) ? hk_bin_pop_mid(&lists[class_index]) : hk_bin_pop(&lists[class_index]);
}

/* Empties a list whose first block is damaged, and reports the damage. The request goes on with other blocks. Does
 * nothing to an exhausted list. */
void hk_small_drop_damaged(hk_heap_t *heap, hk_free_list_t *free_list, unsigned class_index);

/* Pops from the class's effective free list, after a refill where that is exhausted. Returns NULL when a refill
 * fails. */
void *hk_small_take(hk_heap_t *heap, unsigned class_index);

#endif /* HK_API_SMALL_BLOCK_H */
