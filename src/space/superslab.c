/* space/superslab.c - L3. See superslab.h.
 *
 * Superslabs are kept in 32 buckets by their longest run of free slabs; the smallest that fits is taken, so that long
 * runs stay whole. No memory is given back under the lock: what is on its way out is taken from the masks, or from the
 * free ranges, first.
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
#include "policy/stat.h"
#include "space/idle.h"
#include "space/meta.h"
#include "space/range.h"
#include "space/region_map.h"

#define BUCKET_COUNT HK_SUPERSLAB_SLABS

/* Guarded by hk_lock_space; the atomic count is written under it and read without. */
static struct {
  bool ready;
  uint32_t bucket_mask;           /* bit i: bucket i is not empty */
  hk_list_t bucket[BUCKET_COUNT]; /* [i]: their longest run is i + 1 free slabs */
  hk_list_t idle;                 /* through idle_link */
  hk_list_t spare;                /* records that describe nothing, through link */
  hk_superslab_t *all;
  _Atomic(size_t) superslab_count;
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

static void trim_surplus(size_t keep_bytes);

/* After a change of what is in use or idle. */
static void unlock_and_settle(uint64_t now_ms) {
  size_t keep_bytes;
  bool is_too_much = hk_idle_look_locked(now_ms, &keep_bytes);
  unlock_space();
  if (is_too_much) trim_surplus(keep_bytes);
}

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
  if (!has_idle && hk_list_is_linked(&superslab->idle_link)) hk_list_remove(&superslab->idle_link);
  if (!has_idle || hk_list_is_linked(&superslab->idle_link)) return;
  superslab->idle_since = hk_idle_next_age_locked();
  hk_list_push_back(&space.idle, &superslab->idle_link);
}

/* What lies idle in it is as young as what came last. */
static void rejuvenate_locked(hk_superslab_t *superslab) {
  if (!hk_list_is_linked(&superslab->idle_link)) return;
  hk_list_remove(&superslab->idle_link);
  hk_list_push_back(&space.idle, &superslab->idle_link);
  superslab->idle_since = hk_idle_next_age_locked();
}

static size_t bytes_of(uint32_t bits) { return (size_t)__builtin_popcount(bits) * HK_SLAB_BYTES; }

/* Takes free slabs out of the masks. */
static void claim_locked(hk_superslab_t *superslab, uint32_t bits) {
  HK_ASSERT((superslab->free_mask & bits) == bits, "only free slabs are claimed");
  hk_bump_relaxed(&hk_idle_slabs.idle_bytes, -bytes_of(bits & superslab->used_mask));
  hk_bump_relaxed(&hk_idle_slabs.in_use_bytes, bytes_of(bits));
  superslab->free_mask &= ~bits;
  superslab->used_mask |= bits;
  file_locked(superslab);
}

static void unclaim_locked(hk_superslab_t *superslab, uint32_t bits, bool used) {
  HK_ASSERT((superslab->free_mask & bits) == 0, "a slab is given back once");
  if (!used) superslab->used_mask &= ~bits;
  hk_keep_store_order();
  superslab->free_mask |= bits;
  hk_bump_relaxed(&hk_idle_slabs.in_use_bytes, -bytes_of(bits));
  if (used) hk_bump_relaxed(&hk_idle_slabs.idle_bytes, bytes_of(bits));
  file_locked(superslab);
}

/* Claims slabs that somebody is about to touch. Whether they are known to be zero. */
static bool claim_for_use_locked(hk_superslab_t *superslab, uint32_t bits, uint64_t now_ms) {
  bool zero = (superslab->used_mask & bits) == 0;
  size_t wanted_bytes = bytes_of(bits & ~superslab->used_mask);
  if (wanted_bytes > 0) hk_idle_note_wanted_locked(now_ms, wanted_bytes);
  claim_locked(superslab, bits);
  return zero;
}

static hk_slab_t *take_range_locked(hk_superslab_t *superslab, unsigned first, unsigned count, uint64_t now_ms) {
  hk_slab_t *slab = &superslab->slabs[first];
  slab->zero = claim_for_use_locked(superslab, hk_mask_range(first, count), now_ms);
  slab->slab_count = (uint8_t)count;
  return slab;
}

/* The best fit: the shortest long-enough run, in it a place that is resident already, then the one nearest to `end`. */
static hk_slab_t *take_locked(unsigned count, unsigned alignment, hk_end_t end, uint64_t now_ms) {
  uint32_t allowed = hk_mask_multiples(alignment);
  for (uint32_t buckets = space.bucket_mask >> (count - 1) << (count - 1); buckets != 0; buckets &= buckets - 1) {
    hk_list_t *node = space.bucket[hk_lowest_bit(buckets)].next;
    hk_superslab_t *superslab = HK_CONTAINER_OF(node, hk_superslab_t, link);
    uint32_t starts = hk_mask_run_starts(superslab->free_mask, count) & allowed;
    uint32_t resident = hk_mask_run_starts(superslab->free_mask & superslab->used_mask, count) & allowed;
    if (starts == 0) continue;
    if (resident != 0) starts = resident;
    unsigned first = end == hk_from_bottom ? hk_lowest_bit(starts) : hk_highest_bit(starts);
    return take_range_locked(superslab, first, count, now_ms);
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

static void spare_record_locked(hk_superslab_t *record) {
  record->start = 0;
  hk_list_push_front(&space.spare, &record->link);
}

static void spare_record(hk_superslab_t *record) {
  lock_space();
  spare_record_locked(record);
  unlock_space();
}

/* Where a superslab can be: what a big block left, or newly mapped. False when the system refuses. */
static bool find_room(hk_range_t *room) {
  lock_space();
  bool found = hk_range_take_locked(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES, room);
  unlock_space();
  if (found) return true;
  void *start = hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES);
  if (start == NULL) return false;
  if (!hk_region_map_enter(start)) {
    (void)hk_os_unmap(start, HK_SUPERSLAB_BYTES);
    return false;
  }
  *room = (hk_range_t){.start = (uintptr_t)start, .bytes = HK_SUPERSLAB_BYTES, .zero = true};
  return true;
}

static void enter_locked(hk_superslab_t *record, hk_range_t room) {
  bool is_new = record->slabs == NULL;
  record->slabs = hk_slab_of((void *)room.start);
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    record->slabs[i].superslab = record;
    hk_slab_set_state(&record->slabs[i], hk_slab_free);
  }
  record->used_mask = room.zero ? 0 : HK_MASK_ALL;
  record->free_mask = HK_MASK_ALL;
  hk_keep_store_order();
  record->start = room.start;
  if (is_new) {
    record->all_next = space.all;
    hk_keep_store_order();
    space.all = record;
  }
  hk_bump_relaxed(&space.superslab_count, 1);
  hk_bump_relaxed(&hk_idle_slabs.idle_bytes, bytes_of(record->used_mask));
  file_locked(record);
}

/* Makes one more superslab and takes the range from it. */
static hk_slab_t *take_from_new(unsigned count, unsigned alignment, hk_end_t end) {
  hk_superslab_t *record = take_record();
  if (record == NULL) return NULL;
  hk_range_t room;
  if (!find_room(&room)) {
    spare_record(record);
    return NULL;
  }
  uint64_t now_ms = hk_os_coarse_ms();
  lock_space();
  enter_locked(record, room);
  size_t highest = hk_align_down(HK_SUPERSLAB_SLABS - count, alignment);
  hk_slab_t *slab = take_range_locked(record, end == hk_from_bottom ? 0 : (unsigned)highest, count, now_ms);
  unlock_and_settle(now_ms);
  return slab;
}

hk_slab_t *hk_superslab_acquire(unsigned count, unsigned alignment, hk_end_t end) {
  HK_ASSERT(count >= 1 && count <= HK_SUPERSLAB_SLABS, "a range of slabs fits into a superslab");
  uint64_t now_ms = hk_os_coarse_ms();
  lock_space();
  hk_slab_t *slab = take_locked(count, alignment, end, now_ms);
  unlock_and_settle(now_ms);
  return slab != NULL ? slab : take_from_new(count, alignment, end);
}

bool hk_superslab_extend(hk_slab_t *after_last, unsigned count, bool *zero) {
  hk_superslab_t *superslab = after_last[-1].superslab;
  unsigned first = (unsigned)(after_last - superslab->slabs);
  if (first + count > HK_SUPERSLAB_SLABS) return false;
  uint32_t bits = hk_mask_range(first, count);
  uint64_t now_ms = hk_os_coarse_ms();
  lock_space();
  bool fits = (superslab->free_mask & bits) == bits;
  if (fits) *zero = claim_for_use_locked(superslab, bits, now_ms);
  unlock_and_settle(now_ms);
  return fits;
}

void hk_superslab_release(hk_slab_t *first, unsigned count) {
  hk_superslab_t *superslab = first->superslab;
  uint64_t now_ms = hk_os_coarse_ms();
  lock_space();
  unclaim_locked(superslab, hk_mask_range((unsigned)(first - superslab->slabs), count), true);
  rejuvenate_locked(superslab);
  unlock_and_settle(now_ms);
}

/* ---- The way to big blocks. */

static void set_states(hk_superslab_t *superslab, hk_slab_state_t state) {
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) hk_slab_set_state(&superslab->slabs[i], state);
}

/* A wholly free superslab, whose slabs the caller has claimed, is one no longer. */
static void leave_locked(hk_superslab_t *superslab) {
  hk_bump_relaxed(&space.superslab_count, (size_t)-1);
  hk_bump_relaxed(&hk_idle_slabs.in_use_bytes, -HK_SUPERSLAB_BYTES);
  spare_record_locked(superslab);
}

static bool dissolve_one(void) {
  lock_space();
  bool found = (space.bucket_mask >> (BUCKET_COUNT - 1)) != 0;
  if (found) {
    hk_superslab_t *superslab = HK_CONTAINER_OF(space.bucket[BUCKET_COUNT - 1].next, hk_superslab_t, link);
    hk_range_t room = {superslab->start, HK_SUPERSLAB_BYTES, superslab->used_mask == 0};
    claim_locked(superslab, HK_MASK_ALL);
    set_states(superslab, hk_slab_none);
    leave_locked(superslab);
    hk_range_put_locked(room);
  }
  unlock_space();
  return found;
}

bool hk_superslab_dissolve_free(size_t bytes) {
  if (hk_load_relaxed(&hk_idle_slabs.idle_bytes) == 0 || hk_idle_total() < bytes) return false;
  size_t count = 0;
  for (size_t left = hk_load_relaxed(&space.superslab_count); left > 0 && dissolve_one(); left--) count++;
  return count > 0;
}

/* ---- Giving back. What is chosen, a superslab's slabs or a free range, is taken first: nobody else can have it. */

/* Why memory is given back: because there is too much, or because somebody asked. */
typedef enum { trim_is_due, trim_is_asked } trim_reason_t;

typedef struct {
  size_t bytes;              /* that may be resident */
  hk_superslab_t *superslab; /* NULL when it is a range */
  uint32_t bits;
  bool whole;
  hk_range_t range;
} victim_t;

static void claim_superslab_locked(hk_superslab_t *superslab, victim_t *victim) {
  victim->superslab = superslab;
  victim->whole = superslab->free_mask == HK_MASK_ALL;
  victim->bits = victim->whole ? HK_MASK_ALL : superslab->free_mask & superslab->used_mask;
  victim->bytes = bytes_of(superslab->free_mask & superslab->used_mask);
  claim_locked(superslab, victim->bits);
}

static bool claim_range_locked(bool or_zero, victim_t *victim) {
  if (!hk_range_take_oldest_locked(or_zero, &victim->range)) return false;
  victim->superslab = NULL;
  victim->bytes = victim->range.zero ? 0 : victim->range.bytes;
  return true;
}

/* What has been idle longest, of either kind. `all`: addresses that hold no memory, too. */
static bool claim_oldest_locked(bool all, victim_t *victim) {
  hk_superslab_t *superslab = NULL;
  if (!hk_list_is_empty(&space.idle)) superslab = HK_CONTAINER_OF(space.idle.next, hk_superslab_t, idle_link);
  if (superslab == NULL || hk_range_oldest_age_locked() < superslab->idle_since) return claim_range_locked(all, victim);
  claim_superslab_locked(superslab, victim);
  return true;
}

static bool claim_victim(size_t keep_bytes, trim_reason_t reason, victim_t *victim) {
  lock_space();
  bool all = keep_bytes == 0;
  bool found = (all || hk_idle_total() > keep_bytes) && claim_oldest_locked(all, victim);
  if (found && reason == trim_is_due) hk_idle_note_given_back_locked(victim->bytes);
  unlock_space();
  return found;
}

static bool unmap_superslab(hk_superslab_t *superslab) {
  set_states(superslab, hk_slab_none); /* before somebody else can be given these addresses */
  if (!hk_os_unmap((void *)superslab->start, HK_SUPERSLAB_BYTES)) {
    set_states(superslab, hk_slab_free);
    return false;
  }
  lock_space();
  leave_locked(superslab);
  unlock_space();
  return true;
}

static bool purge_slabs(const victim_t *victim) {
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

/* False when the system refuses, and the memory is idle as before. */
static bool give_back_slabs(const victim_t *victim) {
  if (victim->whole && unmap_superslab(victim->superslab)) return true;
  bool purged = purge_slabs(victim);
  lock_space();
  unclaim_locked(victim->superslab, victim->bits, !purged);
  unlock_space();
  return purged;
}

/* The same for a range. Addresses that the system does not take back cost no memory, and serve again. */
static bool give_back_range(hk_range_t range) {
  if (hk_os_unmap((void *)range.start, range.bytes)) return true;
  range.zero = range.zero || hk_os_purge((void *)range.start, range.bytes);
  lock_space();
  hk_range_put_locked(range);
  unlock_space();
  return range.zero;
}

static bool give_back(const victim_t *victim) {
  return victim->superslab != NULL ? give_back_slabs(victim) : give_back_range(victim->range);
}

static size_t trim(size_t keep_bytes, trim_reason_t reason) {
  size_t given_back = 0;
  victim_t victim;
  /* Each superslab and range once: what the system does not take back goes to the end of its list again. */
  size_t left = hk_load_relaxed(&space.superslab_count) + hk_range_usage().count;
  for (; left > 0 && claim_victim(keep_bytes, reason, &victim); left--) {
    if (!give_back(&victim)) break; /* the next release tries again */
    given_back += victim.bytes;
    hk_stat_add(hk_stat_given_back, victim.bytes);
  }
  return given_back;
}

static void trim_surplus(size_t keep_bytes) { (void)trim(keep_bytes, trim_is_due); }

void hk_superslab_settle(uint64_t now_ms) { unlock_and_settle(now_ms); }

size_t hk_superslab_trim(size_t keep_bytes) {
  lock_space();
  if (keep_bytes == 0) hk_idle_forget_locked();
  unlock_space();
  return trim(keep_bytes, trim_is_asked);
}

hk_superslab_usage_t hk_superslab_usage(void) {
  size_t count = hk_load_relaxed(&space.superslab_count);
  return (hk_superslab_usage_t){
      .superslab_count = count,
      .mapped_bytes = count * HK_SUPERSLAB_BYTES,
      .in_use_bytes = hk_load_relaxed(&hk_idle_slabs.in_use_bytes),
      .idle_bytes = hk_load_relaxed(&hk_idle_slabs.idle_bytes),
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
  hk_store_relaxed(&hk_idle_slabs.in_use_bytes, in_use * HK_SLAB_BYTES);
  hk_store_relaxed(&hk_idle_slabs.idle_bytes, idle * HK_SLAB_BYTES);
}
