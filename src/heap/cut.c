/* heap/cut.c - L4. See cut.h. */
#include "heap/cut.h"

#include "base/arithmetic.h"
#include "heap/heap_check.h"
#include "heap/mid.h"
#include "heap/remote.h"
#include "heap/span.h"
#include "os/os.h"
#include "space/meta.h"
#include "space/region_map.h"
#include "space/superslab.h"

/* ---- Small blocks. */

static uint64_t rate_at(const hk_heap_t *heap, unsigned shift) { return hk_cut_rate(heap) << shift; }

static void draw(hk_heap_t *heap, unsigned class_index) {
  hk_cuts_t *cuts = heap->cuts;
  hk_cut_t *cut = &cuts->of[class_index];
  if (hk_cut_rate(heap) >= HK_SAMPLING_RATE_PACED) hk_sampling_keep_pace(&cuts->pace, hk_os_coarse_ms());
  if (cut->shift != cuts->pace.shift) cut->weight_q16 = 0;
  cut->shift = cuts->pace.shift;
  uint64_t distance = hk_sampling_distance(hk_sampling_random(&cuts->random), rate_at(heap, cut->shift));
  uint64_t blocks = distance / hk_class_bytes(class_index);
  cut->until = (uint32_t)hk_smaller(blocks, HK_COUNTDOWN_ACTIVE); /* a countdown set to it is in the counting range */
}

static uint64_t weight_of(hk_heap_t *heap, unsigned class_index) {
  hk_cut_t *cut = &heap->cuts->of[class_index];
  if (HK_UNLIKELY(cut->weight_q16 == 0)) {
    cut->weight_q16 = hk_sampling_weight(hk_class_bytes(class_index), rate_at(heap, cut->shift));
  }
  return cut->weight_q16;
}

HK_INLINE bool is_open(const hk_heap_t *heap, unsigned class_index) {
  return hk_load_relaxed(&heap->cuts->of[class_index].is_open);
}

/* How long a list of home that loses none is, and what an open bin gave when it runs out; HK_CUT_UNKNOWN where nobody
 * has counted. */
HK_INLINE uint32_t length_with_frees(const hk_heap_t *heap, unsigned class_index) {
  const hk_sink_t *home = hk_heap_home(heap, class_index);
  if (hk_class_is_mid(class_index)) return heap->state[class_index].room - home->countdown;
  uint32_t at_mark = heap->cuts->of[class_index].at_mark;
  return at_mark == HK_CUT_UNKNOWN ? HK_CUT_UNKNOWN : at_mark + (home->mark - home->countdown);
}

HK_INLINE void count_given(hk_heap_t *heap, unsigned class_index) {
  if (!is_open(heap, class_index)) return;
  uint32_t given = length_with_frees(heap, class_index);
  uint32_t *until = &heap->cuts->of[class_index].until;
  if (given != HK_CUT_UNKNOWN) *until -= (uint32_t)hk_smaller(given, *until);
  hk_heap_note_length(heap, class_index, 0);
}

/* A mid class's home counts that itself. An open bin that counts may take one more back. */
HK_INLINE void skip(hk_heap_t *heap, unsigned class_index) {
  if (hk_class_is_mid(class_index)) return;
  hk_sink_t *home = hk_heap_home(heap, class_index);
  if (!is_open(heap, class_index) || !hk_bin_count_up(home)) home->mark--;
}

HK_INLINE void count_one(hk_heap_t *heap, unsigned class_index) {
  skip(heap, class_index);
  uint32_t *until = &heap->cuts->of[class_index].until;
  if (HK_UNLIKELY(*until == HK_CUT_UNKNOWN)) draw(heap, class_index);
  if (*until > 0) --*until;
}

void hk_cut_count_given(hk_heap_t *heap, unsigned class_index) { count_given(heap, class_index); }

bool hk_cut_is_due(hk_heap_t *heap, unsigned class_index, uint64_t *weight_q16) {
  count_given(heap, class_index);
  uint32_t *until = &heap->cuts->of[class_index].until;
  if (HK_UNLIKELY(*until == HK_CUT_UNKNOWN)) draw(heap, class_index);
  if (HK_LIKELY(*until > 0)) return false;
  *weight_q16 = weight_of(heap, class_index);
  draw(heap, class_index);
  return true;
}

void hk_cut_skip(hk_heap_t *heap, unsigned class_index) { skip(heap, class_index); }

void hk_cut_count(hk_heap_t *heap, unsigned class_index) { count_one(heap, class_index); }

static uint32_t count_up_to(const hk_block_t *list, uint32_t most) {
  uint32_t count = 0;
  for (; count < most && list != HK_LIST_END && hk_block_is_intact(list); list = list->next) count++;
  return count;
}

/* Moves up to `most` blocks from home's list to the bin. What is damaged goes with the others: who pops it says so. */
static void cut_at(hk_sink_t *home, hk_sink_t *bin, uint32_t most) {
  HK_ASSERT(bin->free == HK_LIST_END, "what the bin had would be lost");
  bin->free = most > 0 ? home->free : HK_LIST_END;
  hk_block_t *last = home->free;
  for (uint32_t count = 1; count < most && hk_block_is_intact(last); count++) last = last->next;
  if (most == 0) return;
  home->free = hk_block_is_intact(last) ? last->next : HK_LIST_END;
  if (hk_block_is_intact(last)) hk_block_link(last, HK_LIST_END);
}

static void cut_all(hk_sink_t *home, hk_sink_t *bin) {
  bin->free = home->free;
  home->free = HK_LIST_END;
}

static void open_tiny(hk_heap_t *heap, unsigned class_index, uint32_t length) {
  hk_sink_t *bin = &heap->bin[class_index];
  if (!is_open(heap, class_index)) {
    cut_all(hk_heap_home(heap, class_index), bin);
    hk_span_set_open(heap, class_index, true);
  }
  bin->countdown = heap->cuts->of[class_index].until - length;
  hk_heap_note_length(heap, class_index, length);
}

/* From an open bin all goes home first. */
static void close_tiny(hk_heap_t *heap, unsigned class_index) {
  hk_sink_t *bin = &heap->bin[class_index];
  hk_sink_t *home = &heap->cuts->home[class_index];
  if (is_open(heap, class_index)) {
    cut_all(bin, home);
    home->countdown = hk_bin_countdown_of_list(bin);
    hk_span_set_open(heap, class_index, false);
  }
  bin->countdown = hk_bin_countdown_of_list(home);
}

static void close_at(hk_heap_t *heap, unsigned class_index, uint32_t left) {
  uint32_t *until = &heap->cuts->of[class_index].until;
  close_tiny(heap, class_index);
  cut_at(&heap->cuts->home[class_index], &heap->bin[class_index], *until);
  hk_heap_note_length(heap, class_index, left);
  *until = 0;
}

/* A list that nobody has counted is of one span. Where the next sampled block is beyond all of the span's blocks, those
 * that the list has not count as given: what was drawn is behind them, and as far from there as it was from here.
 * Otherwise the list is counted; it may end before, and then, as the other case has taken what lies further away, what
 * comes after its end is drawn anew. */
static void next_uncounted_piece(hk_heap_t *heap, unsigned class_index) {
  uint32_t *until = &heap->cuts->of[class_index].until;
  hk_slab_t *span = hk_load_relaxed(&heap->state[class_index].active);
  uint32_t most = span != NULL ? hk_load_relaxed(&span->carved) : HK_CUT_UNKNOWN;
  if (most < *until) {
    open_tiny(heap, class_index, most);
    return;
  }
  uint32_t length = count_up_to(hk_heap_home(heap, class_index)->free, *until);
  if (length == *until) {
    close_at(heap, class_index, HK_CUT_UNKNOWN);
    return;
  }
  draw(heap, class_index);
  *until = (uint32_t)hk_smaller((uint64_t)*until + length + 1, HK_COUNTDOWN_ACTIVE);
  open_tiny(heap, class_index, length);
}

static void next_tiny_piece(hk_heap_t *heap, unsigned class_index) {
  uint32_t length = length_with_frees(heap, class_index), until = heap->cuts->of[class_index].until;
  if (length == HK_CUT_UNKNOWN) {
    next_uncounted_piece(heap, class_index);
  } else if (length < until) {
    open_tiny(heap, class_index, length);
  } else {
    close_at(heap, class_index, length - until);
  }
}

static void next_mid_piece(hk_heap_t *heap, unsigned class_index) {
  uint32_t *until = &heap->cuts->of[class_index].until;
  hk_sink_t *home = &heap->cuts->home[class_index];
  hk_sink_t *bin = &heap->bin[class_index];
  bin->mark = home->mark;
  bin->countdown = HK_COUNTDOWN_ACTIVE; /* pops count it up, and nothing counts it down */
  uint32_t length = length_with_frees(heap, class_index);
  if (length <= *until) {
    cut_all(home, bin);
  } else {
    length = *until;
    cut_at(home, bin, length);
  }
  home->countdown += length;
  *until -= length;
}

void hk_cut_next_piece_uncounted(hk_heap_t *heap, unsigned class_index) {
  if (hk_class_is_mid(class_index)) {
    next_mid_piece(heap, class_index);
  } else {
    next_tiny_piece(heap, class_index);
  }
  hk_heap_check_class(heap, class_index);
}

void hk_cut_next_piece(hk_heap_t *heap, unsigned class_index) {
  count_one(heap, class_index);
  hk_cut_next_piece_uncounted(heap, class_index);
}

/* ---- Back home. */

/* Only in a child of fork another heap can have its span by now. */
static void give_home(hk_heap_t *heap, hk_block_t *block) {
  hk_slab_t *slab = hk_slab_of(block);
  if (hk_load_relaxed(&slab->owner) != heap) {
    hk_remote_free(heap, slab, block);
  } else if (hk_sink_push(slab->sink, block)) {
    hk_bin_settle(heap, slab);
  }
}

static void recall_piece(hk_heap_t *heap, unsigned class_index) {
  uint32_t *until = &heap->cuts->of[class_index].until;
  hk_block_t *block = heap->bin[class_index].free;
  heap->bin[class_index].free = HK_LIST_END;
  while (block != HK_LIST_END) {
    if (!hk_block_is_intact(block)) {
      heap->damaged = block;
      break;
    }
    hk_block_t *next = block->next;
    give_home(heap, block);
    if (*until < HK_COUNTDOWN_ACTIVE) ++*until;
    block = next;
  }
}

void hk_cut_recall(hk_heap_t *heap) {
  if (!hk_heap_is_sampled(heap)) return;
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    if (heap->bin[i].free != HK_LIST_END && !is_open(heap, i)) recall_piece(heap, i);
  }
}

/* Nobody counts how many its list has left. */
static void close_uncounted(hk_heap_t *heap, unsigned class_index) {
  close_tiny(heap, class_index);
  hk_heap_note_length(heap, class_index, HK_CUT_UNKNOWN);
  heap->cuts->of[class_index].until = HK_CUT_UNKNOWN;
}

static void close_all(hk_heap_t *heap) {
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    if (is_open(heap, i)) close_uncounted(heap, i);
  }
}

/* ---- Sampled or not. */

/* Of the heap's spans those of a mid class: their sinks lead to a bin or its home for good. */
static void set_mid_sinks(hk_slab_t *slabs, void *context) {
  hk_heap_t *heap = context;
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    if (hk_load_relaxed(&slabs[i].owner) != heap || !hk_class_is_mid(slabs[i].class_index)) continue;
    slabs[i].sink = hk_heap_home(heap, slabs[i].class_index);
  }
}

static void set_tiny_sinks(hk_heap_t *heap) {
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    hk_slab_t *span = hk_load_relaxed(&heap->state[i].active);
    if (span != NULL) hk_span_set_sinks(span, hk_heap_home(heap, i));
  }
}

/* Every list and every sink goes from one array to the other. False when the purge thread is at the spans. */
static bool move_home(hk_heap_t *heap, hk_sink_t *to) {
  if (!hk_heap_claim_spans(heap)) return false;
  hk_sink_t *from = hk_load_relaxed(&heap->home);
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    to[i] = from[i];
    from[i].free = HK_LIST_END;
    from[i].countdown = HK_COUNTDOWN_ACTIVE;
  }
  hk_store_relaxed(&heap->home, to); /* no bin is open */
  set_tiny_sinks(heap);
  if (hk_load_relaxed(&heap->span_slabs) > 0) hk_superslab_visit(set_mid_sinks, heap);
  hk_heap_unclaim_spans(heap);
  return true;
}

/* Each heap has random numbers of its own, the same ones each time for the same secret. */
static _Atomic(uint64_t) sampled_heaps;

static hk_cuts_t *cuts_of(hk_heap_t *heap) {
  if (heap->cuts != NULL) return heap->cuts;
  heap->cuts = hk_meta_alloc(sizeof(hk_cuts_t));
  if (heap->cuts == NULL) return NULL;
  heap->cuts->home[0].free = HK_LIST_END;
  uint64_t number = hk_add_relaxed(&sampled_heaps, 1);
  heap->cuts->random = hk_os_process_secret() + (number << 32);
  return heap->cuts;
}

static void draw_large(hk_heap_t *heap) {
  hk_cuts_t *cuts = heap->cuts;
  cuts->large_until = hk_sampling_distance(hk_sampling_random(&cuts->random), hk_cut_rate(heap));
}

static bool begin(hk_heap_t *heap, uint64_t state) {
  hk_cuts_t *cuts = cuts_of(heap);
  if (cuts == NULL || !move_home(heap, cuts->home)) return false;
  cuts->pace = (hk_sampling_pace_t){0};
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    cuts->of[i] = (hk_cut_t){.until = HK_CUT_UNKNOWN, .at_mark = HK_CUT_UNKNOWN};
  }
  heap->cut_state = state;
  draw_large(heap);
  return true;
}

static bool end(hk_heap_t *heap) {
  close_all(heap);
  hk_cut_recall(heap);
  return move_home(heap, heap->bin);
}

void hk_cut_follow_slow(hk_heap_t *heap) {
  uint64_t state = hk_load_relaxed(&hk_sampling_state);
  if (hk_heap_is_sampled(heap) && !end(heap)) return;
  if (hk_sampling_rate_of(state) == 0) {
    heap->cut_state = state;
  } else {
    (void)begin(heap, state);
  }
  hk_heap_check(heap);
}

/* ---- Larger blocks. */

bool hk_cut_large_is_due(hk_heap_t *heap, size_t bytes) {
  hk_cuts_t *cuts = heap->cuts;
  if (bytes <= cuts->large_until) {
    cuts->large_until -= bytes;
    return false;
  }
  draw_large(heap);
  return true;
}
