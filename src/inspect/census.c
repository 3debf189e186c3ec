/* inspect/census.c - L8. See census.h. */
#include "inspect/census.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "heap/heap.h"
#include "inspect/survey.h"
#include "os/copy_out.h"
#include "os/os.h"
#include "policy/safety.h"
#include "space/large_fill.h"
#include "space/live_bit.h"
#include "space/meta.h"
#include "space/region_map.h"
#include "space/short_span.h"

/* ---- Live blocks of a span. */

#define PIECE_BYTES (4 * HK_KIB)

/* Counts the blocks in the piece that look free. A free block is sealed on whichever list it is; a live block is not.
 * The link and its seal lie in one piece, because pieces and blocks are aligned to HK_BLOCK_ALIGNMENT. */
static unsigned count_free(const unsigned char *piece, size_t bytes, size_t *next, size_t block_bytes) {
  unsigned count = 0;
  for (; *next < bytes; *next += block_bytes) count += hk_block_looks_free((const hk_block_t *)(piece + *next));
  *next -= bytes;
  return count;
}

/* Counts the sealed blocks of a tiny class's span, which is one slab. Returns false when its memory cannot be read. */
static bool count_sealed(uintptr_t start, size_t bytes, size_t block_bytes, unsigned *count) {
  static_assert(HK_SPAN_MIN_BLOCKS * HK_TINY_MAX_BYTES <= HK_SLAB_BYTES, "a span of a tiny class is one slab");
  if (HK_HARDENED) {
    *count = (unsigned)(bytes / block_bytes) - hk_live_bit_count(start, start + bytes);
    return true;
  }
  alignas(HK_BLOCK_ALIGNMENT) unsigned char piece[PIECE_BYTES];
  size_t next = 0; /* start of the next block, from the piece's start */
  *count = 0;
  for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
    size_t length = (size_t)hk_smaller(bytes - at, PIECE_BYTES);
    if (!hk_os_copy(piece, (const void *)(start + at), length)) return false;
    *count += count_free(piece, length, &next, block_bytes);
  }
  return true;
}

static bool is_active(hk_slab_t *original, unsigned class_index) {
  hk_heap_t *owner = hk_slab_owner(original);
  return owner != NULL && hk_load_acquire(&owner->state[class_index].active) == original;
}

static unsigned least(uint64_t a, uint64_t b) { return (unsigned)hk_smaller(a, b); }

bool hk_census_is_span(const hk_survey_superslab_t *superslab, unsigned i) {
  const hk_slab_t *slab = &superslab->slab[i];
  if (hk_slab_state(slab) != hk_slab_small || slab->head != &superslab->first[i]) return false;
  if (slab->class_index == 0 || slab->class_index >= HK_CLASS_COUNT) return false;
  size_t last_bytes = hk_short_span_last_bytes(slab);
  if (last_bytes == 0 || last_bytes > HK_SLAB_BYTES) return false;
  unsigned most = hk_class_span_slabs(slab->class_index);
  return slab->slab_count > 0 && slab->slab_count <= most && i + slab->slab_count <= HK_SUPERSLAB_SLABS;
}

static unsigned carved_of(const hk_slab_t *span) { return least(hk_span_carved(span), hk_span_capacity(span)); }

/* In a mid class the result includes the blocks in the bin; count_bin subtracts them. */
unsigned hk_census_live_blocks(const hk_survey_superslab_t *superslab, unsigned i, uint64_t *budget,
                               bool *is_estimate) {
  const hk_slab_t *span = &superslab->slab[i];
  unsigned carved = carved_of(span);
  *is_estimate = false;
  if (hk_class_is_mid(span->class_index)) return least(span->live, carved);
  if (!is_active(&superslab->first[i], span->class_index)) {
    uint32_t came_back = span->own.start - span->own.countdown;
    return came_back <= span->live ? least(span->live - came_back, carved) : 0;
  }
  size_t block_bytes = hk_class_bytes(span->class_index), bytes = carved * block_bytes;
  unsigned free_count = 0;
  *is_estimate = !HK_SAFETY || bytes > *budget ||
                 !count_sealed(superslab->start + i * HK_SLAB_BYTES, bytes, block_bytes, &free_count);
  if (*is_estimate) return carved;
  *budget -= bytes;
  return carved - free_count;
}

/* ---- Superslabs. */

typedef struct {
  hk_census_t *census;
  hk_census_heaps_t *heaps;
  uint64_t budget; /* bytes of memory that may still be read */
} walk_t;

static void add(hk_census_count_t *count, const hk_census_count_t *more) {
  count->spans += more->spans;
  count->slabs += more->slabs;
  count->live_blocks += more->live_blocks;
  count->live_bytes += more->live_bytes;
  count->free_blocks += more->free_blocks;
  count->free_bytes += more->free_bytes;
  count->resident_bytes += more->resident_bytes;
  count->spans_nearly_empty += more->spans_nearly_empty;
}

/* Returns the counts of the heap. A heap that a descriptor names is never unmapped. A heap that was created a moment
 * ago may still read as number 0. */
static hk_census_count_t *count_of_heap(hk_census_heaps_t *heaps, hk_heap_t *heap) {
  size_t number = heap != NULL ? hk_load_relaxed(&heap->number) : 0;
  return number > 0 && number <= heaps->count ? &heaps->of[number - 1] : &heaps->others;
}

/* Returns the resident bytes of the pages that the span's carved blocks lie in. */
static size_t resident_of_carved(const hk_survey_superslab_t *superslab, unsigned i) {
  const hk_slab_t *span = &superslab->slab[i];
  unsigned per_slab = hk_class_blocks_per_slab(span->class_index), left = carved_of(span);
  size_t resident = 0;
  for (unsigned slab = i; left > 0; slab++) {
    unsigned count = least(left, per_slab);
    size_t bytes = hk_align_up(count * hk_class_bytes(span->class_index), hk_os_page_size());
    resident += hk_survey_resident(superslab, slab * HK_SLAB_BYTES, hk_smaller(bytes, HK_SLAB_BYTES));
    left -= count;
  }
  return resident;
}

static void count_span(walk_t *walk, const hk_survey_superslab_t *superslab, unsigned i) {
  hk_census_t *census = walk->census;
  const hk_slab_t *span = &superslab->slab[i];
  size_t block_bytes = hk_class_bytes(span->class_index);
  bool is_estimate;
  unsigned live = hk_census_live_blocks(superslab, i, &walk->budget, &is_estimate), carved = carved_of(span);
  size_t resident = hk_survey_resident(superslab, i * HK_SLAB_BYTES, span->slab_count * HK_SLAB_BYTES);
  size_t of_carved = resident_of_carved(superslab, i), of_live = carved > 0 ? of_carved * live / carved : 0;
  hk_census_count_t count = {.spans = 1,
                             .slabs = span->slab_count,
                             .live_blocks = live,
                             .live_bytes = live * block_bytes,
                             .free_blocks = carved - live,
                             .free_bytes = (carved - live) * block_bytes,
                             .resident_bytes = resident,
                             .spans_nearly_empty = live * HK_CENSUS_NEARLY_EMPTY <= hk_span_capacity(span)};
  add(&census->of_class[span->class_index], &count);
  add(count_of_heap(walk->heaps, hk_slab_owner(span)), &count);
  census->live_bytes += of_live;
  census->free_bytes += of_carved - of_live;
  census->uncarved_bytes += resident - of_carved;
  if (superslab->record.is_huge && span->is_zero) census->huge_excess_bytes += resident - of_carved;
  census->spans_estimated += is_estimate;
}

static void count_whole(hk_census_count_t *count, size_t bytes, size_t resident) {
  count->spans++;
  count->slabs += bytes / HK_SLAB_BYTES;
  count->live_blocks++;
  count->live_bytes += bytes;
  count->resident_bytes += resident;
}

static void count_run(hk_census_t *census, const hk_survey_superslab_t *superslab, unsigned i) {
  unsigned slab_count = least(superslab->slab[i].slab_count, HK_SUPERSLAB_SLABS - i);
  size_t bytes = slab_count * HK_SLAB_BYTES;
  size_t resident = hk_survey_resident(superslab, i * HK_SLAB_BYTES, bytes);
  count_whole(&census->run, bytes, resident);
  census->live_bytes += resident;
}

/* A free slab belongs to a heap while free_mask of its superslab does not have it. Otherwise it is lazily purged,
 * dirty, or untouched. */
static void count_free_slab(hk_census_t *census, const hk_survey_superslab_t *superslab, unsigned i) {
  size_t resident = hk_survey_resident(superslab, i * HK_SLAB_BYTES, HK_SLAB_BYTES);
  census->cached_bytes += HK_SLAB_BYTES;
  if ((superslab->record.free_mask >> i & 1) == 0) {
    census->kept_bytes += resident;
  } else if ((superslab->record.lazy_mask >> i & 1) != 0) {
    census->lazy_bytes += resident;
  } else if ((superslab->record.used_mask >> i & 1) != 0) {
    census->dirty_bytes += resident;
  } else {
    census->uncarved_bytes += resident;
    census->unused_bytes += resident;
    if (superslab->record.is_huge) census->huge_excess_bytes += resident;
  }
}

static bool is_of_closed_run(const hk_survey_superslab_t *superslab, unsigned tail) {
  unsigned head = hk_survey_head_of(superslab, tail);
  return head != HK_SUPERSLAB_SLABS && hk_slab_state(&superslab->slab[head]) == hk_slab_free;
}

static void count_superslab(void *context, const hk_survey_superslab_t *superslab) {
  walk_t *walk = context;
  hk_census_t *census = walk->census;
  census->superslabs_huge += superslab->record.is_huge;
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    switch (hk_slab_state(&superslab->slab[i])) {
      case hk_slab_small:
        if (hk_census_is_span(superslab, i)) count_span(walk, superslab, i);
        break;
      case hk_slab_run:
        count_run(census, superslab, i);
        break;
      case hk_slab_run_tail:
        if (is_of_closed_run(superslab, i)) count_free_slab(census, superslab, i);
        break;
      case hk_slab_free:
        if ((superslab->record.slab_mask >> i & 1) != 0) count_free_slab(census, superslab, i);
        break;
      default: /* slabs outside the superslab */
        break;
    }
  }
}

/* Estimates from some pages how much of a block is resident and was never written. */
static size_t unwritten_of(walk_t *walk, const hk_survey_large_t *large) {
  size_t page_bytes = hk_os_page_size(), part_bytes = hk_align_down(large->bytes / HK_CENSUS_PAGES, page_bytes);
  size_t resident = 0, unwritten = 0;
  if (part_bytes == 0 || walk->budget < HK_CENSUS_PAGES * page_bytes) return 0;
  walk->budget -= HK_CENSUS_PAGES * page_bytes;
  for (unsigned i = 0; i < HK_CENSUS_PAGES; i++) {
    uintptr_t page = hk_large_fill_page(large->start + i * part_bytes, part_bytes, i);
    if (hk_os_resident_bytes((void *)page, page_bytes) == 0) continue;
    resident++;
    unwritten += !hk_os_is_written(page);
  }
  return resident == 0 ? 0 : hk_align_down(large->resident_bytes / resident * unwritten, page_bytes);
}

static void count_large(void *context, const hk_survey_large_t *large) {
  walk_t *walk = context;
  hk_census_t *census = walk->census;
  if (large->is_free) {
    census->cached_bytes += large->bytes;
    census->large_dirty_bytes += large->resident_bytes;
    return;
  }
  count_whole(&census->large, large->bytes, large->resident_bytes);
  size_t unwritten = large->is_ahead ? unwritten_of(walk, large) : 0;
  census->live_bytes += large->resident_bytes - unwritten;
  census->uncarved_bytes += unwritten;
  census->huge_excess_bytes += unwritten;
}

/* ---- Bins of mid classes. */

#define MID_FIRST (HK_TINY_CLASS_MAX + 1)
#define MID_COUNT (HK_CLASS_COUNT - MID_FIRST)

/* `most` bounds the walk, because the owner changes the list meanwhile. */
static unsigned length_of(const hk_block_t *list, unsigned most) {
  unsigned count = 0;
  hk_block_t block;
  for (; count < most && list != HK_LIST_END && hk_os_copy(&block, list, sizeof block); list = hk_block_next(&block))
    count++;
  return count;
}

/* Returns the number of blocks in a bin. A bin's countdown means nothing while its list is empty. A countdown of 1 may
 * be wrong in a child of fork (heap/orphan.c), and that of a metered bin counts frees alone, so the list is walked
 * then. */
static unsigned blocks_of_bin(const hk_free_list_t *bin, const hk_bin_state_t *state) {
  if (bin->free == HK_LIST_END) return 0;
  if (bin->pop_step == 0) return length_of(bin->free, HK_METERED_MAX_BLOCKS);
  if (state->room < bin->countdown) return 0;
  return bin->countdown == 1 ? length_of(bin->free, state->room) : state->room - bin->countdown;
}

static void free_blocks(hk_census_count_t *count, uint64_t blocks, uint64_t bytes) {
  count->live_blocks -= blocks;
  count->live_bytes -= bytes;
  count->free_blocks += blocks;
  count->free_bytes += bytes;
}

/* Moves the blocks of a bin from live to free. Their spans count them as handed out, and only the list tells which span
 * has how many. All blocks of a bin belong to spans of its heap, because a span that leaves the heap takes its blocks
 * out of the bin (heap/steal.c). */
static void count_bin(hk_census_t *census, hk_census_count_t *of_heap, unsigned class_index, uint64_t in_bin) {
  hk_census_count_t *class = &census->of_class[class_index];
  size_t block_bytes = hk_class_bytes(class_index);
  in_bin = hk_smaller(in_bin, class->live_blocks);
  /* The counts are of different moments, so either may be lower. Both must lose the same amount. */
  in_bin = hk_smaller(in_bin, hk_smaller(of_heap->live_blocks, of_heap->live_bytes / block_bytes));
  if (in_bin == 0) return;
  free_blocks(class, in_bin, in_bin * block_bytes);
  free_blocks(of_heap, in_bin, in_bin * block_bytes);
  uint64_t resident = hk_smaller(in_bin * block_bytes, census->live_bytes);
  census->live_bytes -= resident;
  census->free_bytes += resident;
}

static void count_bins(hk_census_t *census, hk_census_heaps_t *heaps) {
  hk_free_list_t bin[MID_COUNT];
  hk_bin_state_t state[MID_COUNT];
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    hk_survey_copy_record(bin, &heap->bin[MID_FIRST], sizeof bin);
    hk_survey_copy_record(state, &heap->state[MID_FIRST], sizeof state);
    hk_census_count_t *of_heap = count_of_heap(heaps, heap);
    for (unsigned i = 0; i < MID_COUNT; i++)
      count_bin(census, of_heap, MID_FIRST + i, blocks_of_bin(&bin[i], &state[i]));
  }
}

/* ---- The whole census. */

static void clear(hk_census_t *census, hk_census_heaps_t *heaps) {
  *census = (hk_census_t){0};
  for (size_t i = 0; i < heaps->count; i++) heaps->of[i] = (hk_census_count_t){0};
  heaps->others = (hk_census_count_t){0};
}

void hk_census_take(hk_census_t *census, hk_census_heaps_t *heaps) {
  hk_census_heaps_t no_heaps = {0};
  if (heaps == NULL) heaps = &no_heaps;
  walk_t walk = {.census = census, .heaps = heaps};
  hk_survey_visitor_t visitor = {&walk, count_superslab, count_large};
  for (int is_thorough = 0; is_thorough < 2; is_thorough++) {
    clear(census, heaps);
    walk.budget = HK_CENSUS_READ_BYTES;
    if (hk_survey(&visitor, is_thorough != 0)) break;
  }
  count_bins(census, heaps);
  census->metadata_bytes = hk_meta_used_bytes() + hk_region_map_resident_bytes();
}
