/* inspect/sample.c - L8. See sample.h; docs/concurrency.md has the argument for each order. */
#include "inspect/sample.h"

#include <assert.h>
#include <stddef.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/hash.h"
#include "base/units.h"
#include "os/os.h"

/* Chosen: the first table is 36 KiB. The last has room for the samples of half a TiB at the default rate. */
#define FIRST_ENTRIES 512u
#define GROWTH_SHIFT 2
#define TABLE_COUNT 7u

/* The places that an address may have in one table: the keys of one cache line. A look-up in the table touches that
 * line and one entry. In a half-full table one of the places is nearly always free. */
#define PLACES 8u

/* Keys are multiples of 16. */
#define MARK_FREED ((uintptr_t)1)
#define MARK_BUSY ((uintptr_t)2)

/* One cache line. The thread that made the key busy writes all of it. */
typedef struct {
  _Alignas(HK_CACHE_LINE_BYTES) _Atomic(uint64_t) sequence; /* counts each write twice */
  _Atomic(uint64_t) offset;
  _Atomic(uint64_t) requested_bytes;
  _Atomic(uint64_t) block_bytes;
  _Atomic(uint64_t) weight_q16;
  _Atomic(hk_site_t *) site;
  _Atomic(uint64_t) born_ms;
} entry_t;

typedef _Atomic(uintptr_t) table_key_t; /* 0: never used */

static_assert(sizeof(entry_t) == HK_CACHE_LINE_BYTES, "an entry is one line");
static_assert(PLACES * sizeof(table_key_t) == HK_CACHE_LINE_BYTES, "the places of an address are one line");

/* A table is an array of keys, followed by the array of entries. */
static _Atomic(table_key_t *) tables[TABLE_COUNT];

static size_t entry_count(unsigned table) { return (size_t)FIRST_ENTRIES << table * GROWTH_SHIFT; }

static size_t table_bytes(unsigned table) {
  return hk_align_up(entry_count(table) * (sizeof(table_key_t) + sizeof(entry_t)), hk_os_page_size());
}

/* Returns NULL when the system refuses memory. */
static table_key_t *make_table(unsigned i) {
  size_t bytes = table_bytes(i);
  table_key_t *made = hk_os_reserve_small(bytes, hk_os_page_size());
  if (made == NULL) return NULL;
  table_key_t *none = NULL;
  if (hk_publish_once(&tables[i], &none, made)) return made;
  (void)hk_os_unmap(made, bytes);
  return none;
}

/* Returns the first of the PLACES places that the address may have. */
static size_t first_place_of(unsigned i, uintptr_t address) {
  uint64_t hash = hk_hash(address >> 4) >> 32;
  return hash * PLACES & (entry_count(i) - 1);
}

/* A place in a table. */
typedef struct {
  table_key_t *key; /* NULL: none */
  entry_t *entry;
} place_t;

static place_t place(table_key_t *table, unsigned i, size_t at) {
  return (place_t){&table[at], (entry_t *)&table[entry_count(i)] + at};
}

/* Returns the place with this key in one table. */
static place_t find_in(unsigned i, uintptr_t address, uintptr_t key) {
  table_key_t *table = hk_load_acquire(&tables[i]);
  size_t first = first_place_of(i, address);
  for (unsigned step = 0; table != NULL && step < PLACES; step++) {
    uintptr_t found = hk_load_acquire(&table[first + step]);
    if (found == key) return place(table, i, first + step);
    if (found == 0) break; /* a new sample takes the first place that was never used */
  }
  return (place_t){NULL, NULL};
}

static place_t find(uintptr_t address, uintptr_t key) {
  place_t found = {NULL, NULL};
  for (unsigned i = 0; i < TABLE_COUNT && found.key == NULL; i++) {
    if (i > 0 && hk_load_relaxed(&tables[i]) == NULL) break;
    found = find_in(i, address, key);
  }
  return found;
}

/* ---- One entry. */

static void write(entry_t *entry, const hk_sample_t *sample) {
  /* each store pairs with an acquire load of read */
  hk_store_release(&entry->sequence, hk_load_relaxed(&entry->sequence) + 1);
  hk_store_release(&entry->offset, sample->offset);
  hk_store_release(&entry->requested_bytes, sample->weight.requested_bytes);
  hk_store_release(&entry->block_bytes, sample->weight.block_bytes);
  hk_store_release(&entry->weight_q16, sample->weight.weight_q16);
  hk_store_release(&entry->site, sample->site);
  hk_store_release(&entry->born_ms, sample->born_ms);
  hk_store_release(&entry->sequence,
                   hk_load_relaxed(&entry->sequence) + 1); /* a read that began meanwhile sees the change */
}

/* Returns false when the entry has changed meanwhile. Otherwise the key was `key` while the fields were read. */
static bool read(place_t at, uintptr_t key, hk_sample_t *sample) {
  entry_t *entry = at.entry;
  uint64_t sequence = hk_load_acquire(&entry->sequence);
  sample->address = key & ~(MARK_FREED | MARK_BUSY);
  sample->offset = hk_load_acquire(&entry->offset);
  sample->weight.requested_bytes = hk_load_acquire(&entry->requested_bytes);
  sample->weight.block_bytes = hk_load_acquire(&entry->block_bytes);
  sample->weight.weight_q16 = hk_load_acquire(&entry->weight_q16);
  sample->site = hk_load_acquire(&entry->site);
  sample->born_ms = hk_load_acquire(&entry->born_ms);
  return hk_load_acquire(at.key) == key && hk_load_relaxed(&entry->sequence) == sequence;
}

/* ---- Enter. */

static bool claim(table_key_t *key, uintptr_t expected, uintptr_t address) {
  return hk_compare_exchange_acquire(key, &expected, address | MARK_BUSY);
}

static bool is_freed(uintptr_t key) { return (key & MARK_FREED) != 0; }

/* Claims a place in one table. Prefers places that were never used, so that freed samples stay known for long. */
static place_t claim_in(unsigned i, uintptr_t address) {
  table_key_t *table = hk_load_acquire(&tables[i]);
  if (table == NULL) table = make_table(i);
  if (table == NULL) return (place_t){NULL, NULL};
  size_t first = first_place_of(i, address);
  for (size_t at = first; at < first + PLACES; at++) {
    if (hk_load_relaxed(&table[at]) == 0 && claim(&table[at], 0, address)) return place(table, i, at);
  }
  for (size_t at = first; at < first + PLACES; at++) {
    uintptr_t key = hk_load_relaxed(&table[at]);
    if (is_freed(key) && claim(&table[at], key, address)) return place(table, i, at);
  }
  return (place_t){NULL, NULL};
}

/* Claims a place for the address. A freed sample at the same address is replaced, because the address is now one of a
 * live block. */
static place_t claim_any(uintptr_t address) {
  place_t found = find(address, address | MARK_FREED);
  if (found.key != NULL && claim(found.key, address | MARK_FREED, address)) return found;
  found.key = NULL;
  for (unsigned i = 0; i < TABLE_COUNT && found.key == NULL; i++) {
    found = claim_in(i, address);
    if (hk_load_relaxed(&tables[i]) == NULL) break; /* a look-up ends at the first missing table too */
  }
  return found;
}

bool hk_sample_enter(const hk_sample_t *sample) {
  place_t at = claim_any(sample->address);
  if (at.key == NULL) return false;
  write(at.entry, sample);
  hk_store_release(at.key, sample->address);
  return true;
}

/* ---- Look up, remove, visit. */

hk_sample_life_t hk_sample_hook_find(uintptr_t address, hk_sample_t *sample) {
  if (address == 0 || address % HK_BLOCK_ALIGNMENT != 0 || hk_load_relaxed(&tables[0]) == NULL) return hk_sample_none;
  place_t at = find(address, address);
  if (at.key != NULL && read(at, address, sample)) return hk_sample_live;
  uintptr_t key = address | MARK_FREED;
  at = find(address, key);
  return at.key != NULL && read(at, key, sample) ? hk_sample_freed : hk_sample_none;
}

bool hk_sample_leave(uintptr_t address, bool stays_known, hk_sample_t *sample) {
  place_t at = find(address, address);
  if (at.key == NULL || !claim(at.key, address, address)) return false;
  (void)read(at, address | MARK_BUSY, sample);
  hk_store_release(at.key, stays_known ? address | MARK_FREED : MARK_FREED);
  return true;
}

static void visit_table(unsigned i, void (*visit)(const hk_sample_t *sample, void *context), void *context) {
  table_key_t *table = hk_load_acquire(&tables[i]);
  if (table == NULL) return;
  for (size_t at = 0; at < entry_count(i); at++) {
    hk_sample_t sample;
    uintptr_t key = hk_load_acquire(&table[at]);
    if (key == 0 || (key & (MARK_FREED | MARK_BUSY)) != 0) continue;
    if (read(place(table, i, at), key, &sample)) visit(&sample, context);
  }
}

void hk_sample_visit(void (*visit)(const hk_sample_t *sample, void *context), void *context) {
  for (unsigned i = 0; i < TABLE_COUNT; i++) visit_table(i, visit, context);
}

void hk_sample_visit_memory(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context) {
  for (unsigned i = 0; i < TABLE_COUNT; i++) {
    table_key_t *table = hk_load_acquire(&tables[i]);
    if (table != NULL) visit(context, (uintptr_t)table, table_bytes(i));
  }
}
