/* heap/mid.c - L4. See mid.h. */
#include "heap/mid.h"

#include <assert.h>

#include "base/arithmetic.h"
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

static void spill(hk_heap_t *heap, unsigned class_index, unsigned keep) {
  hk_free_list_t *bin = &heap->bin[class_index];
  hk_block_t *last_kept;
  unsigned kept = hk_free_list_count(bin->free, keep, &last_kept);
  hk_block_t *block = hk_free_list_rest(bin->free, last_kept);
  hk_free_list_set_rest(bin, last_kept, HK_LIST_END);
  bin->countdown = heap->state[class_index].room - kept;
  while (block != HK_LIST_END) {
    if (!hk_block_is_intact(block)) {
      heap->damaged = block;
      break;
    }
    hk_block_t *next = hk_block_next(block);
    __builtin_prefetch(next);
    return_to_span(heap, block);
    block = next;
  }
}

static void note_spilled(hk_bin_state_t *state, unsigned count) {
  unsigned spilled = state->spilled + count;
  state->spilled = (uint8_t)(spilled < UINT8_MAX ? spilled : UINT8_MAX);
}

/* Spills a full list, and adapts its room: see mid.h. */
static void spill_full(hk_heap_t *heap, unsigned class_index) {
  hk_bin_state_t *state = &heap->state[class_index];
  bool is_first = state->spilled == 0;
  unsigned full = state->room, keep = is_first ? full / 2 : 0;
  note_spilled(state, full - keep);
  if (!is_first) state->room = (uint16_t)hk_larger(full / 2, HK_ROOM_MIN_BLOCKS);
  spill(heap, class_index, keep);
}

/* ---- Metered bins. */

/* Chosen: the most frees from one count of a list to the next, if the last counts found that it was not full. The list
 * may grow by as many blocks beyond its room before a count shows it. */
#define INTERVAL_MAX 512u
#define INTERVAL_MAX_BYTES (8 * HK_MIB)
static_assert(HK_ROOM_MAX_BLOCKS + INTERVAL_MAX < HK_METERED_MAX_BLOCKS, "a metered bin's list has fewer blocks");

static hk_free_list_t *aside_of(hk_heap_t *heap, unsigned class_index) {
  return &heap->countdowns->shadow[class_index];
}

/* Sets the blocks behind the first `keep` aside. Does nothing where the bin's list is damaged: its blocks cannot be
 * followed, and other blocks may still be aside. */
static void set_rest_aside(hk_heap_t *heap, unsigned class_index, uint32_t length, uint32_t keep) {
  hk_free_list_t *bin = &heap->bin[class_index], *aside = aside_of(heap, class_index);
  hk_block_t *last;
  if (aside->free != HK_LIST_END || hk_free_list_count(bin->free, keep, &last) < keep) return;
  aside->free = hk_free_list_rest(bin->free, last);
  aside->countdown = length - keep;
  hk_free_list_set_rest(bin, last, HK_LIST_END);
}

void hk_mid_meter(hk_heap_t *heap, unsigned class_index) {
  hk_free_list_t *bin = &heap->bin[class_index];
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  uint32_t length = heap->state[class_index].room - bin->countdown;
  uint32_t until = countdown->until != HK_COUNTDOWN_UNKNOWN ? countdown->until : 0;
  if (length < until) {
    uint32_t interval = bin->countdown > countdown->interval ? bin->countdown : countdown->interval;
    bin->countdown = until - length < interval ? until - length : interval;
    countdown->start_length = length;
  } else {
    set_rest_aside(heap, class_index, length, until);
    bin->countdown = 1;
    countdown->start_length = until;
  }
  countdown->start = bin->countdown;
  bin->pop_step = 0;
}

/* Puts the blocks that are set aside behind the bin's last one. Returns how many, and 0 where the bin's list is
 * damaged. */
static uint32_t take_back(hk_heap_t *heap, unsigned class_index, hk_block_t *last) {
  hk_free_list_t *bin = &heap->bin[class_index], *aside = aside_of(heap, class_index);
  if (hk_free_list_rest(bin->free, last) != HK_LIST_END) return 0;
  uint32_t count = aside->countdown;
  hk_free_list_set_rest(bin, last, aside->free);
  *aside = (hk_free_list_t){.free = HK_LIST_END};
  return count;
}

/* Unmeters a metered bin. Returns whether its list was full, and has been spilled. */
static bool unmeter(hk_heap_t *heap, unsigned class_index) {
  hk_free_list_t *bin = &heap->bin[class_index];
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  hk_block_t *last;
  uint32_t length = hk_free_list_count(bin->free, UINT32_MAX, &last), room = heap->state[class_index].room;
  if (countdown->start_length == HK_COUNTDOWN_UNKNOWN) {
    hk_heap_set_until(countdown, HK_COUNTDOWN_UNKNOWN);
  } else if (countdown->until != HK_COUNTDOWN_UNKNOWN) {
    hk_heap_count_given(countdown, hk_heap_metered_sum(countdown, bin) - length);
  }
  length += take_back(heap, class_index, last);
  bin->pop_step = 1;
  bin->countdown = length < room ? room - length : 1;
  if (length < room) return false;
  spill_full(heap, class_index);
  return true;
}

void hk_mid_unmeter(hk_heap_t *heap, unsigned class_index) {
  if (hk_mid_is_metered(heap, class_index)) (void)unmeter(heap, class_index);
}

/* Sets the block that was just freed aside, in front of the sample. Returns false when the list would be full. */
static bool set_free_aside(hk_heap_t *heap, unsigned class_index) {
  hk_free_list_t *bin = &heap->bin[class_index], *aside = aside_of(heap, class_index);
  const hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (countdown->start_length + aside->countdown + 1 >= heap->state[class_index].room) return false;
  hk_block_t *block = bin->free;
  bin->free = hk_block_next(block);
  hk_block_link(block, aside->free);
  aside->free = block;
  aside->countdown++;
  bin->countdown = countdown->start;
  return true;
}

/* Begins the next interval of a bin whose sample is far and whose list is not full. Returns false for other bins.
 * `start_length` becomes the sum of the list's length and the pops, which only the next unmetering tells apart. */
static bool extend_interval(hk_heap_t *heap, unsigned class_index) {
  hk_free_list_t *bin = &heap->bin[class_index];
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  uint32_t room = heap->state[class_index].room, sum = hk_heap_metered_sum(countdown, bin);
  bool is_known = countdown->start_length != HK_COUNTDOWN_UNKNOWN && countdown->until != HK_COUNTDOWN_UNKNOWN;
  hk_block_t *last;
  if (!is_known || sum >= countdown->until || hk_free_list_count(bin->free, room, &last) == room) return false;
  size_t longer = countdown->interval > room / 2 ? 2u * countdown->interval : room;
  size_t most = hk_smaller(INTERVAL_MAX, INTERVAL_MAX_BYTES / hk_class_bytes(class_index));
  countdown->interval = (uint16_t)hk_smaller(longer, most);
  countdown->start_length = sum;
  bin->countdown = countdown->start = (uint32_t)hk_smaller(countdown->until - sum, countdown->interval);
  return true;
}

/* Acts on the end of a metered bin's countdown: at the sample, or at the end of an interval. */
static void act_on_metered(hk_heap_t *heap, unsigned class_index) {
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  bool is_at_sample = countdown->until == HK_COUNTDOWN_UNKNOWN || countdown->start_length == countdown->until;
  if (is_at_sample && set_free_aside(heap, class_index)) return;
  if (!is_at_sample && extend_interval(heap, class_index)) return;
  if (unmeter(heap, class_index)) countdown->interval = 0;
  hk_mid_meter(heap, class_index);
}

void hk_mid_note_loss(hk_heap_t *heap, unsigned class_index) {
  if (hk_mid_is_metered(heap, class_index)) {
    heap->countdowns->of[class_index].start_length = HK_COUNTDOWN_UNKNOWN;
  } else {
    heap->bin[class_index].countdown = heap->state[class_index].room;
  }
}

/* ---- Full and empty lists. */

void hk_mid_spill(hk_heap_t *heap, unsigned class_index, unsigned keep) {
  bool is_metered = hk_mid_is_metered(heap, class_index);
  hk_mid_unmeter(heap, class_index);
  spill(heap, class_index, keep);
  if (is_metered) hk_mid_meter(heap, class_index);
  hk_heap_check_class(heap, class_index);
}

void hk_mid_countdown_over(hk_heap_t *heap, unsigned class_index) {
  if (hk_mid_is_metered(heap, class_index)) {
    act_on_metered(heap, class_index);
  } else {
    spill_full(heap, class_index);
  }
  hk_heap_check_class(heap, class_index);
}

/* Moves up to `most` blocks from the span's list to the front of the bin's. Returns how many. */
static unsigned take_from_span(hk_heap_t *heap, hk_slab_t *span, unsigned most) {
  hk_free_list_t *bin = &heap->bin[span->class_index];
  hk_block_t *first = span->own.free;
  hk_block_t *last;
  unsigned count = hk_free_list_count(first, most, &last);
  hk_block_t *rest = hk_free_list_rest(first, last);
  bool is_lost = count < most && rest != HK_LIST_END; /* the rest of the list cannot be reached */
  if (is_lost) {
    heap->damaged = rest;
    rest = HK_LIST_END;
  }
  span->own.free = rest;
  /* Lost blocks count as in use for good. */
  span->live = is_lost ? hk_span_carved(span) : (uint16_t)(span->live + count);
  if (rest == HK_LIST_END) hk_list_remove(&span->link);
  if (last == NULL) return 0;
  hk_block_link(last, bin->free);
  bin->free = first;
  bin->countdown -= count;
  return count;
}

static unsigned grown_room(const hk_bin_state_t *state, unsigned class_index) {
  bool fits = state->spilled <= hk_class_room(class_index, HK_ROOM_AT_ONCE_BYTES);
  unsigned wanted = state->room + (fits ? state->spilled : state->room);
  unsigned most = hk_class_room(class_index, HK_ROOM_MAX_BYTES);
  return wanted < most ? wanted : most;
}

static void adapt_room(hk_bin_state_t *state, unsigned class_index) {
  if (state->spilled == 0) return;
  state->room = (uint16_t)grown_room(state, class_index);
  state->spilled = 0;
}

bool hk_mid_fill(hk_heap_t *heap, unsigned class_index) {
  hk_bin_state_t *state = &heap->state[class_index];
  adapt_room(state, class_index);
  /* The list is empty; its count may be wrong after damage or a fork. */
  heap->bin[class_index].countdown = state->room;
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
    bool has_aside = hk_mid_is_metered(heap, i) && aside_of(heap, i)->free != HK_LIST_END;
    if (has_aside || heap->bin[i].free != HK_LIST_END) hk_mid_spill(heap, i, 0);
  }
}
