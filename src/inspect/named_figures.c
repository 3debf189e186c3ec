/* inspect/named_figures.c - L8. See named_figures.h. */
#include "inspect/named_figures.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/hash.h"

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

/* ---- Which names have a row. There may be many more records than rows, and no memory for a list of names. So the
 * memory of each name is added to two counters, which other names may share. The smaller of the two is at least the
 * name's memory, and seldom much more. */

typedef struct {
  char name[HK_NAMED_NAME_BYTES];
  bool is_tag;
} name_t;

/* Returns false for a record that is free. Its name may become another's meanwhile. */
static bool read_key(name_t *key, hk_named_t *named) {
  hk_named_kind_t kind = hk_named_kind(named);
  memcpy(key->name, named->name, sizeof key->name);
  key->name[sizeof key->name - 1] = '\0';
  key->is_tag = kind == hk_named_tag;
  return kind != hk_named_free;
}

/* FNV-1a (G. Fowler, L. Noll, K.-P. Vo; its start and its prime for 64 bits), whose low bits hk_hash spreads. */
static uint64_t hash_of(const name_t *key) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325) + key->is_tag;
  for (const char *text = key->name; *text != '\0'; text++)
    hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return hk_hash(hash);
}

static uint64_t *sum_of(hk_named_table_t *table, const name_t *key, unsigned which) {
  uint64_t hash = hash_of(key);
  return &table->sums[which][(which == 0 ? hash >> 32 : hash >> 48) % HK_NAMED_SUMS];
}

static uint64_t weight_of(hk_named_table_t *table, const name_t *key) {
  return hk_smaller(*sum_of(table, key, 0), *sum_of(table, key, 1));
}

static hk_named_figures_t *find(hk_named_table_t *table, const name_t *key) {
  for (unsigned i = 0; i < table->count; i++) {
    hk_named_figures_t *figures = &table->of[i];
    if (!figures->is_rest && figures->is_tag == key->is_tag && strcmp(figures->name, key->name) == 0) return figures;
  }
  return NULL;
}

static void weigh(hk_named_table_t *table) {
  name_t key;
  memset(table->sums, 0, sizeof table->sums);
  for (hk_named_t *named = hk_named_first(); named != NULL; named = named->all_next) {
    if (!read_key(&key, named)) continue;
    for (unsigned i = 0; i < 2; i++) *sum_of(table, &key, i) += hk_load_relaxed(&named->bytes);
  }
}

/* Returns the row for a new name: a new one, or that of the name with the least; NULL where each has more. */
static hk_named_figures_t *row_for(hk_named_table_t *table, uint64_t weight) {
  unsigned least = 0;
  if (table->count < HK_NAMED_SHOWN) {
    least = table->count++;
  } else {
    for (unsigned i = 1; i < HK_NAMED_SHOWN; i++) {
      if (table->weight[i] < table->weight[least]) least = i;
    }
    if (table->weight[least] >= weight) return NULL;
  }
  table->weight[least] = weight;
  return &table->of[least];
}

static void choose(hk_named_table_t *table) {
  name_t key;
  weigh(table);
  for (hk_named_t *named = hk_named_first(); named != NULL; named = named->all_next) {
    if (!read_key(&key, named) || find(table, &key) != NULL) continue;
    hk_named_figures_t *figures = row_for(table, weight_of(table, &key));
    if (figures == NULL) continue;
    *figures = (hk_named_figures_t){.is_tag = key.is_tag};
    memcpy(figures->name, key.name, sizeof key.name);
  }
}

/* Returns the row of the name, or else of the rest of its kind. */
static hk_named_figures_t *get(hk_named_table_t *table, const name_t *key) {
  hk_named_figures_t *figures = find(table, key);
  if (figures != NULL) return figures;
  for (unsigned i = 0; i < table->count; i++) {
    if (table->of[i].is_rest && table->of[i].is_tag == key->is_tag) return &table->of[i];
  }
  figures = &table->of[table->count++];
  *figures = (hk_named_figures_t){.is_tag = key->is_tag, .is_rest = true};
  return figures;
}

/* ---- Sums. */

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

static void add(hk_named_figures_t *figures, hk_named_t *named, const hk_census_heaps_t *heaps) {
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

/* The census counts blocks under way between threads as live; these counts do not. */
static void set_counts(hk_named_figures_t *figures, const hk_tag_counts_t *counts) {
  figures->live_blocks = counts->live_blocks;
  figures->live_bytes = counts->live_bytes;
  figures->allocated_blocks = counts->allocated_blocks;
  figures->allocated_bytes = counts->allocated_bytes;
  figures->freed_blocks = counts->allocated_blocks - counts->live_blocks;
  figures->freed_bytes = counts->allocated_bytes - counts->live_bytes;
}

/* A tag's name is its alone. */
static void take_counts(hk_named_table_t *table) {
  hk_named_figures_t *of_tag[HK_NAMED_SHOWN], *of_rest = NULL;
  unsigned count = 0;
  name_t key;
  for (hk_named_t *named = hk_named_first(); named != NULL; named = named->all_next) {
    if (!read_key(&key, named) || !key.is_tag) continue;
    hk_named_figures_t *figures = get(table, &key);
    if (figures->is_rest) {
      of_rest = figures;
    } else if (count < HK_NAMED_SHOWN) {
      of_tag[count] = figures;
      table->tags[count++].tag = named;
    }
  }
  if (count == 0 && of_rest == NULL) return;
  hk_tag_counts_t rest;
  hk_tag_counts_take(table->tags, count, of_rest != NULL ? &rest : NULL);
  for (unsigned i = 0; i < count; i++) set_counts(of_tag[i], &table->tags[i]);
  if (of_rest != NULL) set_counts(of_rest, &rest);
}

void hk_named_figures_take(hk_named_table_t *table, const hk_census_heaps_t *heaps) {
  table->count = 0;
  if (hk_named_first() == NULL) return;
  choose(table);
  name_t key;
  for (hk_named_t *named = hk_named_first(); named != NULL; named = named->all_next) {
    if (read_key(&key, named)) add(get(table, &key), named, heaps);
  }
  take_counts(table);
}
