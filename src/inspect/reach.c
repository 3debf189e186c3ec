/* inspect/reach.c - L8. See reach.h.
 *
 * hk_reach_begin makes a note for each slab of a superslab from a copy of its descriptor. The notes do not change
 * during the scan. A block that is free by the time the scan reads it is recognized by its seal.
 */
#include "inspect/reach.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "inspect/census.h"
#include "inspect/survey.h"
#include "os/copy_out.h"
#include "os/os.h"
#include "policy/safety.h"
#include "space/live_bit.h"

#define MARK_BITS (HK_SUPERSLAB_BYTES / HK_BLOCK_ALIGNMENT)
#define WORD_BITS 64

/* Chosen: at this size the system call adds less than half to the cost of the copy. A block of a span fits
 * with its pages. */
#define BUFFER_BYTES (64 * HK_KIB)
#define LEAST_PAGE_BYTES (4 * HK_KIB)
static_assert(HK_MID_MAX_BYTES + 2 * LEAST_PAGE_BYTES <= BUFFER_BYTES, "a block of a span is looked at in one piece");

/* Chosen: room for areas and blocks that the program adds between the count and the notes. */
#define ROOM_FOR_MORE 1024
#define ROOM_FOR_MORE_BLOCKS ((size_t)1 << 20)

typedef enum { note_nothing, note_span, note_run } note_kind_t;

typedef struct {
  uint8_t kind;         /* note_kind_t */
  uint8_t head;         /* run: index of its first slab */
  uint16_t block_count; /* span: blocks carved in this slab */
  uint32_t bytes;       /* span: of a block; run: of the run, in all its slabs */
} note_t;

/* A mark at the start of a block: the scan has reached the block. A mark at another place: the program's part of a
 * sampled block begins there. */
typedef struct hk_reach_unit {
  uintptr_t start;
  note_t note[HK_SUPERSLAB_SLABS];
  uint64_t marks[MARK_BITS / WORD_BITS];
} unit_t;

/* A superslab, a large block, or a free extent. */
typedef struct hk_reach_area {
  uintptr_t start;
  uintptr_t end;
  unit_t *unit;     /* NULL: not a superslab */
  uint64_t is_free; /* 1: a free extent */
  uint64_t mark;    /* 1: the large block was reached */
  size_t unused;    /* bytes at the start of the large block that the program does not use */
} area_t;

typedef struct {
  uintptr_t start;
  size_t bytes;
  uint64_t *word;
  uint64_t bit;
  bool is_small; /* in a span */
  area_t *area;
} found_t;

/* ---- The notes. */

static note_t note_of_span(const hk_survey_superslab_t *superslab, unsigned i, unsigned head) {
  if (!hk_census_is_span(superslab, head)) return (note_t){.kind = note_nothing};
  const hk_slab_t *span = &superslab->slab[head];
  if (i - head >= span->slab_count) return (note_t){.kind = note_nothing};
  unsigned per_slab = hk_class_blocks_per_slab(span->class_index);
  uint64_t carved = hk_span_carved(span);
  uint64_t here = hk_smaller(hk_subtract_to_zero(carved, (uint64_t)(i - head) * per_slab), per_slab);
  return (note_t){
      .kind = note_span, .block_count = (uint16_t)here, .bytes = (uint32_t)hk_class_bytes(span->class_index)};
}

static note_t note_of_run(const hk_survey_superslab_t *superslab, unsigned i, unsigned head) {
  const hk_slab_t *run = &superslab->slab[head];
  if (hk_slab_state(run) != hk_slab_run || i - head >= run->slab_count) return (note_t){.kind = note_nothing};
  size_t most = (size_t)(HK_SUPERSLAB_SLABS - head) * HK_SLAB_BYTES;
  size_t bytes = hk_smaller(hk_load_relaxed(&((hk_slab_t *)run)->bytes), most);
  return (note_t){.kind = note_run, .head = (uint8_t)head, .bytes = (uint32_t)bytes};
}

static note_t note_of(const hk_survey_superslab_t *superslab, unsigned i) {
  hk_slab_state_t state = hk_slab_state(&superslab->slab[i]);
  if (state == hk_slab_run) return note_of_run(superslab, i, i);
  if (state != hk_slab_small && state != hk_slab_run_tail) return (note_t){.kind = note_nothing};
  unsigned head = hk_survey_head_of(superslab, i);
  if (head == HK_SUPERSLAB_SLABS) return (note_t){.kind = note_nothing};
  return state == hk_slab_small ? note_of_span(superslab, i, head) : note_of_run(superslab, i, head);
}

typedef struct {
  size_t areas, units, blocks;
} counts_t;

static void count_superslab(void *context, const hk_survey_superslab_t *superslab) {
  counts_t *counts = context;
  counts->areas++;
  counts->units++;
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    note_t note = note_of(superslab, i);
    counts->blocks += note.kind == note_span ? note.block_count : note.kind == note_run;
  }
}

static void count_large(void *context, const hk_survey_large_t *large) {
  counts_t *counts = context;
  counts->areas++;
  counts->blocks += !large->is_free;
}

/* Returns NULL when there is no room, or when the area does not lie behind the last one. */
static area_t *add_area(hk_reach_t *reach, uintptr_t start, size_t bytes) {
  if (reach->area_count == reach->area_capacity) {
    reach->is_cut_short = true;
    return NULL;
  }
  if (reach->area_count > 0 && start < reach->areas[reach->area_count - 1].end) return NULL;
  area_t *area = &reach->areas[reach->area_count++];
  *area = (area_t){.start = start, .end = start + bytes};
  return area;
}

static void note_superslab(void *context, const hk_survey_superslab_t *superslab) {
  hk_reach_t *reach = context;
  if (reach->unit_count == reach->unit_capacity) {
    reach->is_cut_short = true;
    return;
  }
  if (superslab->record.has_hole) reach->is_cut_short = true; /* the program may have mapped memory there */
  uint32_t there = superslab->record.slab_mask;
  if (there == 0) return;
  unsigned first = hk_lowest_bit(there), end = hk_highest_bit(there) + 1;
  area_t *area = add_area(reach, superslab->start + first * HK_SLAB_BYTES, (size_t)(end - first) * HK_SLAB_BYTES);
  if (area == NULL) return;
  unit_t *unit = area->unit = &reach->units[reach->unit_count++];
  unit->start = superslab->start;
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) unit->note[i] = note_of(superslab, i);
}

static void note_large(void *context, const hk_survey_large_t *large) {
  area_t *area = add_area(context, large->start, large->bytes);
  if (area != NULL) area->is_free = large->is_free;
}

/* ---- The block of an address. */

/* Returns the last area that starts at or below the address; area_count when there is none. */
static size_t area_below(const hk_reach_t *reach, uintptr_t address) {
  size_t from = 0, to = reach->area_count;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (reach->areas[middle].start <= address) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from > 0 ? from - 1 : reach->area_count;
}

static uint64_t *mark_of(unit_t *unit, uintptr_t address, uint64_t *bit) {
  size_t mark = (address - unit->start) / HK_BLOCK_ALIGNMENT;
  *bit = (uint64_t)1 << mark % WORD_BITS;
  return &unit->marks[mark / WORD_BITS];
}

static bool find_in_unit(unit_t *unit, uintptr_t address, found_t *found) {
  size_t i = (address - unit->start) / HK_SLAB_BYTES;
  const note_t *note = &unit->note[i];
  uintptr_t first = unit->start + i * HK_SLAB_BYTES;
  if (note->kind == note_nothing) return false;
  if (note->kind == note_span) {
    size_t block = (address - first) / note->bytes;
    if (block >= note->block_count) return false;
    found->start = first + block * note->bytes;
  } else {
    found->start = unit->start + note->head * HK_SLAB_BYTES;
    if (address - found->start >= note->bytes) return false;
  }
  found->bytes = note->bytes;
  found->is_small = note->kind == note_span;
  found->word = mark_of(unit, found->start, &found->bit);
  return true;
}

static bool find_in_area(area_t *area, uintptr_t address, found_t *found) {
  if (address < area->start || address >= area->end || area->is_free) return false;
  found->area = area;
  if (area->unit != NULL) return find_in_unit(area->unit, address, found);
  *found =
      (found_t){.start = area->start, .bytes = area->end - area->start, .word = &area->mark, .bit = 1, .area = area};
  return true;
}

static bool find(const hk_reach_t *reach, uintptr_t address, found_t *found) {
  size_t i = area_below(reach, address);
  return i < reach->area_count && find_in_area(&reach->areas[i], address, found);
}

/* ---- The program's part of a sampled block. */

void hk_reach_narrow(hk_reach_t *reach, uintptr_t address) {
  found_t found;
  if (!find(reach, address, &found) || address == found.start) return;
  if (found.area->unit == NULL) {
    found.area->unused = address - found.start;
  } else {
    uint64_t bit, *word = mark_of(found.area->unit, address, &bit);
    *word |= bit;
  }
}

static size_t unused_of(const found_t *found) {
  if (found->area->unit == NULL) return found->area->unused;
  for (size_t offset = HK_BLOCK_ALIGNMENT; offset < found->bytes; offset *= 2) {
    uint64_t bit, *word = mark_of(found->area->unit, found->start + offset, &bit);
    if ((*word & bit) != 0) return offset;
  }
  return 0;
}

/* ---- The scan. */

static void reach_block(hk_reach_t *reach, uintptr_t address) {
  found_t found;
  area_t *last = &reach->areas[reach->last_area];
  if (address < last->start || address >= last->end) {
    size_t i = area_below(reach, address);
    if (i == reach->area_count) return;
    reach->last_area = i;
    last = &reach->areas[i];
  }
  if (!find_in_area(last, address, &found) || (*found.word & found.bit) != 0) return;
  *found.word |= found.bit;
  if (reach->waiting_count == reach->waiting_capacity) {
    reach->is_cut_short = true; /* each block enters the list once */
    return;
  }
  reach->waiting[reach->waiting_count++] = found.start;
  reach->blocks_reached++;
}

static void look_at_words(hk_reach_t *reach, const unsigned char *bytes, size_t count) {
  uintptr_t lowest = reach->areas[0].start, all = reach->areas[reach->area_count - 1].end - lowest;
  const uintptr_t *words = (const uintptr_t *)(const void *)bytes;
  for (size_t i = 0; i < count / sizeof *words; i++) {
    if (words[i] - lowest < all) reach_block(reach, words[i]);
  }
}

bool hk_reach_goes_on(hk_reach_t *reach) {
  if (reach->may_go_on != NULL && !reach->may_go_on()) reach->is_stopped = true;
  if (reach->is_stopped || hk_os_coarse_ms() >= reach->end_ms) reach->is_cut_short = true;
  return !reach->is_cut_short;
}

static size_t copy(hk_reach_t *reach, unsigned char *to, uintptr_t from, size_t bytes) {
  if (!hk_reach_goes_on(reach)) return 0;
  size_t copied = hk_os_copy_out(to, from, bytes);
  reach->bytes_read += copied;
  return hk_align_down(copied, sizeof(uintptr_t));
}

/* Reads the next piece of [*at, end) and moves *at behind it, or behind a page that cannot be read. */
static void look_at_piece(hk_reach_t *reach, unsigned char *buffer, uintptr_t *at, uintptr_t end) {
  size_t copied = copy(reach, buffer, *at, hk_smaller(end - *at, BUFFER_BYTES));
  look_at_words(reach, buffer, copied);
  *at = copied > 0 ? *at + copied : hk_align_down(*at, hk_os_page_size()) + hk_os_page_size();
}

/* Makes the buffer hold the block, with the rest of its pages: the scan often reads neighbours one after the other. */
static bool fill_block_buffer(hk_reach_t *reach, uintptr_t start, size_t bytes) {
  if (start - reach->block_buffer_start <= reach->block_buffer_bytes &&
      start - reach->block_buffer_start + bytes <= reach->block_buffer_bytes)
    return true;
  reach->block_buffer_start = hk_align_down(start, LEAST_PAGE_BYTES);
  reach->block_buffer_bytes = copy(reach, reach->block_buffer, reach->block_buffer_start,
                                   hk_align_up(start + bytes, LEAST_PAGE_BYTES) - reach->block_buffer_start);
  return start - reach->block_buffer_start + bytes <= reach->block_buffer_bytes;
}

static void look_into_pieces(hk_reach_t *reach, const found_t *found, size_t unused) {
  reach->block_buffer_bytes = 0;
  for (uintptr_t at = found->start + unused; at < found->start + found->bytes && !reach->is_cut_short;) {
    look_at_piece(reach, reach->block_buffer, &at, found->start + found->bytes);
  }
}

static void look_into(hk_reach_t *reach, uintptr_t start) {
  found_t found;
  if (!find(reach, start, &found)) return;
  size_t unused = unused_of(&found);
  if (!found.is_small || !fill_block_buffer(reach, found.start, found.bytes)) {
    look_into_pieces(reach, &found, unused);
    return;
  }
  const unsigned char *contents = reach->block_buffer + (found.start - reach->block_buffer_start);
  const hk_block_t *block = (const hk_block_t *)(HK_HARDENED ? (const void *)found.start : (const void *)contents);
  if (!hk_block_is_in_use(block)) return;
  look_at_words(reach, contents + unused, found.bytes - unused);
}

void hk_reach_from(hk_reach_t *reach, uintptr_t start, size_t bytes) {
  uintptr_t end = hk_align_down(start + bytes, sizeof(uintptr_t));
  if (reach->area_count == 0) return;
  for (uintptr_t at = hk_align_up(start, sizeof(uintptr_t)); at < end && !reach->is_cut_short;) {
    look_at_piece(reach, reach->root_buffer, &at, end);
    while (reach->waiting_count > 0 && !reach->is_cut_short) look_into(reach, reach->waiting[--reach->waiting_count]);
  }
}

/* ---- The beginning, the answer, the end. */

static bool make_room(hk_reach_t *reach, const counts_t *counts) {
  reach->area_capacity = counts->areas + counts->areas / 2 + ROOM_FOR_MORE;
  reach->unit_capacity = counts->units + counts->units / 2 + ROOM_FOR_MORE;
  reach->waiting_capacity = counts->blocks + counts->blocks / 2 + ROOM_FOR_MORE_BLOCKS;
  size_t units = reach->unit_capacity * sizeof(unit_t), waiting = reach->waiting_capacity * sizeof(uintptr_t);
  size_t areas = reach->area_capacity * sizeof(area_t);
  reach->memory_bytes = hk_align_up(2 * BUFFER_BYTES + areas + units + waiting, hk_os_page_size());
  reach->memory = hk_os_reserve(reach->memory_bytes, hk_os_page_size());
  if (reach->memory == NULL) return false;
  reach->root_buffer = reach->memory;
  reach->block_buffer = reach->root_buffer + BUFFER_BYTES;
  reach->areas = (area_t *)(void *)(reach->block_buffer + BUFFER_BYTES);
  reach->units = (unit_t *)(void *)((unsigned char *)reach->areas + areas);
  reach->waiting = (uintptr_t *)(void *)((unsigned char *)reach->units + units);
  return true;
}

bool hk_reach_begin(hk_reach_t *reach, uint64_t most_ms, bool (*may_go_on)(void)) {
  *reach = (hk_reach_t){.end_ms = hk_os_coarse_ms() + most_ms, .may_go_on = may_go_on};
  counts_t counts = {0};
  hk_survey_visitor_t counter = {&counts, count_superslab, count_large}, noter = {reach, note_superslab, note_large};
  bool is_thorough = !hk_survey(&counter, false);
  if (is_thorough) {
    counts = (counts_t){0};
    (void)hk_survey(&counter, true);
  }
  if (!make_room(reach, &counts)) return false;
  (void)hk_survey(&noter, is_thorough);
  if (!reach->is_cut_short) return true;
  hk_reach_end(reach);
  return false;
}

void hk_reach_end(hk_reach_t *reach) { (void)hk_os_unmap(reach->memory, reach->memory_bytes); }

hk_reach_answer_t hk_reach_has(const hk_reach_t *reach, uintptr_t address) {
  found_t found;
  if (!find(reach, address, &found)) return hk_reach_unknown;
  return (*found.word & found.bit) != 0 ? hk_reach_yes : hk_reach_no;
}

bool hk_reach_next_own(const hk_reach_t *reach, uintptr_t address, uintptr_t *start, uintptr_t *end) {
  uintptr_t memory = (uintptr_t)reach->memory, memory_end = memory + reach->memory_bytes;
  size_t i = area_below(reach, address);
  if (i == reach->area_count) {
    i = 0;
  } else if (reach->areas[i].end <= address) {
    i++;
  }
  bool is_found = i < reach->area_count;
  if (is_found) {
    *start = reach->areas[i].start;
    *end = reach->areas[i].end;
  }
  if (memory_end <= address || (is_found && *start < memory)) return is_found;
  *start = memory;
  *end = memory_end;
  return true;
}
