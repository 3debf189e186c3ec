/* heap/sample_countdown.c - L4. See sample_countdown.h. */
#include "heap/sample_countdown.h"

#include "base/arithmetic.h"
#include "base/random.h"
#include "heap/heap_check.h"
#include "heap/mid.h"
#include "heap/named.h"
#include "heap/remote.h"
#include "heap/span.h"
#include "os/os.h"
#include "space/meta.h"
#include "space/region_map.h"

/* ---- Small blocks. */

/* Returns whether the heap is sampled only to count its allocations: no block is chosen. */
static bool only_counts(const hk_heap_t *heap) {
  return hk_sample_countdown_rate(heap) == 0 && heap->countdowns->guard_rate == 0;
}

static bool counts_allocations(const hk_heap_t *heap) {
  hk_named_t *named = hk_heap_named(heap);
  return HK_UNLIKELY(named != NULL) && hk_named_kind(named) == hk_named_tag;
}

static uint64_t rate_at(const hk_heap_t *heap, unsigned shift) { return hk_sample_countdown_rate(heap) << shift; }

static hk_sampling_points_t points_of(const hk_heap_t *heap, unsigned class_index) {
  uint64_t rate = rate_at(heap, heap->countdowns->of[class_index].shift);
  return hk_sampling_points(hk_class_bytes(class_index), rate, heap->countdowns->guard_rate);
}

/* Returns the number of blocks up to the next point of the profile, or with guards the next block that is chosen. */
static uint64_t draw_blocks(hk_heap_t *heap, unsigned class_index) {
  if (only_counts(heap)) return HK_COUNTDOWN_ACTIVE;
  uint64_t random = hk_random(&heap->countdowns->random);
  if (heap->countdowns->guard_rate != 0) return hk_sampling_blocks_before(random, points_of(heap, class_index));
  uint64_t rate = rate_at(heap, heap->countdowns->of[class_index].shift);
  return hk_sampling_distance(random, rate) / hk_class_bytes(class_index);
}

static void draw(hk_heap_t *heap, unsigned class_index) {
  hk_sample_countdowns_t *countdowns = heap->countdowns;
  hk_sample_countdown_t *countdown = &countdowns->of[class_index];
  if (hk_sample_countdown_rate(heap) >= HK_SAMPLING_RATE_PACED)
    hk_sampling_keep_pace(&countdowns->pace, hk_os_coarse_ms());
  if (countdown->shift != countdowns->pace.shift) countdown->weight_q16 = 0;
  countdown->shift = countdowns->pace.shift;
  uint64_t blocks = draw_blocks(heap, class_index);
  /* bounded, so that an open bin's countdown never looks fresh */
  hk_heap_set_until(countdown, (uint32_t)hk_smaller(blocks, HK_COUNTDOWN_ACTIVE));
}

static uint64_t weight_of(hk_heap_t *heap, unsigned class_index) {
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (HK_UNLIKELY(countdown->weight_q16 == 0)) {
    countdown->weight_q16 = hk_sampling_weight(hk_class_bytes(class_index), rate_at(heap, countdown->shift));
  }
  return countdown->weight_q16;
}

/* Returns the length of an effective free list that has lost no block since it was counted, or, for an open bin that
 * has run out, how many blocks it gave. Returns HK_COUNTDOWN_UNKNOWN where these were not counted. */
static uint32_t length_with_frees(const hk_heap_t *heap, unsigned class_index) {
  const hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (countdown->start_length == HK_COUNTDOWN_UNKNOWN) return HK_COUNTDOWN_UNKNOWN;
  return hk_heap_list_sum(countdown, hk_heap_effective_list(heap, class_index));
}

static hk_sample_choice_t choose(hk_heap_t *heap, unsigned class_index) {
  hk_sampling_purpose_t purpose = {.is_sample = true};
  if (heap->countdowns->guard_rate != 0)
    purpose = hk_sampling_purpose(&heap->countdowns->random, points_of(heap, class_index));
  return (hk_sample_choice_t){.weight_q16 = purpose.is_sample ? weight_of(heap, class_index) : 0,
                              .is_guarded = purpose.is_guarded};
}

bool hk_sample_countdown_is_due_slow(hk_heap_t *heap, unsigned class_index, hk_sample_choice_t *choice) {
  uint32_t *until = &heap->countdowns->of[class_index].until;
  if (*until == HK_COUNTDOWN_UNKNOWN || only_counts(heap)) draw(heap, class_index);
  if (*until > 0) return false;
  *choice = choose(heap, class_index);
  draw(heap, class_index);
  return true;
}

/* Moves up to `most` blocks from the shadow list to the bin. A damaged block moves with the others: the thread that
 * pops it reports it. */
static void split_at(hk_free_list_t *list, hk_free_list_t *bin, uint32_t most) {
  HK_ASSERT(bin->free == HK_LIST_END, "the bin's blocks would be lost");
  bin->free = most > 0 ? list->free : HK_LIST_END;
  hk_block_t *last = list->free;
  for (uint32_t count = 1; count < most && hk_block_is_intact(last); count++) last = hk_block_next(last);
  if (most == 0) return;
  list->free = hk_block_is_intact(last) ? hk_block_next(last) : HK_LIST_END;
  if (hk_block_is_intact(last)) hk_block_link(last, HK_LIST_END);
}

static void move_all(hk_free_list_t *list, hk_free_list_t *bin) {
  bin->free = list->free;
  list->free = HK_LIST_END;
}

static void open_tiny(hk_heap_t *heap, unsigned class_index, uint32_t length) {
  hk_free_list_t *bin = &heap->bin[class_index];
  if (!hk_sample_countdown_is_open(heap, class_index)) {
    move_all(hk_heap_effective_list(heap, class_index), bin);
    hk_span_set_open(heap, class_index, true);
  }
  hk_sample_countdown_set(&heap->countdowns->of[class_index], bin, length);
}

/* Closes the bin. An open one's blocks go to the shadow list. */
static void close_tiny(hk_heap_t *heap, unsigned class_index) {
  hk_free_list_t *bin = &heap->bin[class_index];
  hk_free_list_t *list = &heap->countdowns->shadow[class_index];
  if (hk_sample_countdown_is_open(heap, class_index)) {
    move_all(bin, list);
    list->countdown = hk_bin_countdown_of_list(bin);
    hk_span_set_open(heap, class_index, false);
  }
  bin->countdown = hk_bin_countdown_of_list(list);
}

static void close_at(hk_heap_t *heap, unsigned class_index, uint32_t left) {
  uint32_t *until = &heap->countdowns->of[class_index].until;
  close_tiny(heap, class_index);
  split_at(&heap->countdowns->shadow[class_index], &heap->bin[class_index], *until);
  hk_heap_note_length(heap, class_index, left);
  *until = 0; /* the piece counts as given */
}

/* Handles a list of unknown length, whose blocks are all of one span. If the next sample is beyond all carved blocks of
 * the span, those that are missing from the list count as given: the draw that is left is as good as a new one.
 * Otherwise the list is counted up to the sample. If the list ends before the sample, the sample is drawn anew beyond
 * the list's end. The old draw would have a bias: the first case has taken all draws beyond the carved blocks. */
static void next_uncounted_piece(hk_heap_t *heap, unsigned class_index) {
  uint32_t *until = &heap->countdowns->of[class_index].until;
  hk_slab_t *span = hk_load_relaxed(&heap->state[class_index].active);
  uint32_t most = span != NULL ? hk_span_carved(span) : HK_COUNTDOWN_UNKNOWN;
  if (most < *until && !counts_allocations(heap)) {
    open_tiny(heap, class_index, most);
    return;
  }
  hk_block_t *last;
  uint32_t length = hk_free_list_count(hk_heap_effective_list(heap, class_index)->free, *until, &last);
  if (length == *until) {
    close_at(heap, class_index, HK_COUNTDOWN_UNKNOWN);
    return;
  }
  draw(heap, class_index);
  hk_heap_set_until(&heap->countdowns->of[class_index],
                    (uint32_t)hk_smaller((uint64_t)*until + length + 1, HK_COUNTDOWN_ACTIVE));
  open_tiny(heap, class_index, length);
}

static void next_tiny_piece(hk_heap_t *heap, unsigned class_index) {
  uint32_t length = length_with_frees(heap, class_index), until = heap->countdowns->of[class_index].until;
  if (length == HK_COUNTDOWN_UNKNOWN) {
    next_uncounted_piece(heap, class_index);
  } else if (length < until) {
    open_tiny(heap, class_index, length);
  } else {
    close_at(heap, class_index, length - until);
  }
}

void hk_sample_countdown_next_piece_slow(hk_heap_t *heap, unsigned class_index) {
  next_tiny_piece(heap, class_index);
  hk_heap_check_class(heap, class_index);
}

/* ---- Recall. */

/* Returns a block to the free list of its span. Another heap owns the span only in a child of fork. */
static void return_block(hk_heap_t *heap, hk_block_t *block) {
  hk_slab_t *slab = hk_slab_of(block);
  if (hk_slab_owner(slab) != heap) {
    if (!HK_HARDENED) hk_remote_free(heap, slab, block); /* a hardened build loses a block that no thread freed */
  } else if (hk_free_list_push(slab->free_list, block)) {
    hk_bin_countdown_over(heap, slab);
  }
}

static void recall_piece(hk_heap_t *heap, unsigned class_index) {
  hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  hk_block_t *block = heap->bin[class_index].free;
  heap->bin[class_index].free = HK_LIST_END;
  while (block != HK_LIST_END) {
    if (!hk_block_is_intact(block)) {
      heap->damaged = block;
      break;
    }
    hk_block_t *next = hk_block_next(block);
    return_block(heap, block);
    if (countdown->until < HK_COUNTDOWN_ACTIVE) {
      countdown->until++;
    } else {
      countdown->drawn--;
    }
    block = next;
  }
}

void hk_sample_countdown_recall(hk_heap_t *heap) {
  if (!hk_heap_is_sampled(heap)) return;
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    if (heap->bin[i].free != HK_LIST_END && !hk_sample_countdown_is_open(heap, i)) recall_piece(heap, i);
  }
}

/* Closes an open bin without a count of its list, and drops its draw. */
static void close_uncounted(hk_heap_t *heap, unsigned class_index) {
  if (counts_allocations(heap)) hk_heap_note_given(heap, class_index, hk_free_list_length(heap->bin[class_index].free));
  close_tiny(heap, class_index);
  hk_heap_note_length(heap, class_index, HK_COUNTDOWN_UNKNOWN);
  hk_heap_set_until(&heap->countdowns->of[class_index], HK_COUNTDOWN_UNKNOWN);
}

static void close_all(hk_heap_t *heap) {
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    if (hk_sample_countdown_is_open(heap, i)) close_uncounted(heap, i);
  }
}

/* ---- Sampled or not. */

static void set_tiny_free_lists(hk_heap_t *heap) {
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    hk_slab_t *span = hk_load_relaxed(&heap->state[i].active);
    if (span != NULL) hk_span_set_free_lists(span, hk_heap_effective_list(heap, i));
  }
}

/* Moves the lists of all tiny classes, and the free lists of their active spans, from one array to the other. The purge
 * thread leaves active spans alone. */
static void move_lists(hk_heap_t *heap, hk_free_list_t *to) {
  hk_free_list_t *from = hk_load_relaxed(&heap->effective_lists);
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    to[i] = from[i];
    from[i].free = HK_LIST_END;
    from[i].countdown = HK_COUNTDOWN_ACTIVE;
  }
  hk_store_relaxed(&heap->effective_lists, to); /* no bin of a tiny class is open */
  set_tiny_free_lists(heap);
}

/* The number of sampled heaps. Each heap's random numbers depend on its number here and on the secret. */
static _Atomic(uint64_t) sampled_heaps;

static hk_sample_countdowns_t *countdowns_of(hk_heap_t *heap) {
  if (heap->countdowns != NULL) return heap->countdowns;
  heap->countdowns = hk_meta_alloc(sizeof(hk_sample_countdowns_t));
  if (heap->countdowns == NULL) return NULL;
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    heap->countdowns->shadow[i].free = HK_LIST_END;
    hk_store_relaxed(&heap->countdowns->of[i].is_open, hk_class_is_mid(i));
  }
  uint64_t number = hk_add_relaxed(&sampled_heaps, 1);
  heap->countdowns->random = hk_os_process_secret() + (number << 32);
  return heap->countdowns;
}

static void draw_large_guarded(hk_heap_t *heap) {
  hk_sample_countdowns_t *countdowns = heap->countdowns;
  countdowns->large_guard_until =
      hk_sampling_blocks_before(hk_random(&countdowns->random), hk_sampling_points(0, 0, countdowns->guard_rate));
}

static void draw_large(hk_heap_t *heap) {
  hk_sample_countdowns_t *countdowns = heap->countdowns;
  countdowns->large_until = hk_sampling_distance(hk_random(&countdowns->random), hk_sample_countdown_rate(heap));
}

static void begin_sampling(hk_heap_t *heap, uint64_t state) {
  hk_sample_countdowns_t *countdowns = countdowns_of(heap);
  if (countdowns == NULL) return;
  move_lists(heap, countdowns->shadow);
  countdowns->pace = (hk_sampling_pace_t){0};
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    bool is_mid = hk_class_is_mid(i);
    uint64_t given = countdowns->of[i].drawn - countdowns->of[i].until;
    countdowns->of[i] = (hk_sample_countdown_t){.until = HK_COUNTDOWN_UNKNOWN,
                                                .start_length = HK_COUNTDOWN_UNKNOWN,
                                                .is_open = is_mid,
                                                .drawn = given + HK_COUNTDOWN_UNKNOWN};
    if (is_mid) hk_mid_meter(heap, i);
  }
  heap->sampling_state = state;
  countdowns->guard_rate = (state & HK_SAMPLING_GUARD_BIT) != 0 ? hk_load_relaxed(&hk_sampling_guard_rate) : 0;
  draw_large(heap);
  if (countdowns->guard_rate != 0) draw_large_guarded(heap);
}

static void end_sampling(hk_heap_t *heap) {
  close_all(heap);
  hk_sample_countdown_recall(heap);
  move_lists(heap, heap->bin);
  for (unsigned i = HK_TINY_CLASS_MAX + 1; i < HK_CLASS_COUNT; i++) hk_mid_unmeter(heap, i);
}

void hk_sample_countdown_follow_slow(hk_heap_t *heap) {
  uint64_t state = hk_load_acquire(&hk_sampling_state);
  if (hk_heap_is_sampled(heap)) end_sampling(heap);
  if (!hk_sampling_chooses(state) && !counts_allocations(heap)) {
    heap->sampling_state = state;
  } else {
    begin_sampling(heap, state);
  }
  hk_heap_check(heap);
}

bool hk_sample_countdown_begin_count(hk_heap_t *part) {
  hk_sample_countdowns_t *countdowns = countdowns_of(part);
  if (countdowns == NULL) return false;
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) countdowns->of[i].drawn = countdowns->of[i].until;
  begin_sampling(part, hk_load_acquire(&hk_sampling_state));
  return hk_heap_is_sampled(part);
}

/* ---- Larger blocks. */

bool hk_sample_countdown_large_is_due(hk_heap_t *heap, size_t bytes) {
  hk_sample_countdowns_t *countdowns = heap->countdowns;
  if (bytes <= countdowns->large_until) {
    countdowns->large_until -= bytes;
    return false;
  }
  draw_large(heap);
  return true;
}

bool hk_sample_countdown_large_is_guarded(hk_heap_t *heap) {
  hk_sample_countdowns_t *countdowns = heap->countdowns;
  if (countdowns->guard_rate == 0) return false;
  if (countdowns->large_guard_until > 0) {
    countdowns->large_guard_until--;
    return false;
  }
  draw_large_guarded(heap);
  return true;
}
