/* space/superslab.c - L3. See superslab.h. A thread gets slabs of its own node, if need be of a new superslab there.
 * Other nodes' slabs serve it only where the system refuses a new superslab (docs/design.md, "Memory nodes"). */
#include "space/superslab.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/mask.h"
#include "base/panic.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/stat.h"
#include "space/dirty.h"
#include "space/huge.h"
#include "space/locked.h"
#include "space/purge.h"
#include "space/region_map.h"
#include "space/shortage.h"
#include "space/space_check.h"

/* ---- Takes slabs from the superslabs. */

/* Claims slabs that are about to be touched. Returns whether they are known to be zero. */
static bool claim_for_use_locked(hk_superslab_t *superslab, uint32_t bits, uint64_t now_ms) {
  bool zero = (superslab->used_mask & bits) == 0;
  uint32_t wanted = bits & (~superslab->used_mask | superslab->lazy_mask);
  if (wanted != 0) hk_dirty_note_wanted_locked(now_ms, hk_superslab_index_bytes_of(wanted));
  hk_superslab_index_claim_locked(superslab, bits);
  return zero;
}

/* A request for slabs. */
typedef struct {
  unsigned count;
  unsigned most; /* this many, if the slabs below are free, and neither they nor the others were touched */
  unsigned alignment;
  hk_end_t end;
} request_t;

static unsigned untouched_below(const hk_superslab_t *superslab, unsigned first, const request_t *request) {
  uint32_t untouched = superslab->free_mask & ~superslab->used_mask;
  uint32_t requested = hk_mask_range(first, request->count);
  if ((untouched & requested) != requested) return 0;
  unsigned count = 0;
  while (request->count + count < request->most && first > count && (untouched >> (first - count - 1) & 1) != 0)
    count++;
  return count;
}

static hk_slab_t *take_slabs_locked(hk_superslab_t *superslab, unsigned first, const request_t *request,
                                    uint64_t now_ms) {
  unsigned more = untouched_below(superslab, first, request);
  unsigned count = request->count + more;
  first -= more;
  hk_slab_t *slab = &superslab->slabs[first];
  slab->zero = claim_for_use_locked(superslab, hk_mask_range(first, count), now_ms);
  slab->slab_count = (uint8_t)count;
  return slab;
}

/* Returns where `count` resident slabs start: dirty ones if there are any; else lazy ones too, which the system may
 * have taken. */
static uint32_t resident_starts(const hk_superslab_t *superslab, unsigned count) {
  uint32_t starts = hk_mask_run_starts(hk_superslab_index_dirty_bits(superslab), count);
  if (starts != 0 || HK_LIKELY(superslab->lazy_mask == 0)) return starts;
  return hk_mask_run_starts(superslab->free_mask & superslab->used_mask, count);
}

/* Takes the best fit, so long runs stay whole: of the shortest run that is long enough, a part that is resident, and of
 * those the one nearest to `end`. */
HK_INLINE hk_slab_t *take_locked(hk_superslab_index_t *index, const request_t *request, uint64_t now_ms) {
  unsigned count = request->count;
  uint32_t allowed = hk_mask_multiples(request->alignment);
  for (uint32_t buckets = index->bucket_mask >> (count - 1) << (count - 1); buckets != 0; buckets &= buckets - 1) {
    hk_list_t *node = index->bucket[hk_lowest_bit(buckets)].next;
    hk_superslab_t *superslab = HK_CONTAINER_OF(node, hk_superslab_t, link);
    uint32_t starts = hk_mask_run_starts(superslab->free_mask, count) & allowed;
    uint32_t resident = resident_starts(superslab, count) & allowed;
    if (starts == 0) continue;
    if (resident != 0) starts = resident;
    unsigned first = request->end == hk_from_bottom ? hk_lowest_bit(starts) : hk_highest_bit(starts);
    return take_slabs_locked(superslab, first, request, now_ms);
  }
  return NULL;
}

HK_INLINE hk_slab_t *take(unsigned node, const request_t *request) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  hk_slab_t *slab = take_locked(&hk_superslab_index[node], request, now_ms);
  hk_purge_end_change(now_ms);
  return slab;
}

/* ---- Takes slabs from a new superslab. */

/* Purges an extent on a machine of several nodes: its memory may be another node's. Each page then comes from the node
 * of the thread that touches it next. */
static void make_local(hk_extent_t *room) {
  if (hk_node_is_only_one() || room->zero) return;
  room->zero = hk_os_purge((void *)room->start, room->bytes);
}

/* Addresses for new slabs. */
typedef struct {
  hk_extent_t extent;
  bool is_new; /* newly mapped; otherwise a free extent */
} room_t;

static bool is_superslab(const room_t *room) { return room->extent.bytes == HK_SUPERSLAB_BYTES; }

/* The addresses behind new slabs that a hardened build makes inaccessible: an overflow ends there. */
#define GUARD_BYTES (HK_HARDENED ? HK_SLAB_BYTES : 0)

static void *map_room(size_t bytes, size_t alignment) {
  char *start = hk_locked_reserve(bytes + GUARD_BYTES, alignment);
  if (HK_HARDENED && start != NULL) (void)hk_os_forbid_access(start + bytes, GUARD_BYTES);
  return start;
}

/* False when the system refuses. */
static bool find_room(size_t bytes, size_t alignment, room_t *room) {
  hk_lock_acquire(hk_lock_space);
  bool found = hk_extent_take_locked(bytes, alignment, alignment, &room->extent);
  hk_space_check_locked();
  hk_lock_release(hk_lock_space);
  room->is_new = !found;
  if (found) {
    make_local(&room->extent);
    return true;
  }
  void *start = map_room(bytes, alignment);
  if (start == NULL) return false;
  if (!hk_region_map_enter(start, bytes)) {
    (void)hk_os_unmap(start, bytes + GUARD_BYTES);
    return false;
  }
  room->extent = (hk_extent_t){.start = (uintptr_t)start, .bytes = bytes, .zero = true};
  return true;
}

/* Gives up room that is not needed. */
static void drop_new(const room_t *room) {
  if (room->is_new && hk_os_unmap((void *)room->extent.start, room->extent.bytes + GUARD_BYTES)) return;
  hk_lock_acquire(hk_lock_space);
  hk_extent_put_locked(room->extent);
  hk_space_check_locked();
  hk_lock_release(hk_lock_space);
}

/* Takes slabs from new room. If many threads come here at once, the room of the first one serves those that waited for
 * the system meanwhile. Otherwise each would have a superslab of its own, for a slab or two. */
static hk_slab_t *take_from_room(unsigned node, const request_t *request, hk_superslab_t *record, const room_t *room) {
  bool is_huge = is_superslab(room) && hk_huge_note_new_superslab(room->extent.start, room->is_new);
  bool is_record_used = false;
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  hk_slab_t *slab = take_locked(&hk_superslab_index[node], request, now_ms);
  bool is_needed = slab == NULL;
  if (is_needed) {
    is_record_used = hk_superslab_index_enter_locked(record, room->extent, node);
    if (is_record_used) record->is_huge = record->is_allowed = is_huge;
    slab = take_locked(&hk_superslab_index[node], request, now_ms);
  }
  hk_purge_end_change(now_ms);
  if (!is_record_used) hk_superslab_index_spare_record(record);
  if (!is_needed) drop_new(room);
  return slab;
}

/* Makes `slabs` new slabs, the first at a multiple of `alignment` slabs, and takes slabs for the request. */
static hk_slab_t *take_from_new(unsigned node, const request_t *request, unsigned slabs, unsigned alignment) {
  hk_superslab_t *record = hk_superslab_index_take_record();
  if (record == NULL) return NULL;
  room_t room;
  if (find_room(slabs * HK_SLAB_BYTES, alignment * HK_SLAB_BYTES, &room))
    return take_from_room(node, request, record, &room);
  hk_superslab_index_spare_record(record);
  return NULL;
}

static unsigned power_of_two_from(unsigned count) { return count == 1 ? 1 : 2u << hk_highest_bit(count - 1); }

/* Maps the requested slabs alone, where the system refuses 2 MiB. At this alignment they do not reach from one
 * superslab's addresses into the next one's. */
static HK_COLD hk_slab_t *take_from_part(unsigned node, const request_t *request) {
  unsigned alignment = power_of_two_from(request->count);
  if (alignment < request->alignment) alignment = request->alignment;
  hk_slab_t *slab = take_from_new(node, request, request->count, alignment);
  if (slab != NULL && !hk_shortage_is_on()) hk_shortage_begin();
  return slab;
}

/* ---- Takes slabs from other nodes. */

static HK_COLD hk_slab_t *take_from_others(unsigned own, const request_t *request) {
  unsigned node_count = hk_load_relaxed(&hk_node_count);
  for (unsigned i = 1; i < node_count; i++) {
    hk_slab_t *slab = take((own + i) % node_count, request);
    if (slab == NULL) continue;
    hk_stat_add(hk_stat_numa_miss, 1);
    return slab;
  }
  return NULL;
}

HK_INLINE hk_slab_t *acquire(const request_t *request) {
  HK_ASSERT(request->count >= 1 && request->most <= HK_SUPERSLAB_SLABS, "the requested slabs fit into a superslab");
  unsigned node = hk_node_current();
  hk_slab_t *slab = take(node, request);
  if (slab == NULL && !hk_shortage_is_on()) slab = take_from_new(node, request, HK_SUPERSLAB_SLABS, HK_SUPERSLAB_SLABS);
  if (slab == NULL) slab = take_from_others(node, request);
  return slab != NULL ? slab : take_from_part(node, request);
}

hk_slab_t *hk_superslab_acquire(unsigned count, unsigned alignment, hk_end_t end) {
  return acquire(&(request_t){.count = count, .most = count, .alignment = alignment, .end = end});
}

hk_slab_t *hk_superslab_acquire_some(unsigned least, unsigned most) {
  return acquire(&(request_t){.count = least, .most = most, .alignment = 1, .end = hk_from_top});
}

/* Takes the start of the longest run of free slabs that begins with `count` dirty ones, of one superslab for each
 * length. A run of `count` slabs has no room behind it. */
static hk_slab_t *take_roomy_locked(hk_superslab_index_t *index, unsigned count, uint64_t now_ms) {
  for (unsigned length = HK_SUPERSLAB_SLABS; length > count; length--) {
    if ((index->bucket_mask >> (length - 1) & 1) == 0) continue;
    hk_superslab_t *superslab = HK_CONTAINER_OF(index->bucket[length - 1].next, hk_superslab_t, link);
    unsigned first = hk_lowest_bit(hk_mask_run_starts(superslab->free_mask, length));
    uint32_t bits = hk_mask_range(first, count);
    if ((hk_superslab_index_dirty_bits(superslab) & bits) != bits) continue;
    hk_slab_t *slab = &superslab->slabs[first];
    slab->zero = claim_for_use_locked(superslab, bits, now_ms);
    slab->slab_count = (uint8_t)count;
    return slab;
  }
  return NULL;
}

hk_slab_t *hk_superslab_acquire_roomy(unsigned count) {
  unsigned node = hk_node_current();
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  hk_slab_t *slab = take_roomy_locked(&hk_superslab_index[node], count, now_ms);
  hk_purge_end_change(now_ms);
  return slab;
}

bool hk_superslab_extend(hk_slab_t *after_last, unsigned count, bool *zero) {
  hk_superslab_t *superslab = after_last[-1].superslab;
  unsigned first = (unsigned)(after_last - superslab->slabs);
  if (first + count > HK_SUPERSLAB_SLABS) return false;
  uint32_t bits = hk_mask_range(first, count);
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  bool fits = (superslab->free_mask & bits) == bits;
  if (fits) *zero = claim_for_use_locked(superslab, bits, now_ms);
  hk_purge_end_change(now_ms);
  return fits;
}

static void release_locked(hk_slab_t *first, unsigned count, bool used) {
  hk_superslab_t *superslab = first->superslab;
  hk_superslab_index_unclaim_locked(superslab, hk_mask_range((unsigned)(first - superslab->slabs), count), used);
  hk_superslab_index_rejuvenate_locked(superslab);
}

void hk_superslab_release(hk_slab_t *first, unsigned count) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  release_locked(first, count, true);
  hk_purge_end_change(now_ms);
}

void hk_superslab_release_all(hk_list_t *groups) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  for (hk_list_t *node = groups->next, *next; node != groups; node = next) {
    next = node->next;
    *node = (hk_list_t){NULL, NULL};
    hk_slab_t *first = HK_CONTAINER_OF(node, hk_slab_t, link);
    release_locked(first, first->slab_count, !first->zero);
  }
  hk_list_init(groups);
  hk_purge_end_change(now_ms);
}

/* ---- Makes extents of free superslabs. */

static bool dissolve_one(void) {
  hk_lock_acquire(hk_lock_space);
  hk_superslab_t *superslab = hk_superslab_index_wholly_free_locked();
  if (superslab != NULL) {
    hk_extent_t room = {superslab->start, HK_SUPERSLAB_BYTES, superslab->used_mask == 0};
    hk_superslab_index_set_states(superslab->slabs, hk_superslab_index_detach_free_locked(superslab), hk_slab_none);
    hk_extent_put_locked(room);
  }
  hk_space_check_locked();
  hk_lock_release(hk_lock_space);
  return superslab != NULL;
}

bool hk_superslab_dissolve_free(size_t bytes) {
  if (hk_load_relaxed(&hk_dirty_slabs.dirty_bytes) == 0 || hk_dirty_total() < bytes) return false;
  size_t count = 0;
  for (size_t left = hk_superslab_index_superslab_count(); left > 0 && dissolve_one(); left--) count++;
  return count > 0;
}

/* ---- For the layers above. */

hk_superslab_usage_t hk_superslab_usage(void) {
  return (hk_superslab_usage_t){
      .superslab_count = hk_superslab_index_superslab_count(),
      .mapped_bytes = hk_superslab_index_mapped_bytes(),
      .in_use_bytes = hk_load_relaxed(&hk_dirty_slabs.in_use_bytes),
      .dirty_bytes = hk_load_relaxed(&hk_dirty_slabs.dirty_bytes),
      .lazy_bytes = hk_load_relaxed(&hk_dirty_lazy_bytes),
  };
}

/* Records stay, and a record's all_next never changes. So the lock is not held between records. */
void hk_superslab_visit(void (*visit)(hk_slab_t *slabs, void *context), void *context) {
  hk_lock_acquire(hk_lock_space);
  const hk_superslab_t *record = hk_superslab_index_next_record_locked(NULL);
  hk_lock_release(hk_lock_space);
  for (; record != NULL; record = record->all_next) {
    hk_lock_acquire(hk_lock_space);
    hk_slab_t *slabs = record->start != 0 ? record->slabs : NULL;
    hk_lock_release(hk_lock_space);
    if (slabs != NULL) visit(slabs, context);
  }
}
