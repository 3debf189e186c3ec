/* heap/refill.c - L4. See refill.h. */
#include "heap/refill.h"

#include "heap/remote.h"
#include "heap/span.h"

/* Chosen: a class starts with one small page, and is given twice as much each time, up to half a slab, or as many
 * blocks as make the refill worth its cost (measured: docs/design.md, "Carving"). */
#define CARVE_FIRST_BYTES (4 * HK_KIB)
#define CARVE_MAX_BYTES (32 * HK_KIB)
#define CARVE_MAX_BLOCKS_LEAST 4

static unsigned next_carve_count(hk_bin_state_t *state, unsigned class_index) {
  size_t block_bytes = hk_class_bytes(class_index);
  unsigned most = (unsigned)(CARVE_MAX_BYTES / block_bytes);
  if (most < CARVE_MAX_BLOCKS_LEAST) most = CARVE_MAX_BLOCKS_LEAST;
  if (state->carve_count == 0) {
    unsigned first = (unsigned)(CARVE_FIRST_BYTES / block_bytes);
    state->carve_count = first > 0 ? first : 1;
  }
  unsigned count = state->carve_count;
  state->carve_count = 2 * count < most ? 2 * count : most;
  return count;
}

static bool carve(hk_heap_t *heap, unsigned class_index) {
  hk_bin_state_t *state = &heap->state[class_index];
  if (state->active == NULL) return false;
  if (!hk_span_carve(heap, state->active, next_carve_count(state, class_index))) return false;
  hk_stat_bump(&heap->stat, hk_stat_carve, 1);
  return true;
}

static void switch_to(hk_heap_t *heap, hk_slab_t *span) {
  unsigned class_index = span->class_index;
  if (heap->state[class_index].active != NULL) hk_span_deactivate(heap, class_index);
  hk_span_activate(heap, span);
}

static bool has_blocks(const hk_heap_t *heap, unsigned class_index) {
  return heap->bin[class_index].free != HK_LIST_END;
}

bool hk_refill(hk_heap_t *heap, unsigned class_index) {
  hk_bin_state_t *state = &heap->state[class_index];
  hk_stat_bump(&heap->stat, hk_stat_refill, 1);

  if (hk_remote_is_pending(heap)) {
    hk_remote_drain(heap);
    if (has_blocks(heap, class_index)) return true;
  }
  if (!hk_list_is_linked(&state->partial)) hk_list_init(&state->partial);
  if (!hk_list_is_empty(&state->partial)) {
    hk_slab_t *span = HK_CONTAINER_OF(state->partial.next, hk_slab_t, link);
    hk_span_unlink(span);
    switch_to(heap, span);
    if (has_blocks(heap, class_index)) return true;
  }
  if (carve(heap, class_index)) return true;

  /* Before growing: what others wait for may be held back here, and what we wait for elsewhere. */
  hk_remote_flush(heap);
  hk_remote_drain_idle();
  hk_slab_t *span = hk_span_acquire(heap, class_index);
  if (span == NULL) return false;
  switch_to(heap, span);
  return carve(heap, class_index);
}
