/* heap/mid.h - L4. The bins of mid classes, 1 to 32 KiB.
 *
 * A slab has room for few such blocks, so lists of single spans would run out every few requests. A mid bin has one list
 * for all spans of its class: every slab's free list is the bin, for good, and the bin counts how long its list is. When it
 * is full, the half that lay longest is spilled: each block goes to its own span's list, and a span that has all its
 * blocks there is released. When it is empty, it is filled from the spans that have some. A list that
 * is spilled and then runs out was too short: its room doubles, up to a bound. One that is spilled twice and did not run
 * out between is not used: it is spilled whole, for its blocks keep spans from being released, and its room halves.
 *
 *   partial: in its bin's partial list, because its own list has blocks
 *   else:    everything that was carved is in use, on its way home, or in the bin
 *
 * `live` counts the carved blocks that are not in the span's own list. All functions are for the thread that has the
 * heap.
 */
#ifndef HK_HEAP_MID_H
#define HK_HEAP_MID_H

#include <stdbool.h>

#include "heap/heap.h"
#include "heap/span.h"

/* Fills the list of a bin, which is empty, from spans that have free blocks; false when there is none. */
bool hk_mid_fill(hk_heap_t *heap, unsigned class_index);

/* Puts all but the `keep` blocks that were freed last back into their spans. `keep` is below the bin's room. Of a
 * damaged block `heap->damaged` tells, and what was freed before it is lost. */
void hk_mid_spill(hk_heap_t *heap, unsigned class_index, unsigned keep);

/* When a bin's list is full. */
void hk_mid_settle(hk_heap_t *heap, unsigned class_index);

/* Spills every mid bin, for a heap that is about to lose its thread: what it keeps for the next one is little. */
void hk_mid_spill_all(hk_heap_t *heap);

/* After hk_free_list_push said that something is due, for a block of any class. */
HK_INLINE void hk_bin_settle(hk_heap_t *heap, hk_slab_t *slab) {
  if (hk_class_is_mid(slab->class_index)) {
    hk_mid_settle(heap, slab->class_index);
  } else {
    hk_span_countdown_over(heap, slab);
  }
}

#endif /* HK_HEAP_MID_H */
