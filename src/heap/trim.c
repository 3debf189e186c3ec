/* heap/trim.c - L4. See trim.h. */
#include "heap/trim.h"

#include "heap/mid.h"
#include "heap/span.h"
#include "heap/spare.h"

static unsigned length_of(const hk_block_t *list, unsigned limit) {
  unsigned length = 0;
  for (; list != HK_LIST_END && length < limit && hk_block_is_intact(list); list = list->next) length++;
  return length;
}

static void trim_tiny(hk_heap_t *heap, unsigned class_index) {
  hk_slab_t *span = heap->state[class_index].active;
  if (span == NULL) return;
  unsigned carved = hk_load_relaxed(&span->carved);
  if (length_of(heap->bin[class_index].free, carved + 1) != carved) return;
  heap->bin[class_index].free = HK_LIST_END;
  heap->state[class_index].active = NULL;
  hk_span_release(heap, span);
}

static void trim(hk_heap_t *heap, bool with_tiny) {
  for (unsigned i = 1; with_tiny && i <= HK_TINY_CLASS_MAX; i++) trim_tiny(heap, i);
  hk_mid_spill_all(heap);
  hk_spare_flush(heap);
}

/* Tiny lists must be walked to see whether all is home: that is too much for each thread's end. */
void hk_heap_settle_down(hk_heap_t *heap) { trim(heap, hk_heap_pool_is_deep()); }

void hk_heap_trim(hk_heap_t *heap) { trim(heap, true); }
