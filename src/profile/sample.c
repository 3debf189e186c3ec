/* profile/sample.c - L5. See sample.h; docs/concurrency.md has the argument for each order. */
#include "profile/sample.h"

#include <assert.h>
#include <stddef.h>

#include "base/atomic.h"
#include "base/units.h"
#include "os/os.h"

/* Chosen: the first table is 32 KiB, the last has room for the samples of half a TiB at the usual rate. */
#define FIRST_ENTRIES 512u
#define GROWTH_SHIFT 2
#define TABLE_COUNT 7u

/* Chosen: in a table that is three quarters full there is nearly always room in so many places. */
#define WINDOW 16u

/* Keys are multiples of 16. */
#define MARK_FREED ((uintptr_t)1)
#define MARK_BUSY ((uintptr_t)2)

/* One cache line. All is written by who made the key busy. */
typedef struct {
  _Alignas(HK_CACHE_LINE_BYTES) _Atomic(uintptr_t) key; /* 0: never used */
  _Atomic(uint64_t) round;                              /* how often it was written */
  _Atomic(uint64_t) offset;
  _Atomic(uint64_t) requested_bytes;
  _Atomic(uint64_t) block_bytes;
  _Atomic(uint64_t) weight_q16;
  _Atomic(hk_site_t *) site;
  _Atomic(uint64_t) born_ms;
} entry_t;

static_assert(sizeof(entry_t) == HK_CACHE_LINE_BYTES, "an entry is one line");

static _Atomic(entry_t *) tables[TABLE_COUNT];

static size_t entry_count(unsigned table) { return (size_t)FIRST_ENTRIES << table * GROWTH_SHIFT; }

/* NULL when the system refuses. */
static entry_t *make_table(unsigned i) {
  size_t bytes = entry_count(i) * sizeof(entry_t);
  entry_t *made = hk_os_reserve(bytes, hk_os_page_size());
  if (made == NULL) return NULL;
  entry_t *none = NULL;
  if (hk_publish_once(&tables[i], &none, made)) return made;
  (void)hk_os_unmap(made, bytes);
  return none;
}

/* Fibonacci hashing (D. Knuth, The Art of Computer Programming 3, 6.4). The places that follow go round. */
static entry_t *place(entry_t *table, unsigned i, uintptr_t address, unsigned step) {
  uint64_t hash = (uint64_t)(address >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 32;
  return &table[(hash + step) & (entry_count(i) - 1)];
}

/* Its place in one table that has this key, or NULL. */
static entry_t *find_in(unsigned i, uintptr_t address, uintptr_t key) {
  entry_t *table = hk_load_acquire(&tables[i]);
  if (table == NULL) return NULL;
  for (unsigned step = 0; step < WINDOW; step++) {
    entry_t *entry = place(table, i, address, step);
    uintptr_t found = hk_load_acquire(&entry->key);
    if (found == key) return entry;
    if (found == 0) break; /* what comes here takes the first place that was never used */
  }
  return NULL;
}

static entry_t *find(uintptr_t address, uintptr_t key) {
  entry_t *entry = NULL;
  for (unsigned i = 0; i < TABLE_COUNT && entry == NULL; i++) entry = find_in(i, address, key);
  return entry;
}

/* ---- One entry. */

static void write(entry_t *entry, const hk_sample_t *sample) {
  hk_store_release(&entry->round, hk_load_relaxed(&entry->round) + 1); /* each with read */
  hk_store_release(&entry->offset, sample->offset);
  hk_store_release(&entry->requested_bytes, sample->weight.requested_bytes);
  hk_store_release(&entry->block_bytes, sample->weight.block_bytes);
  hk_store_release(&entry->weight_q16, sample->weight.weight_q16);
  hk_store_release(&entry->site, sample->site);
  hk_store_release(&entry->born_ms, sample->born_ms);
}

/* False when it has changed meanwhile: no key but `key` was there while the rest was read. */
static bool read(entry_t *entry, uintptr_t key, hk_sample_t *sample) {
  uint64_t round = hk_load_acquire(&entry->round);
  sample->address = key & ~(MARK_FREED | MARK_BUSY);
  sample->offset = hk_load_acquire(&entry->offset);
  sample->weight.requested_bytes = hk_load_acquire(&entry->requested_bytes);
  sample->weight.block_bytes = hk_load_acquire(&entry->block_bytes);
  sample->weight.weight_q16 = hk_load_acquire(&entry->weight_q16);
  sample->site = hk_load_acquire(&entry->site);
  sample->born_ms = hk_load_acquire(&entry->born_ms);
  return hk_load_acquire(&entry->key) == key && hk_load_relaxed(&entry->round) == round;
}

/* ---- Enter. */

static bool claim(entry_t *entry, uintptr_t expected, uintptr_t address) {
  return hk_compare_exchange_acquire(&entry->key, &expected, address | MARK_BUSY);
}

static bool is_freed(uintptr_t key) { return (key & MARK_FREED) != 0; }

/* What was never used goes first, so that those that were freed are known for long. */
static entry_t *claim_in(unsigned i, uintptr_t address) {
  entry_t *table = hk_load_acquire(&tables[i]);
  if (table == NULL) table = make_table(i);
  if (table == NULL) return NULL;
  for (unsigned step = 0; step < WINDOW; step++) {
    entry_t *entry = place(table, i, address, step);
    if (hk_load_relaxed(&entry->key) == 0 && claim(entry, 0, address)) return entry;
  }
  for (unsigned step = 0; step < WINDOW; step++) {
    entry_t *entry = place(table, i, address, step);
    uintptr_t key = hk_load_relaxed(&entry->key);
    if (is_freed(key) && claim(entry, key, address)) return entry;
  }
  return NULL;
}

/* A sample that was freed at the same address is replaced: the address is one of a live one from now on. */
static entry_t *claim_any(uintptr_t address) {
  entry_t *entry = find(address, address | MARK_FREED);
  if (entry != NULL && claim(entry, address | MARK_FREED, address)) return entry;
  entry = NULL;
  for (unsigned i = 0; i < TABLE_COUNT && entry == NULL; i++) entry = claim_in(i, address);
  return entry;
}

bool hk_sample_enter(const hk_sample_t *sample) {
  entry_t *entry = claim_any(sample->address);
  if (entry == NULL) return false;
  write(entry, sample);
  hk_store_release(&entry->key, sample->address);
  return true;
}

/* ---- Look, and leave. */

hk_sample_life_t hk_sample_find(uintptr_t address, hk_sample_t *sample) {
  if (address == 0 || address % HK_BLOCK_ALIGNMENT != 0 || hk_load_relaxed(&tables[0]) == NULL) return hk_sample_none;
  entry_t *entry = find(address, address);
  if (entry != NULL && read(entry, address, sample)) return hk_sample_live;
  uintptr_t key = address | MARK_FREED;
  entry = find(address, key);
  return entry != NULL && read(entry, key, sample) ? hk_sample_freed : hk_sample_none;
}

bool hk_sample_leave(uintptr_t address, bool is_to_be_known, hk_sample_t *sample) {
  entry_t *entry = find(address, address);
  if (entry == NULL || !claim(entry, address, address)) return false;
  (void)read(entry, address | MARK_BUSY, sample);
  hk_store_release(&entry->key, is_to_be_known ? address | MARK_FREED : MARK_FREED);
  return true;
}

static void visit_table(unsigned i, void (*visit)(const hk_sample_t *sample, void *context), void *context) {
  entry_t *table = hk_load_acquire(&tables[i]);
  if (table == NULL) return;
  for (size_t at = 0; at < entry_count(i); at++) {
    hk_sample_t sample;
    uintptr_t key = hk_load_acquire(&table[at].key);
    if (key == 0 || (key & (MARK_FREED | MARK_BUSY)) != 0) continue;
    if (read(&table[at], key, &sample)) visit(&sample, context);
  }
}

void hk_sample_visit(void (*visit)(const hk_sample_t *sample, void *context), void *context) {
  for (unsigned i = 0; i < TABLE_COUNT; i++) visit_table(i, visit, context);
}
