/* heap/search.c - L4. See search.h. Lists of other threads are read while they change: every link is checked before
 * it is followed, and no more links are followed than the span has blocks. */
#include "heap/search.h"

#include "heap/span.h"

/* A whole word, as it is at some moment; its writer stores it plainly. */
#define LOAD_RACY(object) __atomic_load_n((object), __ATOMIC_RELAXED)

static bool is_on_list(const hk_slab_t *span, const hk_block_t *list, const hk_block_t *block) {
  unsigned steps = hk_load_relaxed(&((hk_slab_t *)span)->carved);
  for (; steps > 0 && list != HK_LIST_END && hk_span_has_block(span, list); steps--, list = LOAD_RACY(&list->next)) {
    if (list == block) return true;
  }
  return false;
}

static bool is_in_outbox(const hk_heap_t *heap, const hk_slab_t *span, const hk_block_t *block) {
  for (unsigned i = 0; i < HK_OUTBOX_SLOTS; i++) {
    const hk_outgoing_t *batch = &heap->outbox[i];
    if (LOAD_RACY(&batch->count) == 0 || LOAD_RACY(&batch->slab) != span) continue;
    if (is_on_list(span, LOAD_RACY(&batch->first), block)) return true;
  }
  return false;
}

bool hk_search_free(hk_slab_t *span, const hk_block_t *block) {
  hk_heap_t *owner = hk_load_relaxed(&span->owner);
  if (owner != NULL && is_on_list(span, LOAD_RACY(&owner->bin[span->class_index].free), block)) return true;
  if (is_on_list(span, LOAD_RACY(&span->own.free), block)) return true;
  if (is_on_list(span, hk_load_acquire(&span->shared.remote), block)) return true;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (is_in_outbox(heap, span, block)) return true;
  }
  return false;
}
