/* heap/refill.c - L4. See refill.h. */
#include "heap/refill.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "heap/carve.h"
#include "heap/heap_check.h"
#include "heap/idle_bin.h"
#include "heap/mid.h"
#include "heap/remote.h"
#include "heap/span.h"
#include "heap/spare.h"
#include "heap/steal.h"
#include "os/os.h"

/* Chosen: a class of a new thread starts with 4 KiB, or one block. Each time it gets a quarter more, to the end of the
 * span at most: a tiny class up to half a slab (measured: docs/experiments/2026-11-23-carving-step.md), a mid class up
 * to one block fewer than its list has room for, since a full list is spilled
 * (docs/experiments/2026-11-29-longer-carvings.md). Memory that was never used costs a page fault for each page, beside
 * which a refill costs nothing. So a mid class carves the first step of such memory each time, and calloc need not
 * clear the first block; a tiny class carves a page, which counts as a carving (next_tiny_count). */
#define CARVE_FIRST_BYTES (4 * HK_KIB)
#define CARVE_TINY_BYTES (32 * HK_KIB)

static unsigned first_count(size_t block_bytes) {
  return block_bytes < CARVE_FIRST_BYTES ? (unsigned)(CARVE_FIRST_BYTES / block_bytes) : 1;
}

/* Returns how many blocks to carve, at most `most`, and sets how many next time. */
static unsigned next_count(hk_bin_state_t *state, size_t block_bytes, unsigned most) {
  unsigned count = state->carve_count > 0 ? state->carve_count : first_count(block_bytes);
  state->carve_count = (uint16_t)hk_smaller(count + (count + 3) / 4, most);
  return (unsigned)hk_smaller(count, most);
}

static unsigned next_mid_count(hk_bin_state_t *state, size_t block_bytes) {
  if (hk_load_relaxed(&state->active)->is_zero) return first_count(block_bytes);
  return next_count(state, block_bytes, state->room - 1u);
}

/* Returns fewer where the last block then ends with a page: a small carving does not touch another page for a block or
 * two. From memory that was never used it returns at most the number of blocks that begin in one page, so that linking
 * them takes at most one page fault (measured: docs/experiments/2026-11-29-a-page-a-refill.md). A hardened build does
 * not: it shuffles the blocks of one carving, and fewer blocks have fewer orders. */
static unsigned next_tiny_count(hk_bin_state_t *state, const hk_slab_t *span, size_t block_bytes) {
  unsigned count = next_count(state, block_bytes, (unsigned)(CARVE_TINY_BYTES / block_bytes));
  unsigned carved = hk_span_carved(span);
  size_t first = carved % hk_class_blocks_per_slab(span->class_index) * block_bytes, page_bytes = hk_os_page_size();
  if (span->is_zero && !HK_HARDENED) {
    size_t end = hk_align_up(first + 1, page_bytes);
    return (unsigned)hk_smaller(count, (end - first + block_bytes - 1) / block_bytes);
  }
  size_t end = hk_align_down(first + count * block_bytes, page_bytes);
  return end >= first + block_bytes ? (unsigned)((end - first) / block_bytes) : count;
}

/* Returns whether a carving of the active span is one block of memory that was never used. Linking such a block would
 * only make its first page resident here instead of in the program. */
static bool is_one_untouched(const hk_slab_t *span, size_t block_bytes) {
  return hk_class_is_mid(span->class_index) && span->is_zero && first_count(block_bytes) == 1;
}

/* Returns a block that was never used: in a hardened build a random one of some. */
static hk_block_t *carve_untouched(hk_heap_t *heap, hk_slab_t *span) {
  hk_block_t *block = hk_span_carve_untouched(heap, span);
  if (!HK_HARDENED) return block;
  hk_block_t *before = NULL;
  while (block != NULL) {
    before = hk_quarantine_swap_unused(hk_heap_quarantine(heap), span->class_index, block);
    if (before != NULL) return before;
    block = hk_span_carve_untouched(heap, span);
  }
  return hk_quarantine_take_unused(hk_heap_quarantine(heap), span->class_index);
}

/* Carves blocks for the bin, or one to `*untouched` unless that is NULL. */
static bool carve(hk_heap_t *heap, unsigned class_index, hk_block_t **untouched) {
  hk_bin_state_t *state = &heap->state[class_index];
  hk_slab_t *span = hk_load_relaxed(&state->active);
  if (span == NULL) return false;
  size_t block_bytes = hk_class_bytes(class_index);
  bool is_mid = hk_class_is_mid(class_index);
  if (untouched != NULL && is_one_untouched(span, block_bytes)) {
    *untouched = carve_untouched(heap, span);
    if (*untouched == NULL) return false;
  } else {
    unsigned count = is_mid ? next_mid_count(state, block_bytes) : next_tiny_count(state, span, block_bytes);
    if (hk_span_carve(heap, span, count) == 0) return false;
  }
  hk_stat_bump(&heap->stat, hk_stat_carve, 1);
  return true;
}

static bool has_blocks(const hk_heap_t *heap, unsigned class_index) {
  return hk_heap_effective_list(heap, class_index)->free != HK_LIST_END;
}

static void switch_to(hk_heap_t *heap, hk_slab_t *span) {
  unsigned class_index = span->class_index;
  if (hk_class_is_mid(class_index)) { /* the active span has no room left: its blocks lead back to it */
    hk_store_release(&heap->state[class_index].active, span);
    return;
  }
  if (hk_load_relaxed(&heap->state[class_index].active) != NULL) hk_span_deactivate(heap, class_index);
  hk_span_activate(heap, span);
}

/* Takes blocks of spans that were used before. */
static bool take_used(hk_heap_t *heap, unsigned class_index) {
  hk_list_t *partial = &heap->state[class_index].partial;
  if (!hk_list_is_linked(partial)) hk_list_init(partial);
  if (hk_class_is_mid(class_index)) return hk_mid_fill(heap, class_index);
  hk_slab_t *span = hk_span_first_partial(heap, class_index);
  if (span == NULL) return false;
  hk_span_unlink(span);
  switch_to(heap, span);
  return has_blocks(heap, class_index);
}

/* Returns the counter of the source that gave blocks; hk_stat_refill_failed when none did. */
static hk_stat_id_t take_any(hk_heap_t *heap, unsigned class_index, hk_block_t **untouched) {
  if (has_blocks(heap, class_index)) return hk_stat_refill_remote;
  if (take_used(heap, class_index)) return hk_stat_refill_used;
  return carve(heap, class_index, untouched) ? hk_stat_refill_carve : hk_stat_refill_failed;
}

bool hk_refill_has(const hk_heap_t *heap, unsigned class_index) {
  return hk_span_first_partial(heap, class_index) != NULL || has_blocks(heap, class_index) ||
         hk_span_active_has_room(heap, class_index);
}

/* Chosen: requests of a class that a coarse class serves before the class takes a span. Each costs a slow path, and all
 * of them waste at most 2 KiB (measured: docs/experiments/2026-11-24-many-heaps.md). */
#define GUESTS_MAX 8

unsigned hk_refill_choose_class(hk_heap_t *heap, unsigned class_index, size_t alignment) {
  hk_bin_state_t *state = &heap->state[class_index];
  if (state->guests == GUESTS_MAX || hk_class_is_mid(class_index)) return class_index;
  if (hk_load_relaxed(&heap->number) == 1) return class_index;
  unsigned coarse = hk_class_coarse(class_index);
  if (coarse == class_index || hk_class_bytes(coarse) % alignment != 0) return class_index;
  if (hk_refill_has(heap, class_index)) return class_index;
  state->guests++;
  return coarse;
}

static bool refill(hk_heap_t *heap, unsigned class_index, hk_block_t **untouched) {
  if (hk_heap_has_incoming(heap)) (void)hk_remote_drain(heap);
  hk_stat_id_t stage = take_any(heap, class_index, untouched);
  if (stage != hk_stat_refill_failed) {
    hk_stat_bump(&heap->stat, stage, 1);
    return true;
  }

  /* Before growing: send the blocks that other heaps may wait for, and collect those that wait elsewhere. */
  if (hk_load_relaxed(&heap->batch_count) > 0) hk_remote_flush(heap);
  hk_remote_drain_idle_if_due();
  if (hk_heap_total() > 1 && !hk_heap_is_part(heap) && /* all blocks in a part's spans are the part's */
      hk_steal_span(heap, class_index) && take_any(heap, class_index, untouched) != hk_stat_refill_failed)
    return true;
  if (hk_idle_bin_may_help(heap)) hk_idle_bin_flush_before_growth(heap, class_index);
  hk_slab_t *span = hk_span_acquire(heap, class_index);
  if (span == NULL) {
    hk_stat_bump(&heap->stat, hk_stat_refill_failed, 1);
    return false;
  }
  switch_to(heap, span);
  return carve(heap, class_index, untouched);
}

bool hk_refill(hk_heap_t *heap, unsigned class_index, hk_block_t **untouched) {
  hk_stat_bump(&heap->stat, hk_stat_refill, 1);
  hk_spare_pass_time(heap);
  if (hk_class_is_mid(class_index)) heap->state[class_index].carved_zero = false;
  hk_idle_bin_note_refill(heap, class_index);
  bool has_refilled = refill(heap, class_index, untouched);
  hk_heap_check_class(heap, class_index);
  return has_refilled;
}

unsigned hk_refill_find_larger(const hk_heap_t *heap, unsigned class_index, size_t alignment) {
  for (unsigned i = class_index + 1; i < HK_CLASS_COUNT; i++) {
    if (hk_class_bytes(i) % alignment == 0 && hk_refill_has(heap, i)) return i;
  }
  return 0;
}
