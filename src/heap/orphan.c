/* heap/orphan.c - L4. See orphan.h. */
#include "heap/orphan.h"

#include "base/atomic.h"
#include "heap/mid.h"
#include "heap/pool.h"
#include "heap/span.h"

/* Counts the blocks that a vanished owner's list has given, for a part that counts. Returns the length of the list,
 * from which the count goes on; HK_COUNTDOWN_UNKNOWN: the heap is no such part, or the list was not counted. */
static uint32_t count_given(hk_heap_t *heap, const hk_free_list_t *free_list, unsigned class_index) {
  if (!hk_heap_is_part(heap) || !hk_heap_is_sampled(heap) || free_list != &heap->bin[class_index])
    return HK_COUNTDOWN_UNKNOWN;
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  bool is_open = hk_load_relaxed(&countdown->is_open);
  if (!is_open || countdown->start_length == HK_COUNTDOWN_UNKNOWN || countdown->until == HK_COUNTDOWN_UNKNOWN)
    return HK_COUNTDOWN_UNKNOWN;
  bool is_metered = hk_class_is_mid(class_index);
  uint32_t length = hk_free_list_length(free_list->free);
  uint32_t before = is_metered ? hk_heap_metered_sum(countdown, free_list) : hk_heap_list_sum(countdown, free_list);
  if (before > length) hk_heap_count_given(countdown, before - length);
  return length;
}

/* Makes a vanished owner's countdown valid. The owner may have vanished after it put a block back and before it counted
 * the block. So no list is known to be fresh any more, and the next free into a mid bin counts its list again. It may
 * have vanished after a countdown was over and before it acted: the next free would count down from 0 to
 * HK_COUNTDOWN_FRESH. The draw of a metered bin that is not counted is void. */
static void reset_countdown(hk_heap_t *heap, hk_free_list_t *free_list, unsigned class_index) {
  if (hk_class_is_mid(class_index)) {
    bool is_metered = hk_mid_is_metered(heap, class_index);
    if (is_metered) {
      heap->countdowns->of[class_index].start_length = count_given(heap, free_list, class_index);
      heap->countdowns->of[class_index].start = 1;
    }
    free_list->countdown = 1;
    heap->state[class_index].carved_zero = false;
    return;
  }
  uint32_t length = count_given(heap, free_list, class_index);
  if (hk_bin_is_fresh(free_list) || free_list->countdown == 0) free_list->countdown = HK_COUNTDOWN_ACTIVE;
  hk_heap_note_length(heap, class_index, length);
}

static void reset_countdowns(hk_heap_t *heap) {
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    reset_countdown(heap, &heap->bin[i], i);
    reset_countdown(heap, hk_heap_effective_list(heap, i), i);
  }
}

static bool is_forkers(hk_heap_t *heap, const hk_forker_t *forker) {
  if (heap == forker->heap || heap == forker->base) return true;
  return hk_heap_is_part(heap) && hk_load_relaxed(&heap->part.thread_variable) == forker->variable;
}

static void settle(hk_heap_t *heap, const hk_forker_t *forker) {
  if (is_forkers(heap, forker)) {
    hk_heap_set_life(heap, hk_heap_attached);
    return;
  }
  hk_store_relaxed(&heap->part.thread_variable, NULL);
  heap->part.of_thread = (hk_list_t){NULL, NULL};
  heap->part.table = NULL;
  if (hk_load_relaxed(&heap->is_busy)) {
    hk_heap_set_life(heap, hk_heap_lost);
  } else {
    reset_countdowns(heap);
    hk_heap_give_back(heap);
  }
}

void hk_orphan_settle_all(const hk_forker_t *forker) {
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (hk_heap_life(heap) == hk_heap_orphan) settle(heap, forker);
  }
}
