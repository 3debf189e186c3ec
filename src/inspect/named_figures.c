/* inspect/named_figures.c - L8. See named_figures.h. */
#include "inspect/named_figures.h"

#include <string.h>

#define TEXT(name, is_bytes, is_event, help) \
  { #name, help, offsetof(hk_named_figures_t, name), is_bytes, is_event, false }
#define TEXT_OF_TAG(name, is_bytes, help) \
  { #name, help, offsetof(hk_named_figures_t, name), is_bytes, true, true }

const hk_named_text_t hk_named_texts[] = {
    TEXT(count, false, false, "named heaps or tags of that name"),
    TEXT(parts, false, false, "their parts, one for each thread that uses them"),
    TEXT(live_blocks, false, false, "blocks in use"),
    TEXT(live_bytes, true, false, "bytes of the blocks in use"),
    TEXT_OF_TAG(allocated_blocks, false, "blocks that were allocated"),
    TEXT_OF_TAG(allocated_bytes, true, "bytes of the blocks that were allocated"),
    TEXT_OF_TAG(freed_blocks, false, "blocks that were freed"),
    TEXT_OF_TAG(freed_bytes, true, "bytes of the blocks that were freed"),
    TEXT(memory, true, false, "slabs of spans, and larger blocks"),
    TEXT(peak, true, false, "the highest `memory` so far"),
    TEXT(larger_bytes, true, false, "the part of `memory` of blocks above 32 KiB"),
    TEXT(soft_limit, true, false, "soft limit on `memory`; 0: none"),
    TEXT(hard_limit, true, false, "hard limit on `memory`; 0: none"),
    TEXT(soft_count, false, true, "times that `memory` rose above the soft limit"),
    TEXT(refused_count, false, true, "times that the hard limit refused memory"),
    {.name = ""}};

static hk_named_figures_t *find_or_add(hk_named_table_t *table, const char *name, bool is_tag) {
  for (unsigned i = 0; i < table->count; i++) {
    if (table->of[i].is_tag == is_tag && strcmp(table->of[i].name, name) == 0) return &table->of[i];
  }
  if (table->count == HK_NAMED_SHOWN) return &table->of[HK_NAMED_SHOWN - 1];
  bool is_last = table->count == HK_NAMED_SHOWN - 1;
  hk_named_figures_t *figures = &table->of[table->count++];
  *figures = (hk_named_figures_t){.is_tag = is_tag};
  memcpy(figures->name, is_last ? "others" : name, strlen(is_last ? "others" : name) + 1);
  return figures;
}

/* Adds up the small blocks of the parts. The walk ends where a part is another named heap's by now. */
static void add_parts(hk_named_figures_t *figures, hk_named_t *named, const hk_census_heaps_t *heaps) {
  hk_heap_t *part = hk_load_acquire(&named->parts);
  for (; part != NULL && hk_heap_named(part) == named; part = part->part.next) {
    size_t number = hk_load_relaxed(&part->number);
    if (number == 0 || number > heaps->count) continue;
    figures->parts++;
    figures->live_blocks += heaps->of[number - 1].live_blocks;
    figures->live_bytes += heaps->of[number - 1].live_bytes;
  }
}

static void add(hk_named_table_t *table, hk_named_t *named, const hk_census_heaps_t *heaps) {
  char name[HK_NAMED_NAME_BYTES];
  memcpy(name, named->name, sizeof name);
  name[sizeof name - 1] = '\0';
  hk_named_figures_t *figures = find_or_add(table, name, hk_named_kind(named) == hk_named_tag);
  uint64_t larger_bytes = hk_load_relaxed(&named->larger_bytes), larger = hk_load_relaxed(&named->larger_count);
  figures->count++;
  figures->live_blocks += larger;
  figures->live_bytes += larger_bytes;
  figures->larger_bytes += larger_bytes;
  figures->memory += hk_load_relaxed(&named->bytes);
  figures->peak += hk_load_relaxed(&named->peak_bytes);
  figures->soft_limit += hk_load_relaxed(&named->soft_bytes);
  figures->hard_limit += hk_load_relaxed(&named->hard_bytes);
  figures->soft_count += hk_load_relaxed(&named->soft_count);
  figures->refused_count += hk_load_relaxed(&named->refused_count);
  add_parts(figures, named, heaps);
}

static unsigned list_tags(hk_named_table_t *table) {
  unsigned count = 0;
  for (hk_named_t *named = hk_named_first(); named != NULL && count < HK_NAMED_SHOWN; named = named->all_next) {
    if (hk_named_kind(named) == hk_named_tag) table->tags[count++].tag = named;
  }
  return count;
}

/* A tag's name is its alone. The census counts blocks under way between threads as live; these counts do not. */
static void add_counts(hk_named_table_t *table, const hk_tag_counts_t *counts) {
  hk_named_figures_t *figures = find_or_add(table, counts->tag->name, true);
  if (strcmp(figures->name, counts->tag->name) != 0) return; /* it is one of the others */
  figures->live_blocks = counts->live_blocks;
  figures->live_bytes = counts->live_bytes;
  figures->allocated_blocks = counts->allocated_blocks;
  figures->allocated_bytes = counts->allocated_bytes;
  figures->freed_blocks = counts->allocated_blocks - counts->live_blocks;
  figures->freed_bytes = counts->allocated_bytes - counts->live_bytes;
}

void hk_named_figures_take(hk_named_table_t *table, const hk_census_heaps_t *heaps) {
  table->count = 0;
  for (hk_named_t *named = hk_named_first(); named != NULL; named = named->all_next) {
    if (hk_named_kind(named) != hk_named_free) add(table, named, heaps);
  }
  unsigned count = list_tags(table);
  if (count > 0) hk_tag_counts_take(table->tags, count);
  for (unsigned i = 0; i < count; i++) add_counts(table, &table->tags[i]);
}
