/* heap/idle_bin.h - L4. Idle bins: those that a heap has not refilled for long. A heap that is about to have more slabs
 * than ever first flushes one of them, and uses the slabs that this frees. It does so only after some refills since the
 * last flush. So a program that goes from one size to the next keeps the memory of few sizes, not of all.
 *
 * The bins are looked at in turn, as pages are by the clock algorithm (F. J. Corbato, A Paging Experiment with the
 * Multics System, 1968). A bin that was refilled since the last look is passed over once. All functions are for the
 * thread that has the heap, within a slow path. */
#ifndef HK_HEAP_IDLE_BIN_H
#define HK_HEAP_IDLE_BIN_H

#include "heap/heap.h"

/* Notes that a bin is refilled. */
HK_INLINE void hk_idle_bin_note_refill(hk_heap_t *heap, unsigned class_index) {
  hk_class_set_add(&heap->idle_bins.candidates, class_index);
  hk_class_set_add(&heap->idle_bins.refilled, class_index);
  heap->idle_bins.refill_count += heap->idle_bins.refill_count < UINT8_MAX;
}

/* Flushes at most one idle bin: of a tiny class, releases the active span when none of its blocks is in use; of a mid
 * class, spills a list of a slab's bytes or more. Returns whether it flushed one. */
bool hk_idle_bin_flush_one(hk_heap_t *heap);

/* Chosen: a heap with fewer slabs, so below 1 MiB, has little to give up, and a small program needs no such code. */
#define HK_IDLE_BIN_MIN_SLABS 16u

/* Flushes an idle bin if the heap, which needs a span of the class, has no spare row for it and would have more slabs
 * than ever. */
void hk_idle_bin_flush_before_growth(hk_heap_t *heap, unsigned class_index);

/* Returns whether the heap has enough slabs for a flush to pay. Inline: a small program never runs the rest. */
HK_INLINE bool hk_idle_bin_may_help(hk_heap_t *heap) {
  return hk_load_relaxed(&heap->span_slabs) + hk_load_relaxed(&heap->spare_slabs) >= HK_IDLE_BIN_MIN_SLABS;
}

#endif /* HK_HEAP_IDLE_BIN_H */
