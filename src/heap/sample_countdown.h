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
 * The bin of a mid class is always open. The class's frees come from all its spans, too many to redirect at each
 * sample, so the bin is metered instead (mid.h): it sets the blocks behind the sample aside.
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
 *
 * The countdowns of a tag's part (heap/part.h) count its allocations besides: such a heap is always sampled, and draws
 * no sample while none is wanted. So it follows each list's length, also where a draw could be replaced.
 */
#ifndef HK_HEAP_SAMPLE_COUNTDOWN_H
#define HK_HEAP_SAMPLE_COUNTDOWN_H

#include <stdbool.h>

#include "heap/heap.h"
#include "heap/mid.h"
#include "policy/sampling.h"

HK_COLD void hk_sample_countdown_follow_slow(hk_heap_t *heap);

/* Begins to count the allocations of a tag's part, which has no memory. Returns false when the system refuses. */
HK_COLD bool hk_sample_countdown_begin_count(hk_heap_t *part);

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
  countdown->start_length = length;
  bin->countdown = bin->start = countdown->until - length;
}

/* What the next block is chosen for. One word, which costs the slow path no more stack than a weight. */
typedef struct {
  uint64_t weight_q16 : 63; /* the blocks that it stands for in the profile, with 16 fractional bits; 0: no sample */
  uint64_t is_guarded : 1;  /* it is to lie in a guard slot */
} hk_sample_choice_t;

bool hk_sample_countdown_is_due_slow(hk_heap_t *heap, unsigned class_index, hk_sample_choice_t *choice);
void hk_sample_countdown_next_piece_slow(hk_heap_t *heap, unsigned class_index);

/* Returns whether the next block of the class is a sample, which is one that the profile or guards choose. Requires an
 * exhausted bin: counts the blocks that an open one has given. For a sample, sets `*choice` and draws the next one. */
HK_INLINE bool hk_sample_countdown_is_due(hk_heap_t *heap, unsigned class_index, hk_sample_choice_t *choice) {
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (hk_class_is_mid(class_index)) {
    hk_mid_unmeter(heap, class_index);
  } else if (hk_sample_countdown_is_open(heap, class_index)) {
    hk_free_list_t *bin = &heap->bin[class_index];
    uint32_t given = hk_heap_list_sum(countdown, bin);
    if (countdown->start_length == HK_COUNTDOWN_UNKNOWN) given = 0;
    hk_heap_count_given(countdown, given);
    countdown->start_length = 0;
    bin->start = bin->countdown;
  }
  bool is_known = countdown->until > 0 && countdown->until != HK_COUNTDOWN_UNKNOWN;
  return HK_UNLIKELY(!is_known) && hk_sample_countdown_is_due_slow(heap, class_index, choice);
}

/* Counts a block that is no sample, and that was taken from the effective free list after hk_sample_countdown_is_due,
 * which returned `is_due`: the draw begins behind a block that was due. The list of a mid class, which is not metered
 * then, has counted the block already. */
HK_INLINE void hk_sample_countdown_count(hk_heap_t *heap, unsigned class_index, bool is_due) {
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (!hk_class_is_mid(class_index)) hk_heap_effective_list(heap, class_index)->start--;
  if (is_due) {
    countdown->drawn++;
  } else {
    hk_heap_count_given(countdown, 1);
  }
}

/* Gives the bin the blocks of the effective free list up to the next sample. Requires a bin that is open or
 * exhausted; of a mid class, one that is not metered. */
HK_INLINE void hk_sample_countdown_next_piece(hk_heap_t *heap, unsigned class_index) {
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  hk_free_list_t *bin = &heap->bin[class_index];
  uint32_t length = hk_heap_list_sum(countdown, bin);
  bool is_counted = hk_sample_countdown_is_open(heap, class_index) && countdown->start_length != HK_COUNTDOWN_UNKNOWN;
  if (hk_class_is_mid(class_index)) {
    hk_mid_meter(heap, class_index);
  } else if (HK_LIKELY(is_counted && length < countdown->until)) {
    hk_sample_countdown_set(countdown, bin, length);
  } else {
    hk_sample_countdown_next_piece_slow(heap, class_index);
  }
}

/* Puts the blocks of closed bins back. Sets `heap->damaged` to a damaged block; the rest of its piece is lost. Does
 * nothing for a heap that is not sampled. */
void hk_sample_countdown_recall(hk_heap_t *heap);

/* Returns whether a larger block that gets `bytes` more is a sample of the profile by one of them. Requires a rate
 * above 0. */
bool hk_sample_countdown_large_is_due(hk_heap_t *heap, size_t bytes);

/* Counts a larger block, and returns whether it is to be guarded. */
bool hk_sample_countdown_large_is_guarded(hk_heap_t *heap);

/* Returns the rate at which the profile samples the heap; 0 while guards alone choose blocks. */
HK_INLINE uint64_t hk_sample_countdown_rate(const hk_heap_t *heap) { return hk_sampling_rate_of(heap->sampling_state); }

#endif /* HK_HEAP_SAMPLE_COUNTDOWN_H */
