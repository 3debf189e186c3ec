/* heap/idle_bin.c - L4. See idle_bin.h. */
#include "heap/idle_bin.h"

#include <limits.h>

#include "heap/heap_flush.h"
#include "heap/mid.h"
#include "heap/spare.h"
#include "space/shortage.h"

/* Chosen: a look counts at most this many blocks. That takes a few microseconds, less than the page faults of a span.
 * Of blocks below 128 bytes it releases a span only where few were carved (measured:
 * docs/experiments/2026-11-30-idle-bins.md). */
#define COUNT_MAX 512u

/* Chosen: the refills that pay for a flush. A bin that serves without a refill, because each block comes back before
 * the next request, looks idle: where many classes are in such use, the heap grows instead (measured:
 * docs/experiments/2026-11-30-flushes-that-pay.md). */
#define REFILLS_OF_FLUSH 6u

/* Returns whether a flush may release the active span. Beside a fresh list all blocks are in use: none came back. */
static bool is_tiny_worth_it(const hk_heap_t *heap, unsigned class_index) {
  const hk_free_list_t *list = hk_heap_effective_list(heap, class_index);
  if (list->free == HK_LIST_END || hk_bin_is_fresh(list)) return false;
  const hk_slab_t *span = hk_load_relaxed(&heap->state[class_index].active);
  return span != NULL && hk_span_carved(span) <= COUNT_MAX;
}

/* Returns whether a spill may release a span, and the blocks are worth it: a shorter list soon needs a span again
 * (measured: docs/experiments/2026-11-30-reserve-and-mid-bins.md). The length of a metered bin is unknown. */
static bool is_mid_worth_it(const hk_heap_t *heap, unsigned class_index) {
  const hk_free_list_t *list = &heap->bin[class_index];
  if (list->free == HK_LIST_END || hk_mid_is_metered(heap, class_index)) return false;
  return (heap->state[class_index].room - list->countdown) * hk_class_bytes(class_index) >= HK_SLAB_BYTES;
}

/* Releases the active span if none of its blocks is in use. Otherwise sets the bin's countdown to the number of those:
 * when it is over, all may have come back. A sampled heap needs its countdowns for samples, so its bin waits for a
 * refill. A class without a span carves as in a new heap: a program that needs few of its blocks at a time touches few
 * pages. */
static void flush_tiny(hk_heap_t *heap, unsigned class_index) {
  unsigned length, others = hk_heap_flush_tiny(heap, class_index, &length);
  hk_class_set_remove(&heap->idle_bins.candidates, class_index);
  if (others == 0) {
    heap->state[class_index].carve_count = 0;
  } else if (others < UINT_MAX && !hk_heap_is_sampled(heap)) {
    hk_heap_effective_list(heap, class_index)->countdown = others;
  }
}

/* Flushes the bin if that may release a span. Passes over a bin that was refilled since the last look. Returns whether
 * it flushed the bin. */
static bool look_at(hk_heap_t *heap, unsigned class_index) {
  bool is_mid = hk_class_is_mid(class_index);
  if (!(is_mid ? is_mid_worth_it(heap, class_index) : is_tiny_worth_it(heap, class_index))) return false;
  if (hk_class_set_has(&heap->idle_bins.refilled, class_index)) {
    hk_class_set_remove(&heap->idle_bins.refilled, class_index);
    return false;
  }
  if (is_mid) {
    hk_mid_spill(heap, class_index, 0);
  } else {
    flush_tiny(heap, class_index);
  }
  return true;
}

/* Looks at the candidates behind `class_index`, up to `last`, until it flushes one. */
static bool look_from(hk_heap_t *heap, unsigned class_index, unsigned last) {
  while ((class_index = hk_class_set_next(&heap->idle_bins.candidates, class_index)) <= last) {
    if (!look_at(heap, class_index)) continue;
    heap->idle_bins.hand = (uint8_t)class_index;
    return true;
  }
  return false;
}

bool hk_idle_bin_flush_one(hk_heap_t *heap) {
  static_assert(HK_CLASS_COUNT - 1 <= UINT8_MAX, "the hand is a class");
  unsigned hand = heap->idle_bins.hand;
  return look_from(heap, hand, HK_CLASS_COUNT - 1) || look_from(heap, 0, hand);
}

/* Bins are flushed only where the heap would have more slabs than ever. Where it comes back to a size that it had,
 * their slabs would go from class to class, and each would be filled as far as the largest fills it. Returns at once
 * where the slab would serve no other class: a hardened build keeps it for its class, and in a shortage of addresses
 * spans are short. */
void hk_idle_bin_flush_before_growth(hk_heap_t *heap, unsigned class_index) {
  if (HK_HARDENED || hk_shortage_is_on()) return;
  unsigned needed = hk_class_span_slabs(class_index);
  if (hk_spare_has(heap, needed)) return;
  uint32_t slabs = hk_load_relaxed(&heap->span_slabs) + hk_load_relaxed(&heap->spare_slabs) + needed;
  if (slabs <= heap->idle_bins.most_slabs) return;
  uint8_t *refill_count = &heap->idle_bins.refill_count;
  if (*refill_count >= REFILLS_OF_FLUSH && hk_idle_bin_flush_one(heap))
    *refill_count = (uint8_t)(*refill_count - REFILLS_OF_FLUSH);
  if (!hk_spare_has(heap, needed)) heap->idle_bins.most_slabs = slabs;
}
