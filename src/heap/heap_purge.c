/* heap/heap_purge.c - L4. See heap_purge.h. */
#include "heap/heap_purge.h"

#include "heap/heap_check.h"
#include "heap/mid.h"
#include "heap/span.h"
#include "heap/spare.h"

/* Counts a list. Returns false where it is damaged, or longer than `limit`. */
static bool measure(const hk_block_t *list, unsigned limit, unsigned *length) {
  for (*length = 0; list != HK_LIST_END; list = list->next) {
    if (*length == limit || !hk_block_is_intact(list)) return false;
    ++*length;
  }
  return true;
}

static void purge_tiny(hk_heap_t *heap, unsigned class_index, bool for_good) {
  hk_slab_t *span = hk_load_relaxed(&heap->state[class_index].active);
  if (span == NULL) return;
  unsigned carved = hk_load_relaxed(&span->carved);
  unsigned length;
  hk_free_list_t *list = hk_heap_effective_list(heap, class_index);
  if (!measure(list->free, carved, &length)) return;
  if (length == carved) {
    list->free = HK_LIST_END;
    hk_heap_note_length(heap, class_index, 0);
    hk_store_release(&heap->state[class_index].active, NULL);
    hk_span_release(heap, span);
  } else if (for_good) {
    hk_span_put_to_rest(heap, class_index, length);
  }
}

void hk_heap_begin_small(hk_heap_t *heap) {
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) heap->state[i].carve_count = heap->state[i].guests = 0;
}

void hk_heap_unload(hk_heap_t *heap) {
  hk_mid_spill_all(heap);
  hk_spare_flush(heap);
  hk_heap_check(heap);
}

static void purge_all(hk_heap_t *heap, bool for_good) {
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) purge_tiny(heap, i, for_good);
  hk_heap_unload(heap);
}

void hk_heap_settle_down(hk_heap_t *heap) { purge_all(heap, true); }

void hk_heap_purge(hk_heap_t *heap) { purge_all(heap, false); }
