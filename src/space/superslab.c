/* space/superslab.c - L3. See superslab.h.
 *
 * Superslabs are kept in 32 buckets by their longest run of free slabs; the smallest that fits is taken, so that long
 * runs stay whole. No memory is given back under the lock: a range that is on its way out is taken from the masks
 * first.
 *
 * Every change is one mask, and the lists follow from the masks: whatever instruction a thread was at when another one
 * forked, hk_superslab_repair finds masks that are true or, at worst, a range that is lost to the child.
 */
#include "space/superslab.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/mask.h"
#include "base/panic.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/stat.h"
#include "space/meta.h"
#include "space/region_map.h"

#define BUCKET_COUNT HK_SUPERSLAB_SLABS

/* Idle memory up to this part of what is in use stays, whatever the option says: the next phase of a large program
 * would only fault it in again. */
#define RETAIN_SHARE 8

/* What was given back and then wanted again was given back too early: the allowance for idle memory doubles, from
 * ALLOWANCE_FIRST slabs up to this part of what is in use, and halves when nothing was wanted. */
#define ALLOWANCE_FIRST 32
#define ALLOWANCE_SHARE 2

/* Guarded by hk_lock_space; the atomic sums are written under it and read without. */
static struct {
  bool ready;
  uint32_t bucket_mask;           /* bit i: bucket i is not empty */
  hk_list_t bucket[BUCKET_COUNT]; /* [i]: their longest run is i + 1 free slabs */
  hk_list_t idle;                 /* through idle_link */
  hk_list_t spare;                /* records that describe nothing, through link */
  hk_superslab_t *all;
  size_t allowance_slabs;    /* idle memory that is kept beyond the option, if what is in use bears it */
  size_t given_back_slabs;   /* since the allowance was set last */
  size_t not_resident_slabs; /* taken since something was given back: they fault memory in */
  _Atomic(size_t) superslab_count;
  _Atomic(size_t) in_use_slabs;
  _Atomic(size_t) idle_slabs;
} space;

/* Slabs that trimming would make the program smaller by. */
static unsigned idle_count(const hk_superslab_t *superslab) {
  return (unsigned)__builtin_popcount(superslab->free_mask & superslab->used_mask);
}

static void init_lists_locked(void) {
  for (unsigned i = 0; i < BUCKET_COUNT; i++) hk_list_init(&space.bucket[i]);
  hk_list_init(&space.idle);
  hk_list_init(&space.spare);
  space.bucket_mask = 0;
  space.ready = true;
}

static void lock_space(void) {
  hk_lock_acquire(hk_lock_space);
  if (HK_UNLIKELY(!space.ready)) init_lists_locked();
}

static void unlock_space(void) { hk_lock_release(hk_lock_space); }

/* Puts a superslab into the bucket of its longest run, 0 for none. */
static void file_by_run_locked(hk_superslab_t *superslab, unsigned longest) {
  if (superslab->longest_run > 0) {
    unsigned bucket = superslab->longest_run - 1u;
    hk_list_remove(&superslab->link);
    if (hk_list_is_empty(&space.bucket[bucket])) space.bucket_mask &= ~(UINT32_C(1) << bucket);
  }
  superslab->longest_run = (uint8_t)longest;
  if (longest > 0) {
    hk_list_push_front(&space.bucket[longest - 1], &superslab->link);
    space.bucket_mask |= UINT32_C(1) << (longest - 1);
  }
}

/* Puts a superslab where its masks say that it belongs. */
static void file_locked(hk_superslab_t *superslab) {
  unsigned longest = hk_mask_longest_run(superslab->free_mask);
  if (longest != superslab->longest_run) file_by_run_locked(superslab, longest);
  bool has_idle = idle_count(superslab) > 0 || superslab->free_mask == HK_MASK_ALL;
  if (has_idle && !hk_list_is_linked(&superslab->idle_link)) hk_list_push_back(&space.idle, &superslab->idle_link);
  if (!has_idle && hk_list_is_linked(&superslab->idle_link)) hk_list_remove(&superslab->idle_link);
}

/* Takes free slabs out of the masks. */
static void claim_locked(hk_superslab_t *superslab, uint32_t bits) {
  HK_ASSERT((superslab->free_mask & bits) == bits, "only free slabs are claimed");
  hk_bump_relaxed(&space.idle_slabs, -(size_t)__builtin_popcount(bits & superslab->used_mask));
  hk_bump_relaxed(&space.in_use_slabs, (size_t)__builtin_popcount(bits));
  superslab->free_mask &= ~bits;
  superslab->used_mask |= bits;
  file_locked(superslab);
}

static void unclaim_locked(hk_superslab_t *superslab, uint32_t bits, bool used) {
  HK_ASSERT((superslab->free_mask & bits) == 0, "a slab is given back once");
  if (!used) superslab->used_mask &= ~bits;
  hk_keep_store_order();
  superslab->free_mask |= bits;
  hk_bump_relaxed(&space.in_use_slabs, -(size_t)__builtin_popcount(bits));
  if (used) hk_bump_relaxed(&space.idle_slabs, (size_t)__builtin_popcount(bits));
  file_locked(superslab);
}

static hk_slab_t *take_range_locked(hk_superslab_t *superslab, unsigned first, unsigned count) {
  uint32_t bits = hk_mask_range(first, count);
  hk_slab_t *slab = &superslab->slabs[first];
  slab->zero = (superslab->used_mask & bits) == 0;
  slab->slab_count = (uint8_t)count;
  space.not_resident_slabs += (size_t)__builtin_popcount(bits & ~superslab->used_mask);
  claim_locked(superslab, bits);
  return slab;
}

/* The best fit: the shortest long-enough run, in it a place that is resident already, then the one nearest to `end`. */
static hk_slab_t *take_locked(unsigned count, unsigned alignment, hk_end_t end) {
  uint32_t allowed = hk_mask_multiples(alignment);
  for (uint32_t buckets = space.bucket_mask >> (count - 1) << (count - 1); buckets != 0; buckets &= buckets - 1) {
    hk_list_t *node = space.bucket[hk_lowest_bit(buckets)].next;
    hk_superslab_t *superslab = HK_CONTAINER_OF(node, hk_superslab_t, link);
    uint32_t starts = hk_mask_run_starts(superslab->free_mask, count) & allowed;
    uint32_t resident = hk_mask_run_starts(superslab->free_mask & superslab->used_mask, count) & allowed;
    if (starts == 0) continue;
    if (resident != 0) starts = resident;
    return take_range_locked(superslab, end == hk_from_bottom ? hk_lowest_bit(starts) : hk_highest_bit(starts), count);
  }
  return NULL;
}

static hk_superslab_t *take_record(void) {
  hk_superslab_t *record = NULL;
  lock_space();
  if (!hk_list_is_empty(&space.spare)) {
    record = HK_CONTAINER_OF(space.spare.next, hk_superslab_t, link);
    hk_list_remove(&record->link);
  }
  unlock_space();
  return record != NULL ? record : hk_meta_alloc(sizeof(hk_superslab_t));
}

static void spare_record(hk_superslab_t *record) {
  lock_space();
  record->start = 0;
  hk_list_push_front(&space.spare, &record->link);
  unlock_space();
}

static void enter_locked(hk_superslab_t *record, uintptr_t start) {
  bool is_new = record->slabs == NULL;
  record->slabs = hk_slab_of((void *)start);
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    record->slabs[i].superslab = record;
    hk_slab_set_state(&record->slabs[i], hk_slab_free);
  }
  record->used_mask = 0;
  record->free_mask = HK_MASK_ALL;
  hk_keep_store_order();
  record->start = start;
  if (is_new) {
    record->all_next = space.all;
    hk_keep_store_order();
    space.all = record;
  }
  hk_bump_relaxed(&space.superslab_count, 1);
  file_locked(record);
}

/* Maps one more superslab and takes the range from it. */
static hk_slab_t *take_from_new(unsigned count, unsigned alignment, hk_end_t end) {
  hk_superslab_t *record = take_record();
  if (record == NULL) return NULL;
  void *start = hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES);
  if (start == NULL || !hk_region_map_enter(start)) {
    if (start != NULL) (void)hk_os_unmap(start, HK_SUPERSLAB_BYTES);
    spare_record(record);
    return NULL;
  }
  lock_space();
  enter_locked(record, (uintptr_t)start);
  size_t highest = hk_align_down(HK_SUPERSLAB_SLABS - count, alignment);
  hk_slab_t *slab = take_range_locked(record, end == hk_from_bottom ? 0 : (unsigned)highest, count);
  unlock_space();
  return slab;
}

hk_slab_t *hk_superslab_acquire(unsigned count, unsigned alignment, hk_end_t end) {
  HK_ASSERT(count >= 1 && count <= HK_SUPERSLAB_SLABS, "a range of slabs fits into a superslab");
  lock_space();
  hk_slab_t *slab = take_locked(count, alignment, end);
  unlock_space();
  return slab != NULL ? slab : take_from_new(count, alignment, end);
}

bool hk_superslab_extend(hk_slab_t *after_last, unsigned count, bool *zero) {
  hk_superslab_t *superslab = after_last[-1].superslab;
  unsigned first = (unsigned)(after_last - superslab->slabs);
  if (first + count > HK_SUPERSLAB_SLABS) return false;
  uint32_t bits = hk_mask_range(first, count);
  lock_space();
  bool fits = (superslab->free_mask & bits) == bits;
  if (fits) {
    *zero = (superslab->used_mask & bits) == 0;
    claim_locked(superslab, bits);
  }
  unlock_space();
  return fits;
}

/* Idle memory above this is given back. */
static size_t keep_bytes_locked(void) {
  size_t in_use = hk_load_relaxed(&space.in_use_slabs);
  size_t keep_bytes = in_use * (HK_SLAB_BYTES / RETAIN_SHARE);
  if (keep_bytes < hk_option.retain) keep_bytes = hk_option.retain;
  size_t most = in_use / ALLOWANCE_SHARE;
  return keep_bytes + (space.allowance_slabs < most ? space.allowance_slabs : most) * HK_SLAB_BYTES;
}

/* Before memory is given back: looks at what became of what was given back last time. */
static void set_allowance_locked(void) {
  if (space.given_back_slabs == 0) return;
  if (2 * space.not_resident_slabs >= space.given_back_slabs) {
    size_t most = hk_load_relaxed(&space.in_use_slabs);
    size_t doubled = space.allowance_slabs > 0 ? 2 * space.allowance_slabs : ALLOWANCE_FIRST;
    space.allowance_slabs = doubled < most ? doubled : most;
  } else {
    space.allowance_slabs /= 2;
  }
  space.given_back_slabs = 0;
}

void hk_superslab_release(hk_slab_t *first, unsigned count) {
  hk_superslab_t *superslab = first->superslab;
  lock_space();
  unclaim_locked(superslab, hk_mask_range((unsigned)(first - superslab->slabs), count), true);
  size_t idle_bytes = hk_load_relaxed(&space.idle_slabs) * HK_SLAB_BYTES;
  size_t keep_bytes = keep_bytes_locked();
  if (idle_bytes > keep_bytes) {
    set_allowance_locked();
    keep_bytes = keep_bytes_locked();
  }
  unlock_space();
  /* A quarter more than needed goes, so that the next release does not come here again. */
  if (idle_bytes > keep_bytes) (void)hk_superslab_trim(keep_bytes - keep_bytes / 4);
}

/* ---- Giving back. A victim's slabs are claimed: nobody else can take or free them meanwhile. */

typedef struct {
  hk_superslab_t *superslab;
  uint32_t bits;
  size_t bytes; /* that may be resident */
  bool whole;
} victim_t;

static bool claim_victim(size_t keep_bytes, victim_t *victim) {
  lock_space();
  size_t idle_bytes = hk_load_relaxed(&space.idle_slabs) * HK_SLAB_BYTES;
  /* With nothing to keep, addresses that hold no memory go too. */
  bool found = !hk_list_is_empty(&space.idle) && (idle_bytes > keep_bytes || keep_bytes == 0);
  if (found) {
    hk_superslab_t *superslab = HK_CONTAINER_OF(space.idle.next, hk_superslab_t, idle_link);
    victim->superslab = superslab;
    victim->whole = superslab->free_mask == HK_MASK_ALL;
    victim->bits = victim->whole ? HK_MASK_ALL : superslab->free_mask & superslab->used_mask;
    victim->bytes = idle_count(superslab) * HK_SLAB_BYTES;
    if (space.given_back_slabs == 0) space.not_resident_slabs = 0;
    space.given_back_slabs += idle_count(superslab);
    claim_locked(superslab, victim->bits);
  }
  unlock_space();
  return found;
}

static void return_victim(const victim_t *victim, bool used) {
  lock_space();
  unclaim_locked(victim->superslab, victim->bits, used);
  unlock_space();
}

static void set_states(hk_superslab_t *superslab, hk_slab_state_t state) {
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) hk_slab_set_state(&superslab->slabs[i], state);
}

static bool unmap_victim(const victim_t *victim) {
  hk_superslab_t *superslab = victim->superslab;
  set_states(superslab, hk_slab_none); /* before somebody else can be given these addresses */
  if (!hk_os_unmap((void *)superslab->start, HK_SUPERSLAB_BYTES)) {
    set_states(superslab, hk_slab_free);
    return false;
  }
  lock_space();
  hk_bump_relaxed(&space.superslab_count, (size_t)-1);
  hk_bump_relaxed(&space.in_use_slabs, -(size_t)HK_SUPERSLAB_SLABS);
  unlock_space();
  spare_record(superslab);
  return true;
}

static bool purge_victim(const victim_t *victim) {
  bool all_purged = true;
  for (uint32_t left = victim->bits; left != 0;) {
    unsigned first = hk_lowest_bit(left);
    uint32_t from_first = ~(left >> first);
    unsigned count = from_first == 0 ? HK_SUPERSLAB_SLABS : hk_lowest_bit(from_first);
    if (count > HK_SUPERSLAB_SLABS - first) count = HK_SUPERSLAB_SLABS - first;
    all_purged &= hk_os_purge((void *)(victim->superslab->start + first * HK_SLAB_BYTES), count * HK_SLAB_BYTES);
    left &= ~hk_mask_range(first, count);
  }
  return all_purged;
}

size_t hk_superslab_trim(size_t keep_bytes) {
  size_t given_back = 0;
  victim_t victim;
  /* Each superslab once: one that the system does not take back goes to the end of the list again. */
  for (size_t left = hk_superslab_usage().superslab_count; left > 0 && claim_victim(keep_bytes, &victim); left--) {
    if (!(victim.whole && unmap_victim(&victim))) {
      bool purged = purge_victim(&victim);
      return_victim(&victim, !purged);
      if (!purged) break; /* the system refuses: the next release tries again */
    }
    given_back += victim.bytes;
    hk_stat_add(hk_stat_given_back, victim.bytes);
  }
  return given_back;
}

hk_superslab_usage_t hk_superslab_usage(void) {
  size_t count = hk_load_relaxed(&space.superslab_count);
  return (hk_superslab_usage_t){
      .superslab_count = count,
      .mapped_bytes = count * HK_SUPERSLAB_BYTES,
      .in_use_bytes = hk_load_relaxed(&space.in_use_slabs) * HK_SLAB_BYTES,
      .idle_bytes = hk_load_relaxed(&space.idle_slabs) * HK_SLAB_BYTES,
  };
}

void hk_superslab_repair(void) {
  size_t superslabs = 0, in_use = 0, idle = 0;
  init_lists_locked();
  for (hk_superslab_t *superslab = space.all; superslab != NULL; superslab = superslab->all_next) {
    superslab->link.next = superslab->idle_link.next = NULL;
    superslab->longest_run = 0;
    if (superslab->start == 0) {
      hk_list_push_front(&space.spare, &superslab->link);
      continue;
    }
    file_locked(superslab);
    superslabs++;
    idle += idle_count(superslab);
    in_use += (size_t)__builtin_popcount(~superslab->free_mask);
  }
  hk_store_relaxed(&space.superslab_count, superslabs);
  hk_store_relaxed(&space.in_use_slabs, in_use);
  hk_store_relaxed(&space.idle_slabs, idle);
}
