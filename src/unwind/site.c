/* unwind/site.c - L6. See site.h. Two hash tables have lists that grow only at their heads. `buckets` leads
 * from the hash of a whole stack to its site. `branches` leads to the stem of a new stack, frame by frame. The records
 * lie one behind the other in one range of addresses, which is reserved at once. Its pages become resident as sites are
 * added. */
#include "unwind/site.h"

#include <stddef.h>
#include <string.h>

#include "base/bits.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/units.h"
#include "os/os.h"

/* Addresses for about 70,000 sites. Where the system refuses them, make_table tries half as many, down to the
 * minimum. */
#define RANGE_BYTES_MAX (16 * HK_MIB)
#define RANGE_BYTES_MIN (256 * HK_KIB)
#define BUCKET_SHIFT 12
#define BUCKET_COUNT (1u << BUCKET_SHIFT)

/* The range's start. The records follow. */
typedef struct {
  size_t bytes;                    /* of the whole range */
  _Atomic(size_t) used;            /* taken so far; may exceed `bytes` when the range is full */
  _Atomic(hk_site_place_t) labels; /* newest first */
  _Atomic(hk_site_place_t) buckets[BUCKET_COUNT];
  /* By a hash of the stem, of the number of frames that the branch shares with it, and of the next frame inwards. */
  _Atomic(hk_site_place_t) branches[BUCKET_COUNT];
} table_t;

static _Atomic(table_t *) published_table;
/* The system has refused memory for a table; no later call tries again. */
static _Atomic(bool) is_refused;

static hk_site_t shared_site;

/* ---- The table. */

static table_t *make_table(void) {
  if (hk_load_relaxed(&is_refused)) return NULL;
  table_t *made = NULL, *found = NULL;
  size_t bytes = 2 * RANGE_BYTES_MAX;
  while (made == NULL && bytes > RANGE_BYTES_MIN) {
    bytes /= 2;
    made = hk_os_reserve_small(bytes, hk_os_page_size());
  }
  if (made == NULL) {
    hk_store_relaxed(&is_refused, true);
    return hk_load_acquire(&published_table);
  }
  made->bytes = bytes;
  hk_store_relaxed(&made->used, hk_align_up(sizeof(table_t), HK_CACHE_LINE_BYTES));
  if (hk_publish_once(&published_table, &found, made)) return made;
  (void)hk_os_unmap(made, made->bytes);
  return found;
}

static table_t *get_table(void) {
  table_t *known = hk_load_acquire(&published_table);
  return HK_LIKELY(known != NULL) ? known : make_table();
}

/* Takes zeroed memory from the range. Returns 0 when it is full. */
static hk_site_place_t take_memory(table_t *table, size_t bytes) {
  bytes = hk_align_up(bytes, sizeof(uint64_t));
  if (hk_load_relaxed(&table->used) > table->bytes - bytes) return 0;
  size_t start = hk_add_relaxed(&table->used, bytes);
  return start <= table->bytes - bytes ? (hk_site_place_t)start : 0;
}

/* Returns NULL for the place 0. */
static void *record_at(const table_t *table, hk_site_place_t place) {
  return place != 0 ? (char *)table + place : NULL;
}

static hk_site_t *site_at(const table_t *table, hk_site_place_t place) { return record_at(table, place); }

static hk_site_place_t place_of(const table_t *table, const hk_site_t *site) {
  return (hk_site_place_t)((const char *)site - (const char *)table);
}

/* ---- Frames. */

/* The frames of a stack that a reader, which starts at the innermost one, has not read yet: the outermost `count`
 * frames of `site`. */
typedef struct {
  const table_t *table;
  const hk_site_t *site;
  unsigned count;
} rest_t;

static rest_t begin_rest(const table_t *table, const hk_site_t *site) {
  return (rest_t){table, site, site->frame_count};
}

/* Sets `*piece` to the next frames, as many as lie in one record. Returns their number; 0 at the end. */
static unsigned next_piece(rest_t *rest, const uintptr_t **piece) {
  while (rest->count > 0) {
    const hk_site_t *site = rest->site;
    unsigned before = rest->count, skipped = site->frame_count - before;
    *piece = site->own_frames + skipped;
    rest->count = site->stem_frames;
    rest->site = site_at(rest->table, site->stem);
    if (before > site->stem_frames) return before - site->stem_frames;
  }
  return 0;
}

unsigned hk_site_frames(const hk_site_t *site, uintptr_t *frames) {
  rest_t rest = begin_rest(hk_load_acquire(&published_table), site);
  const uintptr_t *piece;
  unsigned count = 0, more;
  for (; (more = next_piece(&rest, &piece)) > 0; count += more) memcpy(frames + count, piece, more * sizeof *piece);
  return count;
}

/* ---- Finding. */

/* A stack to find. */
typedef struct {
  const uintptr_t *frames;
  unsigned count;
  uint32_t hash;
} wanted_t;

/* Returns the hash's upper 32 bits. A bucket's number is their upper bits. */
static uint32_t hash_of(const uintptr_t *frames, unsigned count) {
  uint64_t hash = count;
  for (unsigned i = 0; i < count; i++) hash = hk_hash_add(hash, frames[i]);
  return (uint32_t)(hk_hash(hash) >> 32);
}

static unsigned bucket_of(uint32_t hash) { return hash >> (32 - BUCKET_SHIFT); }

static bool is_site(const table_t *table, const hk_site_t *site, const wanted_t *stack) {
  if (site->hash != stack->hash || site->frame_count != stack->count || site->label != 0) return false;
  rest_t rest = begin_rest(table, site);
  const uintptr_t *piece, *frames = stack->frames;
  for (unsigned count; (count = next_piece(&rest, &piece)) > 0; frames += count) {
    if (memcmp(piece, frames, count * sizeof *piece) != 0) return false;
  }
  return true;
}

/* Searches a list from `from` on, up to the site before `until`. */
static hk_site_t *find_site(const table_t *table, hk_site_place_t from, hk_site_place_t until, const wanted_t *stack) {
  while (from != until) {
    hk_site_t *site = site_at(table, from);
    if (is_site(table, site, stack)) return site;
    from = site->next;
  }
  return NULL;
}

/* ---- Stems. */

/* A site, and the number of its outermost frames that another site shares. */
typedef struct {
  hk_site_place_t place;
  uint16_t frames;
} stem_t;

static _Atomic(hk_site_place_t) *branches_of(table_t *table, hk_site_place_t stem, unsigned stem_frames,
                                             uintptr_t frame) {
  uint64_t hash = hk_hash(hk_hash_add(hk_hash_add(stem, stem_frames), frame));
  return &table->branches[hash >> (64 - BUCKET_SHIFT)];
}

/* Returns the branch that continues with `frame` after the stem's outermost `stem_frames` frames; NULL when none
 * does. */
static const hk_site_t *find_branch(table_t *table, hk_site_place_t stem, unsigned stem_frames, uintptr_t frame) {
  const hk_site_t *site = site_at(table, hk_load_acquire(branches_of(table, stem, stem_frames, frame)));
  for (; site != NULL; site = site_at(table, site->next_branch)) {
    if (site->stem != stem || site->stem_frames != stem_frames) continue;
    if (site->own_frames[site->frame_count - stem_frames - 1] == frame) return site;
  }
  return NULL;
}

/* Finds the stem from the outermost frame inwards, branch by branch. It may miss a site that another thread is
 * adding: then two records have the same frames. */
static stem_t find_stem(table_t *table, const wanted_t *stack) {
  stem_t stem = {.place = 0};
  unsigned same = 0;
  while (same < stack->count) {
    const hk_site_t *branch = find_branch(table, stem.place, same, stack->frames[stack->count - same - 1]);
    if (branch == NULL) break;
    while (same < stack->count && same < branch->frame_count &&
           branch->own_frames[branch->frame_count - same - 1] == stack->frames[stack->count - same - 1]) {
      same++;
    }
    stem.place = place_of(table, branch);
  }
  stem.frames = (uint16_t)same;
  return stem;
}

/* Enters the site as a branch, so that it may become a stem. A site without frames of its own is of no use as one. */
static void add_branch(table_t *table, hk_site_t *site) {
  if (site->stem_frames == site->frame_count) return;
  uintptr_t frame = site->own_frames[site->frame_count - site->stem_frames - 1];
  _Atomic(hk_site_place_t) *head = branches_of(table, site->stem, site->stem_frames, frame);
  hk_site_place_t before = hk_load_relaxed(head);
  do {
    site->next_branch = before;
  } while (!hk_compare_exchange_weak_acq_rel(head, &before, place_of(table, site)));
}

/* ---- Adding. */

/* Returns NULL when the table is full. */
static hk_site_t *make_site(table_t *table, const wanted_t *stack) {
  stem_t stem = find_stem(table, stack);
  size_t own_bytes = (stack->count - stem.frames) * sizeof(uintptr_t);
  hk_site_t *made = site_at(table, take_memory(table, sizeof(hk_site_t) + own_bytes));
  if (made == NULL) return NULL;
  made->stem = stem.place;
  made->stem_frames = stem.frames;
  made->hash = stack->hash;
  made->frame_count = (uint16_t)stack->count;
  if (own_bytes > 0) memcpy(made->own_frames, stack->frames, own_bytes);
  return made;
}

/* Adds a site and returns it; the shared one when the table is full. Of two threads that add the same stack at once,
 * the second one leaves its record unused and returns the first one's site. */
static hk_site_t *add_site(table_t *table, _Atomic(hk_site_place_t) *bucket, hk_site_place_t head,
                           const wanted_t *stack) {
  hk_site_t *made = make_site(table, stack);
  if (made == NULL) return &shared_site;
  for (;;) {
    hk_site_place_t seen = head;
    made->next = head;
    if (hk_publish_once(bucket, &head, place_of(table, made))) break;
    hk_site_t *others = find_site(table, head, seen, stack);
    if (others != NULL) return others;
  }
  add_branch(table, made);
  return made;
}

hk_site_t *hk_site_of(const uintptr_t *frames, unsigned count) {
  table_t *table = get_table();
  if (table == NULL) return &shared_site;
  if (count > HK_SITE_FRAMES_MAX) count = HK_SITE_FRAMES_MAX;
  wanted_t stack = {frames, count, hash_of(frames, count)};
  _Atomic(hk_site_place_t) *bucket = &table->buckets[bucket_of(stack.hash)];
  hk_site_place_t head = hk_load_acquire(bucket);
  hk_site_t *found = find_site(table, head, 0, &stack);
  return found != NULL ? found : add_site(table, bucket, head, &stack);
}

bool hk_site_is_shared(const hk_site_t *site) { return site == &shared_site; }

/* ---- Labels. */

static const hk_site_label_t *label_at(const table_t *table, hk_site_place_t place) { return record_at(table, place); }

static hk_site_place_t find_label(const table_t *table, hk_site_place_t from, const char *name, bool is_tag) {
  while (from != 0 && (label_at(table, from)->is_tag != is_tag || strcmp(label_at(table, from)->name, name) != 0))
    from = label_at(table, from)->next;
  return from;
}

/* Returns 0 when there is no room. */
static hk_site_place_t label_of(table_t *table, const char *name, bool is_tag) {
  hk_site_place_t head = hk_load_acquire(&table->labels), found = find_label(table, head, name, is_tag);
  if (found != 0) return found;
  if (head != 0 && label_at(table, head)->number + 2 >= HK_SITE_LABELS_MAX) {
    name = "others";
    found = find_label(table, head, name, is_tag);
    if (found != 0 || label_at(table, head)->number + 1 >= HK_SITE_LABELS_MAX) return found;
  }
  hk_site_place_t place = take_memory(table, sizeof(hk_site_label_t));
  hk_site_label_t *made = record_at(table, place);
  if (made == NULL) return 0;
  made->is_tag = is_tag;
  memcpy(made->name, name, strlen(name) + 1);
  for (;;) {
    made->next = head;
    made->number = head != 0 ? (uint16_t)(label_at(table, head)->number + 1) : 0;
    if (made->number >= HK_SITE_LABELS_MAX) return 0;
    if (hk_publish_once(&table->labels, &head, place)) return place;
    found = find_label(table, head, name, is_tag);
    if (found != 0) return found;
  }
}

static hk_site_t *find_labelled(const table_t *table, hk_site_place_t from, hk_site_place_t until,
                                const hk_site_t *wanted) {
  for (; from != until; from = site_at(table, from)->next) {
    hk_site_t *site = site_at(table, from);
    if (site->label == wanted->label && site->stem == wanted->stem) return site;
  }
  return NULL;
}

/* Adds the site of the wanted stem and label, as add_site does. Returns NULL when the table is full. */
static hk_site_t *add_labelled(table_t *table, _Atomic(hk_site_place_t) *bucket, hk_site_place_t head,
                               const hk_site_t *wanted) {
  hk_site_t *made = site_at(table, take_memory(table, sizeof(hk_site_t)));
  if (made == NULL) return NULL;
  made->stem = wanted->stem;
  made->label = wanted->label;
  made->hash = wanted->hash;
  made->frame_count = made->stem_frames = wanted->frame_count;
  for (;;) {
    hk_site_place_t seen = head;
    made->next = head;
    if (hk_publish_once(bucket, &head, place_of(table, made))) return made;
    hk_site_t *others = find_labelled(table, head, seen, wanted);
    if (others != NULL) return others;
  }
}

hk_site_t *hk_site_with_label(hk_site_t *site, const char *name, bool is_tag) {
  char plain_name[HK_SITE_LABEL_BYTES];
  table_t *table = get_table();
  if (table == NULL || site == &shared_site) return site;
  hk_format_t plain;
  hk_format_init(&plain, plain_name, sizeof plain_name);
  hk_format_name(&plain, name);
  hk_site_t wanted = {
      .label = label_of(table, plain_name, is_tag), .stem = place_of(table, site), .frame_count = site->frame_count};
  if (wanted.label == 0) return site;
  wanted.hash = (uint32_t)(hk_hash(hk_hash_add(site->hash, wanted.label)) >> 32);
  _Atomic(hk_site_place_t) *bucket = &table->buckets[bucket_of(wanted.hash)];
  hk_site_place_t head = hk_load_acquire(bucket);
  hk_site_t *found = find_labelled(table, head, 0, &wanted);
  if (found == NULL) found = add_labelled(table, bucket, head, &wanted);
  return found != NULL ? found : site;
}

const hk_site_label_t *hk_site_label(const hk_site_t *site) {
  return site->label != 0 ? label_at(hk_load_acquire(&published_table), site->label) : NULL;
}

/* Returns the first site of the buckets from `index` on; behind them the shared one, if it was ever used. */
static hk_site_t *first_from(size_t index) {
  table_t *table = hk_load_acquire(&published_table);
  for (; table != NULL && index < BUCKET_COUNT; index++) {
    hk_site_t *site = site_at(table, hk_load_acquire(&table->buckets[index]));
    if (site != NULL) return site;
  }
  return hk_load_relaxed(&shared_site.allocated.samples) > 0 ? &shared_site : NULL;
}

hk_site_t *hk_site_next(const hk_site_t *previous) {
  if (previous == NULL) return first_from(0);
  if (previous == &shared_site) return NULL;
  if (previous->next != 0) return site_at(hk_load_acquire(&published_table), previous->next);
  return first_from((size_t)bucket_of(previous->hash) + 1);
}

/* ---- Parts of a site. */

void *hk_site_find_part(const _Atomic(hk_site_place_t) *place) {
  return record_at(hk_load_acquire(&published_table), hk_load_acquire(place));
}

void *hk_site_get_part(_Atomic(hk_site_place_t) *place, size_t bytes) {
  table_t *table = hk_load_acquire(&published_table);
  hk_site_place_t known = hk_load_acquire(place);
  if (HK_LIKELY(known != 0)) return record_at(table, known);
  hk_site_place_t made = take_memory(table, bytes);
  return record_at(table, made == 0 || hk_publish_once(place, &known, made) ? made : known);
}
