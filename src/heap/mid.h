/* heap/mid.h - L4. The bins of mid classes, 1 to 32 KiB.
 *
 * A slab has room for few such blocks, so lists of single spans would run out every few requests. A mid bin has one
 * list for all spans of its class: every slab's free list is the class's effective free list at all times, and the bin
 * counts the length of its list.
 *
 * When the list is full, the older half is spilled: each block goes to its own span's list, and a span that has all its
 * blocks there is released. When the list is empty, it is filled from the spans that have blocks. A list that runs out
 * after spills was too short by the spilled blocks: its room grows by their number, or doubles when they are more than
 * hk_class_room gives for HK_ROOM_AT_ONCE_BYTES. A list that is full twice and did not run out between may not be in
 * use. It is spilled whole, since its blocks keep spans from being released, and its room halves. An idle bin's list is
 * spilled whole too (idle_bin.h), and its room stays.
 *
 * A span of a mid class is in one of two states, and `live` counts its carved blocks that are not in its own list:
 *
 *   partial: in its bin's partial list, because its own list has blocks
 *   else:    every carved block is in use, a remote free under way, or in the bin
 *
 * While a heap is sampled (sample_countdown.h), its mid bins are *metered* between slow paths: pop_step is 0, so the
 * countdown counts frees alone, as a tiny class's does. The number of pops follows from the list's length now:
 *
 *   pops = length before + frees - length now
 *
 * No more blocks can be popped than the length before and the frees. So the countdown is set to end where these reach
 * the next sample. It ends after `interval` frees at the latest, since nothing else shows that the list is full. If the
 * sample lies within the list, the blocks behind it are set aside, and so is each block that is freed. Slow paths of
 * the class unmeter the bin, and meter it again at their end. All functions are for the thread that has the heap.
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
void hk_mid_countdown_over(hk_heap_t *heap, unsigned class_index);

/* Spills every mid bin, for a heap that is about to lose its thread, so that it keeps little for the next one. */
void hk_mid_spill_all(hk_heap_t *heap);

/* Returns whether the bin of a mid class is metered. Requires a heap that is not HK_EMPTY_HEAP. */
HK_INLINE bool hk_mid_is_metered(const hk_heap_t *heap, unsigned class_index) {
  return heap->bin[class_index].pop_step == 0;
}

/* Meters a bin, so that it runs out at the next sample or before it. Where that is not drawn, the bin runs out at once.
 * Requires a sampled heap and a bin that is not metered. */
void hk_mid_meter(hk_heap_t *heap, unsigned class_index);

/* Unmeters a bin, and counts its pops. Spills it where it is full. Does nothing to a bin that is not metered. */
void hk_mid_unmeter(hk_heap_t *heap, unsigned class_index);

/* Notes that the bin's list was emptied because a block was damaged. */
void hk_mid_note_loss(hk_heap_t *heap, unsigned class_index);

/* Acts on a countdown that is over, after hk_free_list_push returned true, for a block of any class. */
HK_INLINE void hk_bin_countdown_over(hk_heap_t *heap, hk_slab_t *slab) {
  if (hk_class_is_mid(slab->class_index)) {
    hk_mid_countdown_over(heap, slab->class_index);
  } else {
    hk_span_countdown_over(heap, slab);
  }
}

#endif /* HK_HEAP_MID_H */
