/* heap/heap_flush.c - L4. See heap_flush.h. */
#include "heap/heap_flush.h"

#include <limits.h>

#include "heap/handover.h"
#include "heap/heap_check.h"
#include "heap/mid.h"
#include "heap/span.h"
#include "heap/spare.h"
#include "space/region_map.h"
#include "space/superslab.h"

unsigned hk_heap_flush_tiny(hk_heap_t *heap, unsigned class_index, unsigned *length) {
  hk_slab_t *span = hk_load_relaxed(&heap->state[class_index].active);
  *length = 0;
  if (span == NULL) return 0;
  unsigned carved = hk_span_carved(span);
  hk_free_list_t *list = hk_heap_effective_list(heap, class_index);
  if (!hk_free_list_measure(list->free, carved, length)) return UINT_MAX;
  if (*length < carved) return carved - *length;
  hk_heap_note_given(heap, class_index, carved);
  list->free = HK_LIST_END;
  hk_heap_note_length(heap, class_index, 0);
  hk_store_release(&heap->state[class_index].active, NULL);
  hk_span_release(heap, span);
  return 0;
}

/* ---- The quarantine of a hardened build. */

void hk_heap_put_from_quarantine(hk_heap_t *heap, hk_block_t *block) {
  if (block == NULL) return;
  if (!hk_handover_may_link(block)) {
    heap->damaged = block;
    return;
  }
  hk_slab_t *slab = hk_slab_of(block);
  if (hk_free_list_push(slab->free_list, block)) hk_bin_countdown_over(heap, slab);
}

static void empty(hk_heap_t *heap, hk_block_t **place) {
  hk_block_t *block = *place;
  *place = NULL;
  hk_heap_put_from_quarantine(heap, block);
}

void hk_heap_end_quarantine(hk_heap_t *heap, unsigned class_index) {
  if (!HK_HARDENED) return;
  hk_quarantine_t *quarantine = hk_heap_quarantine(heap);
  for (unsigned i = 0; i < HK_QUARANTINE_PLACES; i++) empty(heap, &quarantine->held[class_index][i]);
  if (!hk_class_is_mid(class_index)) return;
  hk_block_t **unused = quarantine->unused[class_index - HK_TINY_CLASS_MAX - 1];
  for (unsigned i = 0; i < HK_QUARANTINE_UNUSED; i++) empty(heap, &unused[i]);
}

/* As in a heap that is drained without its thread: a bin that closes meanwhile keeps no block (span.c). */
static void end_quarantines(hk_heap_t *heap) {
  bool was_visited = heap->is_visited;
  heap->is_visited = true;
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) hk_heap_end_quarantine(heap, i);
  heap->is_visited = was_visited;
}

/* ---- The whole heap. */

void hk_heap_begin_small(hk_heap_t *heap) {
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) heap->state[i].carve_count = heap->state[i].guests = 0;
  heap->spare_overflows = 0;
}

void hk_heap_unload(hk_heap_t *heap) {
  end_quarantines(heap);
  hk_mid_spill_all(heap);
  hk_spare_flush(heap);
  hk_heap_check(heap);
}

static void flush(hk_heap_t *heap, bool for_good) {
  end_quarantines(heap);
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    unsigned length, others = hk_heap_flush_tiny(heap, i, &length);
    if (for_good && others > 0 && others < UINT_MAX) hk_span_put_to_rest(heap, i, length);
  }
  hk_heap_unload(heap);
}

void hk_heap_deactivate_all(hk_heap_t *heap) { flush(heap, true); }

void hk_heap_flush(hk_heap_t *heap) { flush(heap, false); }

/* ---- Short spans. */

typedef struct {
  hk_heap_t *heap;
  bool has_shortened;
  bool is_refused;    /* where mappings are short, so the next one would be refused too */
  bool has_untouched; /* a span has no carved block: it is left alone, and may be shortened when it has some */
} shortening_t;

static void shorten_spans(hk_slab_t *slabs, void *context) {
  shortening_t *shortening = context;
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS && !shortening->is_refused; i++) {
    hk_slab_t *slab = &slabs[i];
    if (hk_slab_state(slab) != hk_slab_small || hk_slab_owner(slab) != shortening->heap) continue;
    if (slab->head != slab) continue;
    hk_shorten_t result = hk_span_shorten(shortening->heap, slab);
    if (hk_span_carved(slab) == 0) shortening->has_untouched = true;
    if (result == hk_shorten_done) shortening->has_shortened = true;
    if (result == hk_shorten_refused) shortening->is_refused = true;
  }
}

/* A span keeps its carved blocks. So once all spans are short, a walk finds nothing until the heap has another span.
 * `is_short` saves those walks: where the system refuses many requests in a row, each would look at all slabs of the
 * process. */
bool hk_heap_shorten(hk_heap_t *heap) {
  if (heap->is_short || !hk_heap_claim_spans(heap)) return false;
  shortening_t shortening = {.heap = heap};
  if (hk_load_relaxed(&heap->span_slabs) > 0) hk_superslab_visit(shorten_spans, &shortening);
  heap->is_short = !shortening.is_refused && !shortening.has_untouched;
  hk_heap_unclaim_spans(heap);
  hk_heap_check(heap);
  return shortening.has_shortened;
}
