/* inspect/survey.c - L8. See survey.h.
 *
 * A page of a region map leaf holds the descriptors of one or a few superslabs' addresses. A page that is not resident
 * was never written, or is swapped out.
 */
#include "inspect/survey.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/mask.h"
#include "os/copy_out.h"
#include "os/os.h"
#include "policy/thp_policy.h"
#include "space/large.h"
#include "space/large_fill.h"
#include "space/region_map.h"

#define UNITS_OF_REGION (HK_REGION_SLABS / HK_SUPERSLAB_SLABS)
#define UNIT_DESCRIPTOR_BYTES (HK_SUPERSLAB_SLABS * sizeof(hk_slab_t))
#define LEAF_PAGES_MAX (sizeof(hk_region_t) / (4 * HK_KIB))

void hk_survey_copy_record(void *to, const void *from, size_t bytes) {
  if (hk_os_copy(to, from, bytes)) return;
  uintptr_t *words = to;
  for (size_t i = 0; i < bytes / sizeof *words; i++) words[i] = hk_load_racy((uintptr_t *)from + i);
}

size_t hk_survey_resident(const hk_survey_superslab_t *superslab, size_t offset, size_t bytes) {
  size_t page_bytes = hk_os_page_size(), count = 0;
  for (size_t i = offset / page_bytes; i < (offset + bytes) / page_bytes; i++) count += superslab->is_resident[i];
  return count * page_bytes;
}

unsigned hk_survey_head_of(const hk_survey_superslab_t *superslab, unsigned i) {
  uintptr_t distance = (uintptr_t)superslab->slab[i].head - (uintptr_t)superslab->first;
  bool is_there = distance % sizeof(hk_slab_t) == 0 && distance / sizeof(hk_slab_t) <= i;
  return is_there ? (unsigned)(distance / sizeof(hk_slab_t)) : HK_SUPERSLAB_SLABS;
}

typedef struct {
  const hk_survey_visitor_t *visitor;
  bool is_thorough;
  size_t superslab_count; /* so far */
  size_t large_count;
} walk_t;

/* ---- One unit: the descriptors of 2 MiB. */

static bool is_of_superslab(const hk_slab_t *slab) {
  hk_slab_state_t state = hk_slab_state(slab);
  return slab->superslab != NULL && state != hk_slab_none && state != hk_slab_large;
}

/* Copies the superslab's record. Returns whether the record describes this unit. */
static bool find_record(hk_survey_superslab_t *unit, const hk_slab_t *slab) {
  hk_survey_copy_record(&unit->record, slab->superslab, sizeof unit->record);
  return unit->record.start == unit->start && unit->record.slabs == unit->first;
}

/* Returns whether pages of a large block may be resident that the program has not written. */
static bool may_be_ahead(const hk_slab_t *slab) {
  if (slab->ahead_slabs != 0 || slab->huge == hk_thp_ask) return true;
  return slab->huge != hk_thp_forbid && hk_os_huge_setting() == hk_os_huge_everywhere;
}

static void show_large(walk_t *walk, const hk_slab_t *slab, uintptr_t start, bool is_free) {
  size_t bytes = hk_load_relaxed(&((hk_slab_t *)slab)->bytes);
  if (bytes == 0 || bytes % hk_os_page_size() != 0 || bytes >> HK_ADDRESS_BITS != 0) return;
  walk->large_count += !is_free;
  if (walk->visitor->large == NULL) return;
  bool may_be_resident = !is_free || !slab->is_zero;
  size_t resident = may_be_resident ? hk_os_resident_bytes((void *)start, bytes) : 0;
  hk_survey_large_t large = {.start = start,
                             .bytes = bytes,
                             .resident_bytes = resident,
                             .is_free = is_free,
                             .is_ahead = !is_free && may_be_ahead(slab)};
  walk->visitor->large(walk->visitor->context, &large);
}

/* A free extent's last slab has a tag too; only the first slab's `head` leads to itself. */
static bool is_free_extent(const hk_survey_superslab_t *unit, unsigned i) {
  const hk_slab_t *slab = &unit->slab[i];
  return hk_slab_state(slab) == hk_slab_free && slab->superslab == NULL && slab->extent.since != 0 &&
         slab->head == &unit->first[i];
}

/* Finds the resident pages. Where parts of the superslab are unmapped, queries slab by slab. */
static void look_at_pages(hk_survey_superslab_t *unit) {
  if (hk_os_resident_pages((void *)unit->start, HK_SUPERSLAB_BYTES, unit->is_resident)) return;
  __builtin_memset(unit->is_resident, 0, sizeof unit->is_resident);
  if (unit->record.slab_mask == HK_MASK_ALL && !unit->record.has_hole) return;
  size_t slab_pages = HK_SLAB_BYTES / hk_os_page_size();
  for (uint32_t left = unit->record.slab_mask; left != 0; left &= left - 1) {
    unsigned i = hk_lowest_bit(left);
    unsigned char *resident = unit->is_resident + i * slab_pages;
    /* Of a slab with a hole (space/short_span.h) the kernel answers for the pages before it. */
    if (hk_os_resident_pages((void *)(unit->start + i * HK_SLAB_BYTES), HK_SLAB_BYTES, resident)) continue;
    for (size_t page = 0; page < slab_pages; page++) resident[page] &= 1;
  }
}

static void show_superslab(walk_t *walk, hk_survey_superslab_t *unit, const hk_slab_t *slab) {
  if (!find_record(unit, slab)) return;
  walk->superslab_count++;
  if (walk->visitor->superslab == NULL) return;
  look_at_pages(unit);
  walk->visitor->superslab(walk->visitor->context, unit);
}

static void look_at_unit(walk_t *walk, hk_survey_superslab_t *unit) {
  bool is_shown = false;
  hk_survey_copy_record(unit->slab, unit->first, sizeof unit->slab);
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    const hk_slab_t *slab = &unit->slab[i];
    uintptr_t start = unit->start + i * HK_SLAB_BYTES;
    if (is_of_superslab(slab)) {
      if (!is_shown) show_superslab(walk, unit, slab);
      is_shown = true;
      continue;
    }
    if (hk_slab_state(slab) == hk_slab_large) show_large(walk, slab, start, false);
    if (is_free_extent(unit, i)) show_large(walk, slab, start, true);
  }
}

/* ---- All units. */

static void look_at_region(walk_t *walk, hk_slab_t *leaf, uintptr_t start) {
  unsigned char is_resident[LEAF_PAGES_MAX];
  bool is_known = !walk->is_thorough && hk_os_resident_pages(leaf, sizeof(hk_region_t), is_resident);
  hk_survey_superslab_t unit;
  for (unsigned i = 0; i < UNITS_OF_REGION; i++) {
    if (is_known && is_resident[i * UNIT_DESCRIPTOR_BYTES / hk_os_page_size()] == 0) continue;
    unit.first = leaf + (size_t)i * HK_SUPERSLAB_SLABS;
    unit.start = start + i * HK_SUPERSLAB_BYTES;
    look_at_unit(walk, &unit);
  }
}

bool hk_survey(const hk_survey_visitor_t *visitor, bool is_thorough) {
  walk_t walk = {.visitor = visitor, .is_thorough = is_thorough};
  hk_slab_t *leaf;
  for (size_t region = 0; (leaf = hk_region_map_find(&region)) != NULL; region++) {
    look_at_region(&walk, leaf, (uintptr_t)region << HK_REGION_SHIFT);
  }
  return is_thorough ||
         (walk.superslab_count >= hk_superslab_index_superslab_count() && walk.large_count >= hk_large_usage().count);
}
