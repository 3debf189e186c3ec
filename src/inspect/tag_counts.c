/* inspect/tag_counts.c - L8. See tag_counts.h.
 *
 * The countdowns of a tag's part know how many blocks its bins were given (heap/sample_countdown.h). The blocks that a
 * bin still has are subtracted: a closed bin's countdown or list tells them, an open one's are the free blocks of its
 * span. Blocks that are under way between threads (heap/remote.h) are free too, but no list of their owner has them.
 */
#include "inspect/tag_counts.h"

#include <stdalign.h>

#include "hakmem/hakmem.h"
#include "heap/heap.h"
#include "heap/remote.h"
#include "inspect/census.h"
#include "inspect/survey.h"
#include "os/copy_out.h"
#include "space/live_bit.h"
#include "space/region_map.h"

/* Lists are read by pieces, because blocks that were freed one after the other often lie beside each other. */
#define PIECE_BYTES (4 * HK_KIB)

typedef struct {
  uintptr_t start; /* 0: nothing was read */
  alignas(HK_BLOCK_ALIGNMENT) unsigned char bytes[PIECE_BYTES];
} piece_t;

typedef struct {
  hk_tag_counts_t *counts;
  unsigned count;
  hk_tag_counts_t *rest; /* of all other tags; NULL: they are not counted */
  uint64_t reads_left;   /* the blocks of the tags' spans: no more are free. A list that changes may have no end. */
  piece_t *piece;        /* on the stack of a function that reads lists: the survey needs as much itself */
} walk_t;

static hk_tag_counts_t *counts_of_tag(walk_t *walk, hk_named_t *named) {
  for (unsigned i = 0; i < walk->count; i++) {
    if (walk->counts[i].tag == named) return &walk->counts[i];
  }
  return hk_named_kind(named) == hk_named_tag ? walk->rest : NULL;
}

static hk_tag_counts_t *counts_of(walk_t *walk, hk_heap_t *owner) {
  hk_named_t *named = owner != NULL ? hk_heap_named(owner) : NULL;
  return named != NULL ? counts_of_tag(walk, named) : NULL;
}

static void count_live(hk_tag_counts_t *counts, uint64_t blocks, uint64_t block_bytes) {
  counts->live_blocks += blocks;
  counts->live_bytes += blocks * block_bytes;
}

static void count_allocated(hk_tag_counts_t *counts, uint64_t blocks, uint64_t block_bytes) {
  counts->allocated_blocks += blocks;
  counts->allocated_bytes += blocks * block_bytes;
}

/* ---- Lists. */

/* Copies a free block. Returns false where it cannot be read, and after as many as there can be. */
static bool read_block(walk_t *walk, const hk_block_t *block, hk_block_t *to) {
  uintptr_t start = (uintptr_t)block & ~(uintptr_t)(PIECE_BYTES - 1), offset = (uintptr_t)block - start;
  if (walk->reads_left == 0 || offset % HK_BLOCK_ALIGNMENT != 0) return false;
  walk->reads_left--;
  if (start != walk->piece->start) {
    walk->piece->start = 0;
    if (!hk_os_copy(walk->piece->bytes, (const void *)start, PIECE_BYTES)) return false;
    walk->piece->start = start;
  }
  __builtin_memcpy(to, walk->piece->bytes + offset, sizeof *to);
  return true;
}

static uint64_t length_of(walk_t *walk, const hk_block_t *list) {
  uint64_t length = 0;
  hk_block_t block;
  for (; list != HK_LIST_END && read_block(walk, list, &block); list = hk_block_next(&block)) length++;
  return length;
}

static HK_NOINLINE uint64_t length_in_survey(walk_t *walk, const hk_block_t *list) {
  piece_t piece;
  piece.start = 0;
  walk->piece = &piece;
  uint64_t length = length_of(walk, list);
  walk->piece = NULL;
  return length;
}

/* ---- Spans. */

/* The descriptor of the slab that the last block of a list lay in: the next one often lies there too. */
typedef struct {
  const hk_slab_t *of; /* NULL: nothing was copied */
  hk_slab_t copy;
} descriptor_t;

/* Returns the span of `owner` that the block lies in, and sets its class. Returns NULL when there is none: the span may
 * have moved or ended since the list was read. */
static const hk_slab_t *span_of(descriptor_t *last, const hk_heap_t *owner, const hk_block_t *block,
                                unsigned *class_index) {
  const hk_slab_t *slab = hk_slab_of(block);
  if (slab != last->of) hk_survey_copy_record(&last->copy, slab, sizeof last->copy);
  last->of = slab;
  uintptr_t distance = (uintptr_t)slab - (uintptr_t)last->copy.head;
  bool is_small = hk_slab_state(&last->copy) == hk_slab_small && distance < HK_SUPERSLAB_SLABS * sizeof *slab;
  if (!is_small || hk_slab_owner(&last->copy) != owner) return NULL;
  *class_index = last->copy.class_index;
  return last->copy.head;
}

/* Returns whether the span is the one that its class's open bin allocates from: its free blocks are the bin's. */
static bool is_of_open_bin(hk_heap_t *owner, const hk_slab_t *span, unsigned class_index) {
  if (hk_class_is_mid(class_index) || hk_load_acquire(&owner->state[class_index].active) != span) return false;
  return hk_heap_effective_list(owner, class_index) == &owner->bin[class_index];
}

static unsigned live_blocks(const hk_survey_superslab_t *superslab, unsigned i) {
  uint64_t budget = UINT64_MAX;
  bool is_estimate;
  if (!HK_HARDENED) return hk_census_live_blocks(superslab, i, &budget, &is_estimate);
  unsigned live = 0;
  uintptr_t start = superslab->start + i * HK_SLAB_BYTES, end = start + superslab->slab[i].slab_count * HK_SLAB_BYTES;
  for (; start < end; start += HK_SLAB_BYTES) live += hk_live_bit_count(start, start + HK_SLAB_BYTES);
  return live;
}

/* Returns the free blocks of the bin that allocates from the span, of which `live` blocks are handed out or in it. */
static uint64_t open_bin_length(walk_t *walk, const hk_heap_t *owner, const hk_slab_t *span, unsigned live) {
  if (HK_SAFETY && !HK_HARDENED) return hk_span_carved(span) - live;
  hk_free_list_t bin;
  hk_survey_copy_record(&bin, &owner->bin[span->class_index], sizeof bin);
  return length_in_survey(walk, bin.free);
}

static void count_span(walk_t *walk, const hk_survey_superslab_t *superslab, unsigned i) {
  const hk_slab_t *span = &superslab->slab[i];
  hk_heap_t *owner = hk_slab_owner(span);
  hk_tag_counts_t *counts = counts_of(walk, owner);
  if (counts == NULL) return;
  uint64_t block_bytes = hk_class_usable_bytes(span->class_index);
  walk->reads_left += hk_span_carved(span);
  unsigned live = live_blocks(superslab, i);
  count_live(counts, live, block_bytes);
  if (!is_of_open_bin(owner, &superslab->first[i], span->class_index)) return;
  uint64_t in_bin = open_bin_length(walk, owner, span, live);
  if (!HK_SAFETY) count_live(counts, 0 - in_bin, block_bytes);
  count_allocated(counts, 0 - in_bin, block_bytes);
}

static void count_superslab(void *context, const hk_survey_superslab_t *superslab) {
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    if (hk_slab_state(&superslab->slab[i]) == hk_slab_small && hk_census_is_span(superslab, i))
      count_span(context, superslab, i);
  }
}

/* ---- Bins. */

typedef struct {
  hk_free_list_t bin, shadow;
  hk_sample_countdown_t countdown;
} class_copy_t;

static void copy_class(hk_heap_t *part, unsigned i, class_copy_t *to) {
  hk_survey_copy_record(&to->bin, &part->bin[i], sizeof to->bin);
  hk_survey_copy_record(&to->shadow, &part->countdowns->shadow[i], sizeof to->shadow);
  hk_survey_copy_record(&to->countdown, &part->countdowns->of[i], sizeof to->countdown);
}

/* The spans count the blocks of a mid class's lists as live, but for a hardened build's live bits. A metered bin's
 * countdown counts frees (heap/mid.h). */
static void count_mid(walk_t *walk, hk_tag_counts_t *counts, const class_copy_t *class, uint64_t block_bytes) {
  const hk_sample_countdown_t *countdown = &class->countdown;
  bool is_metered = class->bin.pop_step == 0;
  uint64_t in_bin = length_of(walk, class->bin.free);
  if (!HK_HARDENED) count_live(counts, 0 - in_bin - (is_metered ? class->shadow.countdown : 0), block_bytes);
  if (!is_metered || countdown->start_length == HK_COUNTDOWN_UNKNOWN || countdown->until == HK_COUNTDOWN_UNKNOWN)
    return;
  uint32_t came_back = countdown->start - class->bin.countdown;
  count_allocated(counts, (uint64_t)countdown->start_length + came_back - in_bin, block_bytes);
}

/* Returns whether the count of the span's live blocks has seen by itself that a block of it, which lies on a list, is
 * free. */
static bool is_seen_free(hk_heap_t *owner, const hk_slab_t *span, unsigned class_index) {
  if (HK_HARDENED) return true;
  bool is_tiny = !hk_class_is_mid(class_index);
  return HK_SAFETY == 1 && is_tiny && hk_load_relaxed(&owner->state[class_index].active) == span;
}

/* Discounts the blocks of a closed bin, which count as handed out. */
static void count_piece(walk_t *walk, hk_tag_counts_t *counts, hk_heap_t *part, const hk_block_t *list,
                        uint64_t block_bytes) {
  hk_block_t block;
  descriptor_t last = {.of = NULL};
  unsigned class_index;
  for (; list != HK_LIST_END && read_block(walk, list, &block); list = hk_block_next(&block)) {
    const hk_slab_t *span = span_of(&last, part, list, &class_index);
    if (span == NULL) return;
    count_allocated(counts, 0 - UINT64_C(1), block_bytes);
    if (!is_seen_free(part, span, class_index)) count_live(counts, 0 - UINT64_C(1), block_bytes);
  }
}

static void count_tiny(walk_t *walk, hk_tag_counts_t *counts, hk_heap_t *part, const class_copy_t *class,
                       uint64_t block_bytes) {
  if (hk_load_relaxed(&class->countdown.is_open)) {
    uint32_t came_back = class->bin.start - class->bin.countdown;
    bool is_known = class->countdown.start_length != HK_COUNTDOWN_UNKNOWN;
    if (is_known) count_allocated(counts, (uint64_t) class->countdown.start_length + came_back, block_bytes);
  } else {
    count_piece(walk, counts, part, class->bin.free, block_bytes);
    if (!HK_SAFETY) count_live(counts, 0 - length_of(walk, class->shadow.free), block_bytes);
  }
}

static void count_part(walk_t *walk, hk_tag_counts_t *counts, hk_heap_t *part) {
  if (!hk_heap_is_sampled(part)) return;
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    class_copy_t class;
    uint64_t block_bytes = hk_class_usable_bytes(i);
    copy_class(part, i, &class);
    count_allocated(counts, class.countdown.drawn - class.countdown.until, block_bytes);
    if (hk_class_is_mid(i)) {
      count_mid(walk, counts, &class, block_bytes);
    } else {
      count_tiny(walk, counts, part, &class, block_bytes);
    }
  }
}

/* ---- Blocks under way. The blocks of an open bin's span were seen as free there, which took them for the bin's. */

static void count_under_way(walk_t *walk, hk_tag_counts_t *counts, hk_heap_t *owner, const hk_block_t *list) {
  hk_block_t block;
  descriptor_t last = {.of = NULL};
  unsigned class_index;
  while (list != HK_LIST_END && read_block(walk, list, &block)) {
    const hk_slab_t *span = span_of(&last, owner, list, &class_index);
    if (span == NULL || !hk_remote_is_under_way(hk_block_next(&block))) return;
    bool is_seen = is_seen_free(owner, span, class_index);
    if (!is_seen) count_live(counts, 0 - UINT64_C(1), hk_class_usable_bytes(class_index));
    /* By its seal. Lists and live bits do not show it as the bin's. */
    if (is_seen && !HK_HARDENED && is_of_open_bin(owner, span, class_index))
      count_allocated(counts, 1, hk_class_usable_bytes(class_index));
    list = hk_remote_next(hk_block_next(&block));
  }
}

static void count_outbox(walk_t *walk, hk_heap_t *heap) {
  hk_batch_t outbox[HK_OUTBOX_PLACES];
  hk_survey_copy_record(outbox, heap->outbox, sizeof outbox);
  for (unsigned i = 0; i < HK_OUTBOX_PLACES; i++) {
    hk_tag_counts_t *counts = counts_of(walk, outbox[i].owner);
    if (counts != NULL) count_under_way(walk, counts, outbox[i].owner, outbox[i].first);
  }
}

/* ---- All. */

static HK_NOINLINE void count_heaps(walk_t *walk) {
  piece_t piece;
  piece.start = 0;
  walk->piece = &piece;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    count_outbox(walk, heap);
    hk_tag_counts_t *counts = counts_of(walk, heap);
    if (counts == NULL) continue;
    count_part(walk, counts, heap);
    count_under_way(walk, counts, heap, hk_load_acquire(&heap->shared.incoming));
  }
  walk->piece = NULL;
}

/* Counts of different moments may seem to be below 0. */
static void at_least_0(uint64_t *value) {
  if (*value > INT64_MAX) *value = 0;
}

static void add_larger(hk_tag_counts_t *counts, hk_named_t *tag) {
  counts->live_blocks += hk_load_relaxed(&tag->larger_count);
  counts->live_bytes += hk_load_relaxed(&tag->larger_bytes);
  counts->allocated_blocks += hk_load_relaxed(&tag->larger_allocated_count);
  counts->allocated_bytes += hk_load_relaxed(&tag->larger_allocated_bytes);
}

static void add_larger_of_rest(walk_t *walk) {
  for (hk_named_t *named = hk_named_first(); named != NULL; named = named->all_next) {
    hk_tag_counts_t *counts = counts_of_tag(walk, named);
    if (counts != NULL && counts == walk->rest) add_larger(counts, named);
  }
}

static void make_plausible(hk_tag_counts_t *counts) {
  at_least_0(&counts->live_blocks);
  at_least_0(&counts->live_bytes);
  at_least_0(&counts->allocated_blocks);
  at_least_0(&counts->allocated_bytes);
  if (counts->allocated_blocks < counts->live_blocks) counts->allocated_blocks = counts->live_blocks;
  if (counts->allocated_bytes < counts->live_bytes) counts->allocated_bytes = counts->live_bytes;
}

void hk_tag_counts_take(hk_tag_counts_t *counts, unsigned count, hk_tag_counts_t *rest) {
  walk_t walk = {.counts = counts, .count = count, .rest = rest};
  hk_survey_visitor_t visitor = {&walk, count_superslab, NULL};
  for (int is_thorough = 0; is_thorough < 2; is_thorough++) {
    for (unsigned i = 0; i < count; i++) counts[i] = (hk_tag_counts_t){.tag = counts[i].tag};
    if (rest != NULL) *rest = (hk_tag_counts_t){.tag = NULL};
    walk.reads_left = 0;
    if (hk_survey(&visitor, is_thorough != 0)) break;
  }
  count_heaps(&walk);
  for (unsigned i = 0; i < count; i++) {
    add_larger(&counts[i], counts[i].tag);
    make_plausible(&counts[i]);
  }
  if (rest == NULL) return;
  add_larger_of_rest(&walk);
  make_plausible(rest);
}

void hakmem_tag_counts(const hakmem_tag_t *tag, hakmem_tag_counts_t *out, size_t size) {
  hk_tag_counts_t counts = {.tag = (hk_named_t *)tag};
  hk_tag_counts_take(&counts, 1, NULL);
  hakmem_tag_counts_t known = {.allocated_blocks = counts.allocated_blocks,
                               .allocated_bytes = counts.allocated_bytes,
                               .freed_blocks = counts.allocated_blocks - counts.live_blocks,
                               .freed_bytes = counts.allocated_bytes - counts.live_bytes,
                               .live_blocks = counts.live_blocks,
                               .live_bytes = counts.live_bytes};
  __builtin_memset(out, 0, size);
  __builtin_memcpy(out, &known, size < sizeof known ? size : sizeof known);
}
