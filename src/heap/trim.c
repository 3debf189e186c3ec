/* heap/trim.c - L4. See trim.h. */
#include "heap/trim.h"

#include "heap/heap_check.h"
#include "heap/mid.h"
#include "heap/pool.h"
#include "heap/span.h"
#include "heap/spare.h"

/* False where the list is damaged, or longer than `limit`. */
static bool measure(const hk_block_t *list, unsigned limit, unsigned *length) {
  for (*length = 0; list != HK_LIST_END; list = list->next) {
    if (*length == limit || !hk_block_is_intact(list)) return false;
    ++*length;
  }
  return true;
}

/* How many steps it took. A span that is not empty is made inactive when nobody is there to use it: from then on it
 * counts its blocks, and is given back with the last one. */
static size_t trim_tiny(hk_heap_t *heap, unsigned class_index, size_t steps, bool for_good) {
  hk_slab_t *span = hk_load_relaxed(&heap->state[class_index].active);
  if (span == NULL) return 0;
  unsigned carved = hk_load_relaxed(&span->carved);
  if (carved > steps) return 0;
  unsigned length;
  hk_sink_t *home = hk_heap_home(heap, class_index);
  if (!measure(home->free, carved, &length)) return length;
  if (length == carved) {
    home->free = HK_LIST_END;
    hk_heap_note_length(heap, class_index, 0);
    hk_store_release(&heap->state[class_index].active, NULL);
    hk_span_release(heap, span);
    if (for_good) heap->state[class_index].carve_count = 0;
  } else if (for_good) {
    hk_span_put_to_rest(heap, class_index, length);
  }
  return length;
}

static void trim(hk_heap_t *heap, size_t steps, bool for_good) {
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX && steps > 0; i++) steps -= trim_tiny(heap, i, steps, for_good);
  hk_mid_spill_all(heap);
  hk_spare_flush(heap);
  hk_heap_check(heap);
}

void hk_heap_settle_down(hk_heap_t *heap, size_t steps) { trim(heap, hk_heap_pool_is_deep() ? steps : 0, true); }

void hk_heap_trim(hk_heap_t *heap) { trim(heap, SIZE_MAX, false); }
