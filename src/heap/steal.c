/* heap/steal.c - L4. See steal.h. */
#include "heap/steal.h"

#include "heap/heap_check.h"
#include "heap/heap_flush.h"
#include "heap/mid.h"
#include "heap/pool.h"
#include "heap/remote.h"
#include "heap/span.h"
#include "os/node.h"
#include "os/shard.h"

static void change_owner(hk_slab_t *span, hk_heap_t *from, hk_heap_t *to) {
  hk_bump_relaxed(&from->span_slabs, -(uint32_t)span->slab_count);
  hk_bump_relaxed(&to->span_slabs, span->slab_count);
  to->is_short = false;
  span->has_moved = true;
  for (unsigned i = 0; i < span->slab_count; i++) hk_store_relaxed(&span[i].owner, to);
  if (hk_class_is_mid(span->class_index)) hk_span_set_free_lists(span, hk_heap_effective_list(to, span->class_index));
}

static void move_partial(hk_heap_t *to, hk_heap_t *from, hk_slab_t *span) {
  hk_bin_state_t *source = &from->state[span->class_index];
  hk_bin_state_t *target = &to->state[span->class_index];
  /* A mid class's span can be both: the next blocks are carved from it. */
  if (hk_load_relaxed(&source->active) == span) {
    hk_store_release(&source->active, NULL);
    hk_store_release(&target->active, span);
  }
  hk_list_remove(&span->link);
  change_owner(span, from, to);
  hk_list_push_front(&target->partial, &span->link);
}

/* A tiny class's active span moves with its bin's blocks. A mid class's is only the span to carve from next. */
static void move_active(hk_heap_t *to, hk_heap_t *from, unsigned class_index) {
  hk_slab_t *span = hk_load_relaxed(&from->state[class_index].active);
  hk_free_list_t *source = hk_heap_effective_list(from, class_index);
  hk_free_list_t *target = hk_heap_effective_list(to, class_index);
  hk_store_release(&from->state[class_index].active, NULL);
  change_owner(span, from, to);
  if (hk_class_is_mid(class_index)) {
    hk_store_release(&to->state[class_index].active, span);
    return;
  }
  if (hk_load_relaxed(&to->state[class_index].active) != NULL) hk_span_deactivate(to, class_index);
  hk_span_set_free_lists(span, target);
  target->countdown = hk_bin_countdown_of_list(source);
  target->free = source->free;
  source->free = HK_LIST_END;
  hk_heap_note_length(from, class_index, 0);
  hk_heap_note_length(to, class_index, HK_COUNTDOWN_UNKNOWN);
  hk_store_release(&to->state[class_index].active, span);
}

static bool move_span(hk_heap_t *to, hk_heap_t *from, unsigned class_index) {
  hk_heap_end_quarantine(from, class_index);
  if (hk_class_is_mid(class_index)) hk_mid_spill(from, class_index, 0); /* so that the bin has no block of the span */
  hk_slab_t *partial = hk_span_first_partial(from, class_index);
  if (partial != NULL) {
    move_partial(to, from, partial);
  } else if (hk_span_active_has_room(from, class_index)) {
    move_active(to, from, class_index);
  } else {
    return false;
  }
  hk_heap_check_class(from, class_index);
  hk_heap_check_class(to, class_index);
  hk_stat_bump(&to->stat, hk_stat_slab_move, 1);
  return true;
}

/* Returns whether a steal from the idle heap pays. Another node's spans are no better than new memory of the own node,
 * which is nearer (docs/experiments/2026-11-20-memory-nodes.md). */
static bool is_worth_it(hk_heap_t *heap, unsigned class_index) {
  if (!hk_heap_offers(heap, class_index)) return false;
  return hk_node_is_only_one() || hk_shard_node(hk_load_relaxed(&heap->shard)) == hk_node_current();
}

bool hk_steal_span(hk_heap_t *heap, unsigned class_index) {
  hk_heap_t *from = hk_heap_take_if(is_worth_it, class_index);
  if (from == NULL) return false;
  hk_heap_enter_taken(from);
  bool moved = move_span(heap, from, class_index);
  hk_heap_leave(from);
  hk_remote_give_back(from);
  return moved;
}
