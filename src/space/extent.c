/* space/extent.c - L3. See extent.h.
 *
 * In the child of fork every link may be half set, if another thread was in the middle of a change: `is_changing` says
 * so. Then all extents are forgotten, and the child loses their addresses. Their tags stay in the descriptors. So a tag
 * is valid only if its age is above `forgotten_until`.
 */
#include "space/extent.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/list.h"
#include "base/panic.h"
#include "base/units.h"
#include "policy/stat.h"
#include "space/dirty.h"
#include "space/region_map.h"
#include "space/slab.h"

/* Eight buckets to a doubling, up to the whole address space. Bucket i < 8 has extents of i slabs. */
#define BUCKETS_SHIFT 3
#define BUCKET_COUNT 256
#define BUCKET_WORDS (BUCKET_COUNT / 64)

static_assert(((HK_ADDRESS_BITS - HK_SLAB_SHIFT - BUCKETS_SHIFT + 2) << BUCKETS_SHIFT) <= BUCKET_COUNT,
              "the longest extent has a bucket");

/* Chosen: number of extents of a bucket to examine for the best fit. Their sizes differ by at most an eighth. */
#define LOOK_MAX 16

/* Guarded by hk_lock_space. Other threads read the atomic sums without it. */
static struct {
  bool is_changing;
  uint64_t forgotten_until; /* tags of this age and below are left over from before a fork */
  /* Bit i: bucket i is not empty. A bucket's list is set up when its first extent comes. */
  uint64_t bucket_mask[BUCKET_WORDS];
  hk_list_t bucket[BUCKET_COUNT]; /* through link */
  hk_list_t dirty; /* dirty extents through extent.link, the oldest first; not set up while next is NULL */
  hk_list_t zero;  /* the same of extents that are zero */
  _Atomic(size_t) count;
  _Atomic(size_t) free_bytes;
} extents;

/* ---- Marks a change, for the child of a fork that interrupts it. */

void hk_extent_mark_changing_locked(void) {
  if (extents.dirty.next == NULL) {
    hk_list_init(&extents.dirty);
    hk_list_init(&extents.zero);
  }
  extents.is_changing = true;
  hk_keep_store_order();
}

static void unmark_changing_locked(void) {
  hk_keep_store_order();
  extents.is_changing = false;
}

/* ---- Tags. The first slab's descriptor describes the extent, the last one's leads to it. */

static bool is_tag_locked(const hk_slab_t *slab) { return slab->extent.since > extents.forgotten_until; }

/* `free_list` of an extent's first slab holds the extent's start: it has no other use there. */
static uintptr_t start_of(const hk_slab_t *first) { return (uintptr_t)first->free_list; }
static size_t bytes_of(const hk_slab_t *first) { return hk_load_relaxed(&((hk_slab_t *)first)->bytes); }

static hk_extent_t extent_of(const hk_slab_t *first) {
  return (hk_extent_t){.start = start_of(first), .bytes = bytes_of(first), .is_zero = first->is_zero};
}

static hk_slab_t *last_slab(hk_extent_t extent) { return hk_slab_of((void *)(extent.start + extent.bytes - 1)); }

static void tag(hk_slab_t *slab, hk_slab_t *first, uint64_t since) {
  slab->head = first;
  slab->superslab = NULL; /* the addresses may have been a superslab's */
  slab->extent.since = since;
  hk_slab_set_state(slab, hk_slab_free);
}

static void untag(hk_slab_t *slab) {
  slab->extent.since = 0;
  hk_slab_set_state(slab, hk_slab_none);
}

/* ---- Buckets. */

static unsigned bucket_of(size_t bytes) {
  size_t slabs = bytes >> HK_SLAB_SHIFT;
  if (slabs < (1u << BUCKETS_SHIFT)) return (unsigned)slabs;
  unsigned shift = hk_highest_bit(slabs) - BUCKETS_SHIFT;
  return (shift << BUCKETS_SHIFT) + (unsigned)(slabs >> shift);
}

/* Returns the first bucket from `bucket` on that is not empty; BUCKET_COUNT when all are empty. */
static unsigned next_bucket_locked(unsigned bucket) {
  if (bucket >= BUCKET_COUNT) return BUCKET_COUNT;
  unsigned word = bucket / 64;
  uint64_t mask = extents.bucket_mask[word] >> (bucket % 64) << (bucket % 64);
  while (mask == 0) {
    if (++word == BUCKET_WORDS) return BUCKET_COUNT;
    mask = extents.bucket_mask[word];
  }
  return word * 64 + hk_lowest_bit(mask);
}

/* Returns the last bucket before `end` that is not empty; BUCKET_COUNT when all are empty. */
static unsigned last_bucket_locked(unsigned end) {
  for (unsigned word = (end + 63) / 64; word-- > 0;) {
    uint64_t below = end >= word * 64 + 64 ? UINT64_MAX : (UINT64_C(1) << end % 64) - 1;
    uint64_t mask = extents.bucket_mask[word] & below;
    if (mask != 0) return word * 64 + hk_highest_bit(mask);
  }
  return BUCKET_COUNT;
}

static void bucket_push_locked(hk_slab_t *first) {
  unsigned bucket = bucket_of(bytes_of(first));
  uint64_t bit = UINT64_C(1) << (bucket % 64);
  if ((extents.bucket_mask[bucket / 64] & bit) == 0) hk_list_init(&extents.bucket[bucket]);
  extents.bucket_mask[bucket / 64] |= bit;
  hk_list_push_front(&extents.bucket[bucket], &first->link);
}

static void bucket_remove_locked(hk_slab_t *first) {
  unsigned bucket = bucket_of(bytes_of(first));
  hk_list_remove(&first->link);
  if (hk_list_is_empty(&extents.bucket[bucket])) extents.bucket_mask[bucket / 64] &= ~(UINT64_C(1) << (bucket % 64));
}

/* ---- Links and unlinks one extent. */

static void sum_up_locked(size_t count, hk_extent_t extent, bool is_in) {
  size_t bytes = is_in ? extent.bytes : -extent.bytes;
  hk_bump_relaxed(&extents.count, count);
  hk_bump_relaxed(&extents.free_bytes, bytes);
  if (!extent.is_zero) hk_bump_relaxed(&hk_dirty_extents.dirty_bytes, bytes);
}

#if HK_DEBUG

static bool is_tagged_at(uintptr_t address) { return is_tag_locked(hk_slab_of_any(address)); }

/* Checks one extent that is linked. */
static void check_extent_locked(const hk_slab_t *first) {
  hk_extent_t extent = extent_of(first);
  HK_REQUIRE(extent.bytes != 0 && (extent.start | extent.bytes) % HK_SLAB_BYTES == 0, "a free extent is whole slabs");
  HK_REQUIRE(hk_slab_of((void *)extent.start) == first, "a free extent's first slab has its start");
  const hk_slab_t *last = last_slab(extent);
  HK_REQUIRE(first->head == first && last->head == first, "a free extent's tags lead to its first slab");
  HK_REQUIRE(first->extent.since == last->extent.since && is_tag_locked(first), "a free extent's tags have its age");
  HK_REQUIRE(hk_slab_state(first) == hk_slab_free && hk_slab_state(last) == hk_slab_free,
             "a free extent's slabs are free");
  HK_REQUIRE(!is_tagged_at(extent.start - 1) && !is_tagged_at(extent.start + extent.bytes),
             "free extents do not touch");
}

#else
static void check_extent_locked(const hk_slab_t *first) { (void)first; }
#endif

/* Links an extent behind `older` in the order of age. */
static void link_locked(hk_extent_t extent, uint64_t since, hk_list_t *older) {
  hk_slab_t *first = hk_slab_of((void *)extent.start), *last = last_slab(extent);
  first->free_list = (hk_free_list_t *)extent.start;
  first->is_zero = extent.is_zero;
  hk_store_relaxed(&last->bytes, HK_SLAB_BYTES); /* for hk_region_map_find_below: the extent ends here */
  hk_store_relaxed(&first->bytes, extent.bytes);
  tag(first, first, since);
  tag(last, first, since);
  bucket_push_locked(first);
  hk_list_insert_after(older, &first->extent.link);
  sum_up_locked(1, extent, true);
  check_extent_locked(first);
}

static hk_extent_t unlink_locked(hk_slab_t *first) {
  hk_extent_t extent = extent_of(first);
  HK_ASSERT(first->head == first && last_slab(extent)->head == first, "an extent's tags lead to its first slab");
  bucket_remove_locked(first);
  hk_list_remove(&first->extent.link);
  untag(last_slab(extent));
  untag(first);
  sum_up_locked((size_t)-1, extent, false);
  return extent;
}

/* ---- The walk. */

#if HK_DEBUG

typedef struct {
  size_t count;
  size_t bytes;
} walked_t;

static walked_t check_ages_locked(const hk_list_t *list, bool is_zero) {
  walked_t walked = {0, 0};
  uint64_t age = 0;
  for (const hk_list_t *node = list->next; node != list && node != NULL; node = node->next) {
    const hk_slab_t *first = HK_CONTAINER_OF(node, hk_slab_t, extent.link);
    HK_REQUIRE(node->next->previous == node, "the list of free extents by age is whole");
    check_extent_locked(first);
    HK_REQUIRE(first->is_zero == is_zero,
               "a free extent is in the list of the zero ones, or of the dirty ones, as it is");
    HK_REQUIRE(first->extent.since >= age, "free extents lie in the order of age");
    age = first->extent.since;
    walked.count++;
    walked.bytes += bytes_of(first);
  }
  return walked;
}

static size_t check_bucket_locked(unsigned bucket) {
  size_t count = 0;
  for (const hk_list_t *node = extents.bucket[bucket].next; node != &extents.bucket[bucket]; node = node->next) {
    HK_REQUIRE(node->next->previous == node, "a bucket of free extents is whole");
    HK_REQUIRE(bucket_of(bytes_of(HK_CONTAINER_OF(node, hk_slab_t, link))) == bucket,
               "a free extent is in the bucket of its size");
    count++;
  }
  HK_REQUIRE(count > 0, "a bucket that is marked has a free extent");
  return count;
}

uint64_t hk_extent_check_locked(void) {
  HK_REQUIRE(!extents.is_changing, "no change of the free extents is under way");
  walked_t dirty = check_ages_locked(&extents.dirty, false), zero = check_ages_locked(&extents.zero, true);
  size_t in_buckets = 0;
  for (unsigned bucket = next_bucket_locked(0); bucket < BUCKET_COUNT; bucket = next_bucket_locked(bucket + 1))
    in_buckets += check_bucket_locked(bucket);
  HK_REQUIRE(in_buckets == dirty.count + zero.count, "each free extent is in a bucket and in the order of age");
  HK_REQUIRE(hk_load_relaxed(&extents.count) == in_buckets, "the count of free extents is their number");
  HK_REQUIRE(hk_load_relaxed(&extents.free_bytes) == dirty.bytes + zero.bytes,
             "the free bytes are those of all free extents");
  HK_REQUIRE(hk_load_relaxed(&hk_dirty_extents.dirty_bytes) == dirty.bytes,
             "the dirty bytes are those of the dirty extents");
  return in_buckets;
}

#endif

/* ---- Putting back. */

static hk_list_t *youngest_locked(bool is_zero) { return is_zero ? extents.zero.previous : extents.dirty.previous; }

void hk_extent_put_locked(hk_extent_t extent) {
  hk_extent_mark_changing_locked();
  hk_slab_t *before = hk_slab_of_any(extent.start - 1);
  hk_slab_t *behind = hk_slab_of_any(extent.start + extent.bytes);
  if (is_tag_locked(before)) {
    hk_extent_t other = unlink_locked(before->head);
    HK_ASSERT(other.start + other.bytes == extent.start, "an extent before a range ends where the range begins");
    untag(hk_slab_of((void *)extent.start)); /* the first slab of a freed block says hk_slab_free */
    extent = (hk_extent_t){other.start, other.bytes + extent.bytes, other.is_zero && extent.is_zero};
  }
  if (is_tag_locked(behind)) {
    hk_extent_t other = unlink_locked(behind);
    HK_ASSERT(other.start == extent.start + extent.bytes, "an extent behind a range begins where the range ends");
    extent = (hk_extent_t){extent.start, extent.bytes + other.bytes, other.is_zero && extent.is_zero};
  }
  link_locked(extent, hk_dirty_next_age_locked(&hk_dirty_extents), youngest_locked(extent.is_zero));
  unmark_changing_locked();
}

/* ---- Taking. */

/* Returns where `bytes` fit into the extent; 0 where they do not. */
static uintptr_t place_in(hk_extent_t extent, size_t bytes, size_t alignment) {
  uintptr_t start = hk_align_up(extent.start, alignment);
  size_t skipped = start - extent.start;
  return skipped <= extent.bytes && bytes <= extent.bytes - skipped ? start : 0;
}

static hk_slab_t *best_of_bucket_locked(unsigned bucket, size_t bytes, size_t alignment) {
  hk_slab_t *best = NULL;
  hk_list_t *list = &extents.bucket[bucket];
  hk_list_t *node = list->next;
  for (unsigned i = 0; i < LOOK_MAX && node != list; i++, node = node->next) {
    hk_slab_t *first = HK_CONTAINER_OF(node, hk_slab_t, link);
    bool is_better = best == NULL || bytes_of(first) < bytes_of(best);
    if (is_better && place_in(extent_of(first), bytes, alignment) != 0) best = first;
  }
  return best;
}

static hk_slab_t *find_locked(size_t bytes, size_t alignment) {
  for (unsigned bucket = next_bucket_locked(bucket_of(bytes)); bucket < BUCKET_COUNT;
       bucket = next_bucket_locked(bucket + 1)) {
    hk_slab_t *best = best_of_bucket_locked(bucket, bytes, alignment);
    if (best != NULL) return best;
  }
  return NULL;
}

/* Takes a part out of an extent. The remainders before and behind it keep the extent's age. */
static hk_extent_t split_locked(hk_slab_t *first, uintptr_t start, size_t bytes) {
  hk_extent_mark_changing_locked();
  uint64_t since = first->extent.since;
  hk_list_t *older = first->extent.link.previous;
  hk_extent_t whole = unlink_locked(first);
  hk_extent_t head = {whole.start, start - whole.start, whole.is_zero};
  hk_extent_t tail = {start + bytes, whole.bytes - head.bytes - bytes, whole.is_zero};
  if (head.bytes > 0) link_locked(head, since, older);
  if (tail.bytes > 0) link_locked(tail, since, older);
  unmark_changing_locked();
  return (hk_extent_t){start, bytes, whole.is_zero};
}

/* Not inline: a small program has no free extent, and does not come here. */
static HK_NOINLINE bool take_best_locked(size_t bytes, size_t alignment, size_t preferred_alignment,
                                         hk_extent_t *taken) {
  hk_slab_t *first = find_locked(bytes, alignment);
  if (first == NULL) return false;
  uintptr_t start = preferred_alignment > alignment ? place_in(extent_of(first), bytes, preferred_alignment) : 0;
  if (start == 0) start = place_in(extent_of(first), bytes, alignment);
  *taken = split_locked(first, start, bytes);
  return true;
}

bool hk_extent_take_locked(size_t bytes, size_t alignment, size_t preferred_alignment, hk_extent_t *taken) {
  HK_ASSERT(bytes % HK_SLAB_BYTES == 0, "a free extent is divided at a slab");
  if (hk_load_relaxed(&extents.free_bytes) < bytes) return false;
  return take_best_locked(bytes, alignment, preferred_alignment, taken);
}

static hk_slab_t *dirty_of_bucket_locked(unsigned bucket, size_t bytes) {
  hk_list_t *list = &extents.bucket[bucket];
  hk_list_t *node = list->next;
  for (unsigned i = 0; i < LOOK_MAX && node != list; i++, node = node->next) {
    hk_slab_t *first = HK_CONTAINER_OF(node, hk_slab_t, link);
    if (!first->is_zero && bytes_of(first) >= bytes) return first;
  }
  return NULL;
}

uintptr_t hk_extent_find_dirty_locked(size_t bytes) {
  for (unsigned end = BUCKET_COUNT, bucket;
       (bucket = last_bucket_locked(end)) != BUCKET_COUNT && bucket >= bucket_of(bytes); end = bucket) {
    const hk_slab_t *first = dirty_of_bucket_locked(bucket, bytes);
    if (first != NULL) return start_of(first);
  }
  return 0;
}

bool hk_extent_take_at_locked(uintptr_t start, size_t bytes, hk_extent_t *taken) {
  hk_slab_t *first = hk_slab_of((void *)start);
  /* The last slab of a longer extent may still say what began there before. */
  if (!is_tag_locked(first) || first->head != first || bytes_of(first) < bytes) return false;
  *taken = split_locked(first, start, bytes);
  return true;
}

static hk_slab_t *front_of(const hk_list_t *list) {
  if (list->next == NULL || hk_list_is_empty(list)) return NULL;
  return HK_CONTAINER_OF(list->next, hk_slab_t, extent.link);
}

uint64_t hk_extent_oldest_age_locked(void) {
  const hk_slab_t *first = front_of(&extents.dirty);
  return first != NULL ? first->extent.since : UINT64_MAX;
}

size_t hk_extent_oldest_bytes_locked(void) {
  const hk_slab_t *first = front_of(&extents.dirty);
  return first != NULL ? bytes_of(first) : 0;
}

bool hk_extent_take_oldest_locked(bool or_zero, hk_extent_t *taken) {
  hk_slab_t *first = front_of(&extents.dirty);
  if (first == NULL && or_zero) first = front_of(&extents.zero);
  if (first == NULL) return false;
  *taken = split_locked(first, start_of(first), bytes_of(first));
  return true;
}

hk_extent_usage_t hk_extent_usage(void) {
  return (hk_extent_usage_t){.count = hk_load_relaxed(&extents.count),
                             .free_bytes = hk_load_relaxed(&extents.free_bytes)};
}

void hk_extent_repair(void) {
  if (!extents.is_changing) return;
  extents.forgotten_until = hk_dirty_next_age_locked(&hk_dirty_extents);
  for (unsigned i = 0; i < BUCKET_WORDS; i++) extents.bucket_mask[i] = 0;
  hk_list_init(&extents.dirty);
  hk_list_init(&extents.zero);
  hk_stat_add(hk_stat_fork_lost, hk_load_relaxed(&extents.free_bytes));
  hk_store_relaxed(&extents.count, 0);
  hk_store_relaxed(&extents.free_bytes, 0);
  hk_store_relaxed(&hk_dirty_extents.dirty_bytes, 0);
  extents.is_changing = false;
}
