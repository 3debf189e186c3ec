/* heap/sample_countdown.h - L4. Makes a bin's list run out where the next sample is due, however often blocks are freed
 * and handed out again on the way. So the slow path sees each block to sample, and the fast path has no work.
 *
 * While a heap is sampled, each of its bins is in one of two states:
 *
 *   open:    frees go to the bin. The length of its list was known when it was set, and the countdown tells how many
 *            blocks came back. So, when the list runs out, it is known how many blocks went. The countdown is over
 *            when the list, with the blocks that came back, ends at the next sample: then the bin is closed.
 *   closed:  frees go to the class's shadow list, which is the effective free list (hk_heap_effective_list) and does
 *            all that a bin does otherwise. The bin has a piece of that list, which ends at the next sample or before
 *            it. The blocks in the piece count as handed out.
 *
 * Only bins of tiny classes are open. The countdown of a mid class counts both ways and does not tell how many blocks
 * went, so its bin is always closed.
 *
 * The distribution of samples is memoryless, so a draw may be replaced while nothing is known of it except that its
 * sample has not come. So no list has to be counted that may be long and cold.
 *
 * A heap follows the state of policy/sampling.h at its thread's next slow path. Before it loses its thread, its closed
 * bins are emptied. Open bins stay as they are: they are the effective free lists, where the next thread finds all
 * blocks. All functions are for the thread that has the heap.
 *
 * The slow path of a sampled heap (api/sampled.c) calls hk_sample_countdown_is_due when the bin is exhausted. If no
 * sample is due, it takes a block from the effective free list, hk_sample_countdown_count counts the block, and
 * hk_sample_countdown_next_piece gives the bin its next blocks. Mostly the bin is open and stays open: these functions
 * handle that case inline.
 */
#ifndef HK_HEAP_SAMPLE_COUNTDOWN_H
#define HK_HEAP_SAMPLE_COUNTDOWN_H

#include <stdbool.h>

#include "heap/heap.h"
#include "policy/sampling.h"

HK_COLD void hk_sample_countdown_follow_slow(hk_heap_t *heap);

/* Makes the heap sampled or not, as hk_sampling_state says. May leave it to the next call. */
HK_INLINE void hk_sample_countdown_follow(hk_heap_t *heap) {
  if (HK_UNLIKELY(heap->sampling_state != hk_load_relaxed(&hk_sampling_state))) hk_sample_countdown_follow_slow(heap);
}

/* ---- The following functions require a sampled heap. */

/* Returns whether the class's bin is open. */
HK_INLINE bool hk_sample_countdown_is_open(const hk_heap_t *heap, unsigned class_index) {
  return hk_load_relaxed(&heap->countdowns->of[class_index].is_open);
}

/* Sets an open bin's countdown for a list of `length` blocks, which ends before the next sample. */
HK_INLINE void hk_sample_countdown_set(hk_sample_countdown_t *countdown, hk_free_list_t *bin, uint32_t length) {
  countdown->at_mark = length;
  bin->countdown = bin->mark = countdown->until - length;
}

bool hk_sample_countdown_is_due_slow(hk_heap_t *heap, unsigned class_index, uint64_t *weight_q16);
void hk_sample_countdown_next_piece_slow(hk_heap_t *heap, unsigned class_index);

/* Returns whether the next block of the class is a sample. Requires an exhausted bin: counts the blocks that an open
 * one has given. For a sample, sets `*weight_q16` to the number of blocks that it stands for, with 16 fractional bits,
 * and draws the next one. */
HK_INLINE bool hk_sample_countdown_is_due(hk_heap_t *heap, unsigned class_index, uint64_t *weight_q16) {
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (hk_sample_countdown_is_open(heap, class_index)) {
    hk_free_list_t *bin = &heap->bin[class_index];
    uint32_t given = countdown->at_mark + (bin->mark - bin->countdown);
    if (countdown->at_mark == HK_COUNTDOWN_UNKNOWN) given = 0;
    countdown->until -= given < countdown->until ? given : countdown->until;
    countdown->at_mark = 0;
    bin->mark = bin->countdown;
  }
  bool is_known = countdown->until > 0 && countdown->until != HK_COUNTDOWN_UNKNOWN;
  return HK_UNLIKELY(!is_known) && hk_sample_countdown_is_due_slow(heap, class_index, weight_q16);
}

/* Counts a block that is no sample, and that was taken from the effective free list after hk_sample_countdown_is_due.
 * The countdown of a mid class has counted it in the list already. */
HK_INLINE void hk_sample_countdown_count(hk_heap_t *heap, unsigned class_index) {
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (!hk_class_is_mid(class_index)) hk_heap_effective_list(heap, class_index)->mark--;
  if (countdown->until > 0) countdown->until--;
}

/* Gives the bin the blocks of the effective free list up to the next sample. Requires a bin that is open or
 * exhausted. */
HK_INLINE void hk_sample_countdown_next_piece(hk_heap_t *heap, unsigned class_index) {
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  hk_free_list_t *bin = &heap->bin[class_index];
  uint32_t length = countdown->at_mark + (bin->mark - bin->countdown);
  bool is_counted = hk_sample_countdown_is_open(heap, class_index) && countdown->at_mark != HK_COUNTDOWN_UNKNOWN;
  if (HK_LIKELY(is_counted && length < countdown->until)) {
    hk_sample_countdown_set(countdown, bin, length);
  } else {
    hk_sample_countdown_next_piece_slow(heap, class_index);
  }
}

/* Puts the blocks of closed bins back. Sets `heap->damaged` to a damaged block; the rest of its piece is lost. Does
 * nothing for a heap that is not sampled. */
void hk_sample_countdown_recall(hk_heap_t *heap);

/* Returns whether a larger block that gets `bytes` more is a sample by one of them. */
bool hk_sample_countdown_large_is_due(hk_heap_t *heap, size_t bytes);

/* Returns the rate at which the heap is sampled. */
HK_INLINE uint64_t hk_sample_countdown_rate(const hk_heap_t *heap) { return hk_sampling_rate_of(heap->sampling_state); }

#endif /* HK_HEAP_SAMPLE_COUNTDOWN_H */
