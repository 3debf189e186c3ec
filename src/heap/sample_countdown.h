/* heap/sample_countdown.h - L4. Bins of which the slow path sees each block that is to be sampled, while the fast path stays as it is.
 *
 * A bin's list must run out where the next sampled block comes, however often a block is freed and handed out again on the
 * way. While a heap is sampled, each of its bins is in one of two states:
 *
 *   open:    as ever. Of a tiny class it is known how long the list was when it was set and, by the free list's countdown, how
 *            many blocks came back: so, when it runs out, how many went. The countdown is set so that it is over when so
 *            many have come back that the list ends at the next sampled block: then the bin is closed.
 *   closed:  frees go to another free list, the class's `home` (hk_heap_effective_list), which does all that a bin does otherwise. The
 *            bin has a piece of the list that home had, cut where the next sampled block comes or before; for all that
 *            counts blocks, those in the piece are handed out.
 *
 * Any draw may be forgotten for a new one as long as nothing is known of it but that it has not come: the next sampled block
 * is as far from there as from anywhere else. So a list need not be walked over, which may be long and cold, to find out how
 * much of it went, or how long it is.
 *
 * A mid class's free list counts both ways, which does not tell how many went: its bin is always closed.
 *
 * A heap follows what policy/sampling.h says at its thread's next slow path. Before it has no thread any more, its closed bins
 * are empty; the open ones stay as they are, for home is where who looks after the heap finds all of them. All functions are for
 * the thread that has the heap.
 */
#ifndef HK_HEAP_SAMPLE_COUNTDOWN_H
#define HK_HEAP_SAMPLE_COUNTDOWN_H

#include <stdbool.h>

#include "heap/heap.h"
#include "policy/sampling.h"

HK_COLD void hk_sample_countdown_follow_slow(hk_heap_t *heap);

/* Makes the heap sampled or not, as it ought to be now. May be put off to the next call. */
HK_INLINE void hk_sample_countdown_follow(hk_heap_t *heap) {
  if (HK_UNLIKELY(heap->sampling_state != hk_load_relaxed(&hk_sampling_state))) hk_sample_countdown_follow_slow(heap);
}

/* All that follows is for a sampled heap. */

/* A block was taken from home, for a request, that goes unsampled. The bin, which has none, is given what home has, as far as
 * that goes unsampled. */
void hk_sample_countdown_next_piece(hk_heap_t *heap, unsigned class_index);

/* When a bin has no block, by far most often: whether it is open and goes on to be, for what it gave since does not reach to
 * the next sampled block. That is counted then, and what follows is a block from home and hk_sample_countdown_go_on. */
HK_INLINE bool hk_sample_countdown_goes_on(hk_heap_t *heap, unsigned class_index) {
  hk_sample_countdowns_t *countdowns = heap->countdowns;
  const hk_free_list_t *bin = &heap->bin[class_index];
  if (!hk_load_relaxed(&countdowns->of[class_index].is_open) ||
      countdowns->of[class_index].at_mark == HK_COUNTDOWN_UNKNOWN)
    return false;
  uint32_t given = countdowns->of[class_index].at_mark + (bin->mark - bin->countdown);
  if (given + 1 >= countdowns->of[class_index].until) return false;
  countdowns->of[class_index].until -= given;
  countdowns->of[class_index].at_mark = HK_COUNTDOWN_UNKNOWN;
  return true;
}

HK_INLINE void hk_sample_countdown_go_on(hk_heap_t *heap, unsigned class_index) {
  hk_sample_countdowns_t *countdowns = heap->countdowns;
  hk_free_list_t *bin = &heap->bin[class_index];
  uint32_t length = countdowns->of[class_index].at_mark + (bin->mark - bin->countdown) - 1;
  uint32_t until = countdowns->of[class_index].until - 1;
  if (HK_UNLIKELY(countdowns->of[class_index].at_mark == HK_COUNTDOWN_UNKNOWN || length >= until)) {
    hk_sample_countdown_next_piece(heap, class_index);
    return;
  }
  countdowns->of[class_index].until = until;
  countdowns->of[class_index].at_mark = length;
  bin->countdown = bin->mark = until - length;
}

/* The same, and whether the next block of the class is one to be sampled. If so `*weight_q16` is how many of its kind it
 * stands for, 16 bits after the point, and it is settled which one is the next after it. */
bool hk_sample_countdown_is_due(hk_heap_t *heap, unsigned class_index, uint64_t *weight_q16);

/* The first half of hk_sample_countdown_next_piece. */
void hk_sample_countdown_count(hk_heap_t *heap, unsigned class_index);

/* The second half of it. */
void hk_sample_countdown_next_piece_uncounted(hk_heap_t *heap, unsigned class_index);

/* Puts back what closed bins have. Of a damaged block `heap->damaged` tells, and the rest of its piece is lost. Nothing for a
 * heap that is not sampled. */
void hk_sample_countdown_recall(hk_heap_t *heap);

/* Whether one of the next `bytes`, which a larger block is to have more, is one to be sampled. */
bool hk_sample_countdown_large_is_due(hk_heap_t *heap, size_t bytes);

/* The rate by which the heap is sampled. */
HK_INLINE uint64_t hk_sample_countdown_rate(const hk_heap_t *heap) { return hk_sampling_rate_of(heap->sampling_state); }

#endif /* HK_HEAP_SAMPLE_COUNTDOWN_H */
