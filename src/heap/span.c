/* heap/span.c - L4. See span.h. */
#include "heap/span.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "base/panic.h"
#include "heap/heap_check.h"
#include "heap/named.h"
#include "heap/spare.h"
#include "os/os.h"
#include "space/class_slabs.h"
#include "space/live_bit.h"
#include "space/purge.h"
#include "space/shortage.h"
#include "space/superslab.h"

/* Chosen: a full span is worth allocating from again when an eighth of its blocks is free, at most 64.
 * Then enough blocks share the slow path that takes the span up, and little memory waits. */
#define WORTH_SHARE 8
#define WORTH_MAX_BLOCKS 64

static bool is_active(const hk_heap_t *heap, const hk_slab_t *span) {
  return hk_load_relaxed(&heap->state[span->class_index].active) == span;
}

/* Reads descriptors alone: the span may end at this moment, and its superslab too. */
bool hk_span_has_block(const hk_slab_t *span, const void *address) {
  uintptr_t slabs = ((uintptr_t)hk_slab_of(address) - (uintptr_t)span) / sizeof *span;
  if (slabs >= HK_SPAN_MAX_SLABS || (uintptr_t)address >> HK_ADDRESS_BITS != 0) return false;
  uint16_t offset = (uint16_t)(uintptr_t)address;
  hk_starts_t starts = span->starts;
  if (!hk_starts_has(&starts, offset)) return false;
  return slabs * hk_starts_divide(&starts, HK_SLAB_BYTES) + hk_starts_divide(&starts, offset) < hk_span_carved(span);
}

/* ---- Acquire and release. */

static hk_part_kind_t part_kind_of(const hk_heap_t *heap) {
  hk_named_t *named = hk_heap_named(heap);
  if (HK_LIKELY(named == NULL)) return hk_part_of_none;
  return hk_named_kind(named) == hk_named_heap ? hk_part_of_heap : hk_part_of_tag;
}

static void describe(hk_heap_t *heap, hk_slab_t *span, unsigned class_index) {
  hk_starts_t starts = hk_class_starts(class_index);
  uint8_t part_kind = (uint8_t)part_kind_of(heap);
  span->own = (hk_free_list_t){.free = HK_LIST_END};
  span->live = 0;
  span->has_moved = false;
  hk_store_relaxed(&span->carved, 0);
  for (unsigned i = 0; i < span->slab_count; i++) {
    hk_slab_t *slab = &span[i];
    slab->free_list = hk_class_is_mid(class_index) ? hk_heap_effective_list(heap, class_index) : &span->own;
    slab->starts = starts;
    slab->part_kind = part_kind;
    slab->head = span;
    slab->class_index = (uint8_t)class_index;
    slab->block_bytes = (uint32_t)hk_class_bytes(class_index);
    if (HK_HARDENED) hk_live_bit_clear_slab(hk_slab_start(slab));
    hk_store_relaxed(&slab->owner, heap);
    hk_slab_set_state(slab, hk_slab_small);
  }
}

/* Chosen: a short span has this share of the blocks that the class is about to take. A class with many blocks needs
 * fewer mappings then, and one with few wastes little. */
#define SHORT_SHARE 4

static size_t short_bytes(const hk_heap_t *heap, unsigned class_index) {
  const hk_bin_state_t *state = &heap->state[class_index];
  size_t blocks = (hk_class_is_mid(class_index) ? state->room : state->carve_count) / SHORT_SHARE;
  size_t page_bytes = hk_os_page_size(), least_bytes = hk_class_short_bytes(class_index, page_bytes);
  size_t bytes = hk_align_up(blocks * hk_class_bytes(class_index), page_bytes);
  return hk_smaller(hk_larger(bytes, least_bytes), HK_SLAB_BYTES);
}

/* Returns a short span, if need be of the addresses of free slabs. */
static HK_COLD hk_slab_t *acquire_short(hk_heap_t *heap, unsigned class_index) {
  hk_slab_t *span = hk_short_span_acquire(short_bytes(heap, class_index));
  if (span != NULL) return span;
  hk_spare_flush(heap);
  (void)hk_purge_unmap_free();
  return hk_short_span_acquire(hk_class_short_bytes(class_index, hk_os_page_size()));
}

static hk_slab_t *acquire_whole(hk_heap_t *heap, unsigned class_index) {
  unsigned slab_count = hk_class_span_slabs(class_index);
  hk_slab_t *span = hk_spare_acquire(heap, slab_count);
  while (span == NULL && slab_count > 1) span = hk_spare_acquire(heap, slab_count /= 2); /* near a limit on addresses */
  if (span != NULL) hk_store_relaxed(&span->bytes, HK_SLAB_BYTES);
  return span;
}

/* acquire_whole for a hardened build. Slabs that had blocks of the class come first, then other ones, then fewer slabs
 * that had blocks of the class. */
static hk_slab_t *acquire_whole_of_class(hk_heap_t *heap, unsigned class_index) {
  unsigned slab_count = hk_class_span_slabs(class_index);
  hk_slab_t *span = hk_class_slabs_take(class_index, slab_count);
  if (span != NULL) return span;
  span = acquire_whole(heap, class_index);
  if (span != NULL) span->is_wiped = span->is_zero;
  while (span == NULL && slab_count > 1) span = hk_class_slabs_take(class_index, slab_count /= 2);
  return span;
}

HK_INLINE void give_slabs_back(hk_heap_t *heap, hk_slab_t *span, unsigned class_index) {
  if (HK_UNLIKELY(hk_short_span_is(span))) {
    hk_short_span_release(span);
  } else if (HK_HARDENED) {
    hk_class_slabs_put(span, class_index);
  } else {
    hk_spare_put_span(heap, span);
  }
}

/* Charges a new span to the named heap or tag. When its limit refuses, gives the slabs back and returns false. */
static bool charge(hk_heap_t *heap, hk_slab_t *span, unsigned class_index) {
  hk_named_t *named = hk_heap_named(heap);
  if (HK_LIKELY(named == NULL)) return true;
  if (hk_named_charge(named, span->slab_count * HK_SLAB_BYTES)) {
    hk_list_push_front(&heap->part.spans, &span->part_link);
    return true;
  }
  give_slabs_back(heap, span, class_index);
  return false;
}

/* Uncharges `slab_count` slabs of a span, or all of it, which then leaves the part's list. */
static HK_NOINLINE void uncharge_named(hk_named_t *named, hk_slab_t *span, unsigned slab_count) {
  hk_named_uncharge(named, slab_count * HK_SLAB_BYTES);
  if (slab_count == span->slab_count) hk_list_remove(&span->part_link);
}

HK_INLINE void uncharge(hk_heap_t *heap, hk_slab_t *span, unsigned slab_count) {
  hk_named_t *named = hk_heap_named(heap);
  if (HK_UNLIKELY(named != NULL)) uncharge_named(named, span, slab_count);
}

hk_slab_t *hk_span_acquire(hk_heap_t *heap, unsigned class_index) {
  hk_slab_t *span = hk_shortage_is_on() ? acquire_short(heap, class_index) : NULL;
  if (HK_HARDENED && span != NULL) span->is_wiped = span->is_zero;
  if (HK_LIKELY(span == NULL))
    span = HK_HARDENED ? acquire_whole_of_class(heap, class_index) : acquire_whole(heap, class_index);
  if (span == NULL || !charge(heap, span, class_index)) return NULL;
  hk_stat_bump(&heap->stat, hk_stat_slab_acquire, 1);
  hk_bump_relaxed(&heap->span_slabs, span->slab_count);
  heap->is_short = false;
  describe(heap, span, class_index);
  return span;
}

void hk_span_release(hk_heap_t *heap, hk_slab_t *span) {
  hk_stat_bump(&heap->stat, hk_stat_slab_release, 1);
  hk_bump_relaxed(&heap->span_slabs, -(uint32_t)span->slab_count);
  uncharge(heap, span, span->slab_count);
  if (HK_HARDENED && hk_span_carved(span) == hk_span_capacity(span)) span->is_wiped = true;
  hk_slab_retire(span, span->slab_count);
  give_slabs_back(heap, span, span->class_index);
}

/* Returns the slabs behind the first `kept` ones to their superslab. Returns whether there are any. */
static bool release_end(hk_heap_t *heap, hk_slab_t *span, unsigned kept) {
  unsigned released = span->slab_count - kept;
  if (released == 0 || HK_HARDENED) return false; /* a hardened build's slabs stay with their class */
  HK_ASSERT(!hk_short_span_is(span), "the last slab of a short span has a block");
  uncharge(heap, span, released);
  span->slab_count = (uint8_t)kept;
  hk_bump_relaxed(&heap->span_slabs, -(uint32_t)released);
  hk_slab_retire(span + kept, released);
  hk_superslab_release(span + kept, released);
  return true;
}

/* ---- Counting. */

static unsigned worth_of(unsigned capacity) {
  unsigned worth = capacity / WORTH_SHARE;
  if (worth > WORTH_MAX_BLOCKS) worth = WORTH_MAX_BLOCKS;
  return worth > 0 ? worth : 1;
}

static void start_countdown(hk_slab_t *span, unsigned countdown) { span->own.countdown = span->own.start = countdown; }

void hk_span_unlink(hk_slab_t *span) {
  span->live = (uint16_t)(span->live - (span->own.start - span->own.countdown));
  hk_list_remove(&span->link);
}

/* Takes a tiny span that has lost its room, and has no free block, out of the list: a full span is in none, and the
 * purge thread may release it through its link (purge_drain.h). */
static void unlink_if_full(hk_slab_t *span) {
  if (hk_class_is_mid(span->class_index) || !hk_list_is_linked(&span->link)) return;
  unsigned capacity = hk_span_capacity(span);
  if (span->own.free != HK_LIST_END || hk_span_carved(span) < capacity) return;
  hk_span_unlink(span);
  start_countdown(span, worth_of(capacity));
}

hk_shorten_t hk_span_shorten(hk_heap_t *heap, hk_slab_t *span) {
  unsigned carved = hk_span_carved(span), per_slab = hk_class_blocks_per_slab(span->class_index);
  if (carved == 0) return hk_shorten_nothing;
  bool has_released = release_end(heap, span, (carved + per_slab - 1) / per_slab);
  unsigned before_last = (span->slab_count - 1u) * per_slab; /* a hardened build's last slab may have no block */
  size_t used_bytes = carved > before_last ? (carved - before_last) * hk_class_bytes(span->class_index) : 1;
  hk_shorten_t result = hk_short_span_shorten(span, hk_align_up(used_bytes, hk_os_page_size()));
  unlink_if_full(span);
  return result == hk_shorten_nothing && has_released ? hk_shorten_done : result;
}

/* Releases a span that is empty, and lists one that is worth allocating from again. Requires that the blocks that came
 * back were subtracted from `live`. */
static void settle(hk_heap_t *heap, hk_slab_t *span) {
  if (span->live == 0) {
    if (hk_list_is_linked(&span->link)) hk_list_remove(&span->link);
    hk_span_release(heap, span);
    return;
  }
  if (!hk_list_is_linked(&span->link)) hk_list_push_front(&heap->state[span->class_index].partial, &span->link);
  start_countdown(span, span->live);
}

/* Closes an open bin of a sampled heap when its countdown is over: the bin's list now ends at the next sample
 * (sample_countdown.h). In a heap that is drained without its thread, the bin's blocks go to the shadow list, so that
 * the span is given back when it is empty. */
static void close_bin(hk_heap_t *heap, unsigned class_index) {
  hk_free_list_t *bin = &heap->bin[class_index];
  hk_free_list_t *list = &heap->countdowns->shadow[class_index];
  *list = (hk_free_list_t){.free = HK_LIST_END, .countdown = HK_COUNTDOWN_ACTIVE};
  hk_span_set_open(heap, class_index, false);
  uint32_t length = 0;
  if (heap->is_visited) {
    list->free = bin->free;
    bin->free = HK_LIST_END;
    length = hk_free_list_length(list->free);
  }
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (countdown->start_length != HK_COUNTDOWN_UNKNOWN)
    countdown->drawn += (uint64_t)countdown->start_length + bin->start - countdown->until;
  countdown->until = length; /* what the bin has counts as given */
  hk_heap_note_length(heap, class_index, length);
}

static void active_countdown_over(hk_heap_t *heap, unsigned class_index) {
  hk_heap_effective_list(heap, class_index)->countdown = HK_COUNTDOWN_ACTIVE;
  hk_class_set_add(&heap->idle_bins.candidates, class_index); /* as many blocks came back as were in use */
  if (!hk_heap_is_sampled(heap)) return;
  if (hk_load_relaxed(&heap->countdowns->of[class_index].is_open)) {
    close_bin(heap, class_index);
  } else {
    hk_heap_note_length(heap, class_index, HK_COUNTDOWN_UNKNOWN);
  }
}

void hk_span_countdown_over(hk_heap_t *heap, hk_slab_t *slab) {
  hk_slab_t *span = slab->head;
  if (is_active(heap, span)) {
    active_countdown_over(heap, span->class_index);
    hk_heap_check_class(heap, span->class_index);
    return;
  }
  HK_ASSERT(span->live >= span->own.start, "no more blocks come back than went out");
  span->live = (uint16_t)(span->live - span->own.start);
  settle(heap, span);
  hk_heap_check_span(heap, span);
}

/* ---- Active and not. */

void hk_span_set_free_lists(hk_slab_t *span, hk_free_list_t *free_list) {
  for (unsigned i = 0; i < span->slab_count; i++) span[i].free_list = free_list;
}

void hk_span_set_open(hk_heap_t *heap, unsigned class_index, bool is_open) {
  hk_store_relaxed(&heap->countdowns->of[class_index].is_open, is_open);
  hk_slab_t *span = hk_load_relaxed(&heap->state[class_index].active);
  if (span != NULL) hk_span_set_free_lists(span, hk_heap_effective_list(heap, class_index));
}

bool hk_span_active_has_room(const hk_heap_t *heap, unsigned class_index) {
  const hk_slab_t *span = hk_load_relaxed(&heap->state[class_index].active);
  if (span == NULL) return false;
  return hk_span_carved(span) < hk_span_capacity(span) ||
         hk_heap_effective_list(heap, class_index)->free != HK_LIST_END;
}

void hk_span_activate(hk_heap_t *heap, hk_slab_t *span) {
  hk_free_list_t *bin = hk_heap_effective_list(heap, span->class_index);
  HK_ASSERT(bin->free == HK_LIST_END, "the bin's blocks would be lost");
  bin->free = span->own.free;
  bin->countdown = HK_COUNTDOWN_ACTIVE;
  span->own.free = HK_LIST_END;
  hk_heap_note_length(heap, span->class_index, hk_span_carved(span) - span->live);
  hk_span_set_free_lists(span, bin);
  hk_store_release(&heap->state[span->class_index].active, span);
}

void hk_span_put_to_rest(hk_heap_t *heap, unsigned class_index, unsigned list_length) {
  hk_bin_state_t *state = &heap->state[class_index];
  hk_slab_t *span = hk_load_relaxed(&state->active);
  hk_free_list_t *list = hk_heap_effective_list(heap, class_index);
  hk_heap_note_given(heap, class_index, list_length);
  span->own.free = list->free;
  list->free = HK_LIST_END;
  hk_heap_note_length(heap, class_index, 0);
  hk_span_set_free_lists(span, &span->own);
  span->live = (uint16_t)(hk_span_carved(span) - list_length);
  unsigned capacity = hk_span_capacity(span);
  if (span->live < capacity) {
    hk_list_push_back(&state->partial, &span->link); /* last: memory that was used before goes first */
    start_countdown(span, span->live);
  } else {
    start_countdown(span, worth_of(capacity));
  }
  hk_store_release(&state->active, NULL); /* last: from now on the span may be drained */
}

void hk_span_deactivate(hk_heap_t *heap, unsigned class_index) {
  HK_ASSERT(hk_heap_effective_list(heap, class_index)->free == HK_LIST_END,
            "a span that still gives blocks stays active");
  hk_span_put_to_rest(heap, class_index, 0);
}
