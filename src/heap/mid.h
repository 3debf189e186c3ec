/* heap/mid.h - L4. The bins of mid classes, 1 to 32 KiB.
 *
 * A slab has room for few such blocks, so lists of single spans would run out every few requests. A mid bin has one
 * list for all spans of its class: every slab's free list is the class's effective free list at all times, and the bin
 * counts the length of its list.
 *
 * When the list is full, the older half is spilled: each block goes to its own span's list, and a span that has all its
 * blocks there is released. When the list is empty, it is filled from the spans that have blocks. A list that is
 * spilled and then runs out was too short: its room doubles, up to a bound. A list that is spilled twice and did not
 * run out between is not in use. It is spilled whole, since its blocks keep spans from being released, and its room
 * halves.
 *
 *   partial: in its bin's partial list, because its own list has blocks
 *   else:    every carved block is in use, a remote free under way, or in the bin
 *
 * `live` counts the carved blocks that are not in the span's own list. All functions are for the thread that has the
 * heap.
 */
#ifndef HK_HEAP_MID_H
#define HK_HEAP_MID_H

#include <stdbool.h>

#include "heap/heap.h"
#include "heap/span.h"

/* Fills the empty list of a bin from spans that have free blocks. Returns false when there is none. */
bool hk_mid_fill(hk_heap_t *heap, unsigned class_index);

/* Puts all but the `keep` blocks that were freed last back into their spans. `keep` is below the bin's room. Sets
 * `heap->damaged` to a damaged block; the blocks that were freed before it are lost. */
void hk_mid_spill(hk_heap_t *heap, unsigned class_index, unsigned keep);

/* Spills a bin whose list is full. */
void hk_mid_settle(hk_heap_t *heap, unsigned class_index);

/* Spills every mid bin, for a heap that is about to lose its thread, so that it keeps little for the next one. */
void hk_mid_spill_all(hk_heap_t *heap);

/* Acts on a countdown that is over, after hk_free_list_push returned true, for a block of any class. */
HK_INLINE void hk_bin_settle(hk_heap_t *heap, hk_slab_t *slab) {
  if (hk_class_is_mid(slab->class_index)) {
    hk_mid_settle(heap, slab->class_index);
  } else {
    hk_span_countdown_over(heap, slab);
  }
}

#endif /* HK_HEAP_MID_H */
