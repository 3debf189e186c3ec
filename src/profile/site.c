/* profile/site.c - L5. See site.h. A hash table of lists that only grow at their heads. Records lie one behind the other in a range
 * of our own: address space at once, memory as sites come. */
#include "profile/site.h"

#include <stddef.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/bits.h"
#include "base/units.h"
#include "os/os.h"

/* Address space for some 30,000 sites; where it is not to be had, less does. */
#define RANGE_BYTES_MAX (16 * HK_MIB)
#define RANGE_BYTES_MIN (256 * HK_KIB)
#define BUCKET_SHIFT 12
#define BUCKET_COUNT (1u << BUCKET_SHIFT)

/* At the range's start. The records follow. */
typedef struct {
  size_t bytes;         /* of all of the range */
  _Atomic(size_t) used; /* of it; beyond `bytes`: it is full */
  _Atomic(hk_site_t *) buckets[BUCKET_COUNT];
} table_t;

static _Atomic(table_t *) table;
/* Where the system had no memory for a table, it is not asked again. */
static _Atomic(bool) is_refused;

static hk_site_lives_t shared_lives;
static hk_site_past_t shared_past;
static hk_site_t shared_site = {.lives = &shared_lives, .past = &shared_past};

/* ---- The table. */

static table_t *make_table(void) {
  if (hk_load_relaxed(&is_refused)) return NULL;
  table_t *made = NULL, *found = NULL;
  size_t bytes = 2 * RANGE_BYTES_MAX;
  while (made == NULL && bytes > RANGE_BYTES_MIN) {
    bytes /= 2;
    made = hk_os_reserve(bytes, hk_os_page_size());
  }
  if (made == NULL) {
    hk_store_relaxed(&is_refused, true);
    return hk_load_acquire(&table);
  }
  made->bytes = bytes;
  hk_store_relaxed(&made->used, hk_align_up(sizeof(table_t), HK_CACHE_LINE_BYTES));
  if (hk_publish_once(&table, &found, made)) return made;
  (void)hk_os_unmap(made, made->bytes);
  return found;
}

static table_t *get_table(void) {
  table_t *known = hk_load_acquire(&table);
  return HK_LIKELY(known != NULL) ? known : make_table();
}

/* Zero; NULL where the table is full. */
static void *take(table_t *where, size_t bytes) {
  bytes = hk_align_up(bytes, HK_CACHE_LINE_BYTES);
  if (hk_load_relaxed(&where->used) > where->bytes - bytes) return NULL;
  size_t start = hk_add_relaxed(&where->used, bytes);
  return start <= where->bytes - bytes ? (char *)where + start : NULL;
}

static hk_site_t *take_record(table_t *where, unsigned count) {
  return take(where, sizeof(hk_site_t) + count * sizeof(uintptr_t));
}

/* ---- Finding. */

static uint64_t hash_of(const uintptr_t *frames, unsigned count) {
  uint64_t hash = count;
  for (unsigned i = 0; i < count; i++) {
    hash = (hash ^ frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 32;
  }
  return hash;
}

static bool is_site(const hk_site_t *site, uint64_t hash, const uintptr_t *frames, unsigned count) {
  return site->hash == hash && site->frame_count == count &&
         memcmp(site->frames, frames, count * sizeof(uintptr_t)) == 0;
}

/* From `from` on, but not `until` or what is behind. */
static hk_site_t *find(hk_site_t *from, const hk_site_t *until, uint64_t hash, const uintptr_t *frames,
                       unsigned count) {
  for (; from != until; from = from->next) {
    if (is_site(from, hash, frames, count)) return from;
  }
  return NULL;
}

/* Two threads may meet with one stack: who comes second leaves its record unused. */
static hk_site_t *add(table_t *where, _Atomic(hk_site_t *) *bucket, hk_site_t *head, uint64_t hash,
                      const uintptr_t *frames, unsigned count) {
  hk_site_t *made = take_record(where, count);
  if (made == NULL) return &shared_site;
  made->hash = hash;
  made->frame_count = count;
  if (count > 0) memcpy(made->frames, frames, count * sizeof(uintptr_t));
  for (;;) {
    hk_site_t *seen = head;
    made->next = head;
    if (hk_publish_once(bucket, &head, made)) return made;
    hk_site_t *others = find(head, seen, hash, frames, count);
    if (others != NULL) return others;
  }
}

hk_site_t *hk_site_of(const uintptr_t *frames, unsigned count) {
  table_t *where = get_table();
  if (where == NULL) return &shared_site;
  if (count > HK_SITE_FRAMES_MAX) count = HK_SITE_FRAMES_MAX;
  uint64_t hash = hash_of(frames, count);
  _Atomic(hk_site_t *) *bucket = &where->buckets[hash >> (64 - BUCKET_SHIFT)];
  hk_site_t *head = hk_load_acquire(bucket);
  hk_site_t *found = find(head, NULL, hash, frames, count);
  return found != NULL ? found : add(where, bucket, head, hash, frames, count);
}

bool hk_site_is_shared(const hk_site_t *site) { return site == &shared_site; }

/* The first site of a bucket from the `index`-th on; behind them all the shared one, if it was ever used. */
static hk_site_t *first_from(size_t index) {
  table_t *where = hk_load_acquire(&table);
  for (; where != NULL && index < BUCKET_COUNT; index++) {
    hk_site_t *site = hk_load_acquire(&where->buckets[index]);
    if (site != NULL) return site;
  }
  return hk_load_relaxed(&shared_site.allocated.samples) > 0 ? &shared_site : NULL;
}

hk_site_t *hk_site_next(const hk_site_t *previous) {
  if (previous == NULL) return first_from(0);
  if (previous == &shared_site) return NULL;
  if (previous->next != NULL) return previous->next;
  return first_from((previous->hash >> (64 - BUCKET_SHIFT)) + 1);
}

/* ---- Counting. */

static void count(hk_site_sums_t *sums, const hk_sample_weight_t *weight) {
  (void)hk_add_relaxed(&sums->samples, 1);
  (void)hk_add_relaxed(&sums->objects_q16, weight->weight_q16);
  (void)hk_add_relaxed(&sums->requested_bytes, hk_site_weighted(weight->requested_bytes, weight->weight_q16));
  (void)hk_add_relaxed(&sums->block_bytes, hk_site_weighted(weight->block_bytes, weight->weight_q16));
}

void hk_site_count_alloc(hk_site_t *site, const hk_sample_weight_t *weight) { count(&site->allocated, weight); }

/* Two threads may free a site's first blocks: who comes second leaves its part unused. */
static hk_site_lives_t *lives_of(hk_site_t *site) {
  hk_site_lives_t *known = hk_load_acquire(&site->lives);
  if (HK_LIKELY(known != NULL)) return known;
  hk_site_lives_t *made = take(hk_load_acquire(&table), sizeof(hk_site_lives_t));
  return made == NULL || hk_publish_once(&site->lives, &known, made) ? made : known;
}

void hk_site_count_free(hk_site_t *site, const hk_sample_weight_t *weight, uint64_t lived_ms) {
  unsigned bucket = lived_ms == 0 ? 0 : hk_highest_bit(lived_ms) + 1;
  if (bucket >= HK_SITE_LIFETIMES) bucket = HK_SITE_LIFETIMES - 1;
  hk_site_lives_t *lives = lives_of(site);
  if (lives != NULL) (void)hk_add_relaxed(&lives->blocks_q16[bucket], weight->weight_q16);
  count(&site->freed, weight);
}

static uint64_t since(const _Atomic(uint64_t) *now, const _Atomic(uint64_t) *before) {
  return hk_subtract_to_zero(hk_load_relaxed(now), hk_load_relaxed(before));
}

void hk_site_read(const hk_site_t *site, hk_site_figures_t *allocated, hk_site_figures_t *in_use) {
  static const hk_site_sums_t nothing;
  const hk_site_past_t *past = hk_load_acquire(&((hk_site_t *)site)->past);
  const hk_site_sums_t *gone = &site->freed, *came = &site->allocated;
  const hk_site_sums_t *before = past != NULL ? &past->allocated : &nothing;
  hk_site_figures_t freed = {hk_load_relaxed(&gone->objects_q16), hk_load_relaxed(&gone->requested_bytes),
                             hk_load_relaxed(&gone->block_bytes), hk_load_relaxed(&gone->samples)};
  in_use->objects = hk_site_rounded(hk_subtract_to_zero(hk_load_relaxed(&came->objects_q16), freed.objects));
  in_use->requested_bytes = hk_subtract_to_zero(hk_load_relaxed(&came->requested_bytes), freed.requested_bytes);
  in_use->block_bytes = hk_subtract_to_zero(hk_load_relaxed(&came->block_bytes), freed.block_bytes);
  in_use->samples = hk_subtract_to_zero(hk_load_relaxed(&came->samples), freed.samples);
  *allocated =
      (hk_site_figures_t){hk_site_rounded(since(&came->objects_q16, &before->objects_q16)),
                          since(&came->requested_bytes, &before->requested_bytes),
                          since(&came->block_bytes, &before->block_bytes), since(&came->samples, &before->samples)};
}

uint64_t hk_site_lifetime(const hk_site_t *site, unsigned bucket) {
  static const _Atomic(uint64_t) none;
  const hk_site_lives_t *lives = hk_load_acquire(&((hk_site_t *)site)->lives);
  const hk_site_past_t *past = hk_load_acquire(&((hk_site_t *)site)->past);
  if (lives == NULL) return 0;
  return hk_site_rounded(since(&lives->blocks_q16[bucket], past != NULL ? &past->lives.blocks_q16[bucket] : &none));
}

static void keep(_Atomic(uint64_t) *before, const _Atomic(uint64_t) *now) {
  hk_store_relaxed(before, hk_load_relaxed(now));
}

/* Where the profile is stopped and started again meanwhile two threads may be here. */
static hk_site_past_t *past_of(hk_site_t *site) {
  hk_site_past_t *known = hk_load_acquire(&site->past);
  if (known != NULL) return known;
  hk_site_past_t *made = take(hk_load_acquire(&table), sizeof(hk_site_past_t));
  return made == NULL || hk_publish_once(&site->past, &known, made) ? made : known;
}

static void begin(hk_site_t *site) {
  hk_site_past_t *past = past_of(site);
  if (past == NULL) return;
  keep(&past->allocated.samples, &site->allocated.samples);
  keep(&past->allocated.objects_q16, &site->allocated.objects_q16);
  keep(&past->allocated.requested_bytes, &site->allocated.requested_bytes);
  keep(&past->allocated.block_bytes, &site->allocated.block_bytes);
  const hk_site_lives_t *lives = hk_load_acquire(&site->lives);
  if (lives == NULL) return;
  for (unsigned i = 0; i < HK_SITE_LIFETIMES; i++) keep(&past->lives.blocks_q16[i], &lives->blocks_q16[i]);
}

void hk_site_begin_all(void) {
  for (hk_site_t *site = hk_site_next(NULL); site != NULL; site = hk_site_next(site)) begin(site);
}
