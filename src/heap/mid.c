/* heap/mid.c - L4. See mid.h. */
#include "heap/mid.h"

#include "heap/heap_check.h"
#include "space/region_map.h"

static void return_to_span(hk_heap_t *heap, hk_block_t *block) {
  hk_slab_t *span = hk_slab_of(block)->head;
  hk_bin_state_t *state = &heap->state[span->class_index];
  hk_block_link(block, span->own.free);
  span->own.free = block;
  span->live--;
  if (span->live == 0) {
    if (hk_list_is_linked(&span->link)) hk_list_remove(&span->link);
    if (hk_load_relaxed(&state->active) == span) hk_store_release(&state->active, NULL);
    hk_span_release(heap, span);
  } else if (!hk_list_is_linked(&span->link)) {
    hk_list_push_front(&state->partial, &span->link);
  }
}

void hk_mid_spill(hk_heap_t *heap, unsigned class_index, unsigned keep) {
  hk_free_list_t *bin = hk_heap_effective_list(heap, class_index);
  hk_block_t *last_kept = NULL;
  hk_block_t *block = bin->free;
  unsigned kept = 0;
  for (; kept < keep && hk_block_is_intact(block); kept++) {
    last_kept = block;
    block = block->next;
  }
  if (last_kept != NULL) {
    hk_block_link(last_kept, HK_LIST_END);
  } else {
    bin->free = HK_LIST_END;
  }
  bin->countdown = heap->state[class_index].room - kept;
  while (block != HK_LIST_END) {
    if (!hk_block_is_intact(block)) {
      heap->damaged = block;
      break;
    }
    hk_block_t *next = block->next;
    __builtin_prefetch(next);
    return_to_span(heap, block);
    block = next;
  }
  hk_heap_check_class(heap, class_index);
}

void hk_mid_settle(hk_heap_t *heap, unsigned class_index) {
  hk_bin_state_t *state = &heap->state[class_index];
  if (!state->spilled) {
    state->spilled = true;
    hk_mid_spill(heap, class_index, state->room / 2);
    return;
  }
  unsigned least = hk_class_room(class_index, 0);
  state->room = (uint16_t)(state->room / 2 > least ? state->room / 2 : least);
  hk_mid_spill(heap, class_index, 0);
}

/* Moves up to `most` blocks from the span's list to the front of the bin's. Returns how many. */
static unsigned take_from_span(hk_heap_t *heap, hk_slab_t *span, unsigned most) {
  hk_free_list_t *bin = hk_heap_effective_list(heap, span->class_index);
  hk_block_t *first = span->own.free;
  hk_block_t *last = NULL;
  hk_block_t *rest = first;
  unsigned count = 0;
  for (; count < most && hk_block_is_intact(rest); count++) {
    last = rest;
    rest = rest->next;
  }
  bool is_lost = count < most && rest != HK_LIST_END; /* the rest of the list cannot be reached */
  if (is_lost) {
    heap->damaged = rest;
    rest = HK_LIST_END;
  }
  span->own.free = rest;
  /* Lost blocks count as in use for good. */
  span->live = is_lost ? hk_load_relaxed(&span->carved) : (uint16_t)(span->live + count);
  if (rest == HK_LIST_END) hk_list_remove(&span->link);
  if (last == NULL) return 0;
  hk_block_link(last, bin->free);
  bin->free = first;
  bin->countdown -= count;
  return count;
}

static void adapt_room(hk_bin_state_t *state, unsigned class_index) {
  if (!state->spilled) return;
  state->spilled = false;
  unsigned most = hk_class_room(class_index, HK_ROOM_MOST_BYTES);
  state->room = (uint16_t)(2u * state->room < most ? 2u * state->room : most);
}

bool hk_mid_fill(hk_heap_t *heap, unsigned class_index) {
  hk_bin_state_t *state = &heap->state[class_index];
  adapt_room(state, class_index);
  /* The list is empty; its count may be wrong after damage or a fork. */
  hk_heap_effective_list(heap, class_index)->countdown = state->room;
  hk_list_t *partial = &state->partial;
  unsigned wanted = state->room / 2;
  unsigned found = 0;
  while (found < wanted && !hk_list_is_empty(partial)) {
    found += take_from_span(heap, HK_CONTAINER_OF(partial->next, hk_slab_t, link), wanted - found);
  }
  return found > 0;
}

void hk_mid_spill_all(hk_heap_t *heap) {
  for (unsigned i = HK_TINY_CLASS_MAX + 1; i < HK_CLASS_COUNT; i++) {
    if (hk_heap_effective_list(heap, i)->free != HK_LIST_END) hk_mid_spill(heap, i, 0);
  }
}
