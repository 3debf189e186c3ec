/* space/superslab.c - L3. See superslab.h. A thread gets slabs of its own shard; then of a superslab of another shard
 * of its node, which moves to its own; then of a new superslab. Other nodes' slabs serve it only where the system
 * refuses a new superslab (docs/design.md, "Memory nodes"). */
#include "space/superslab.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/mask.h"
#include "base/panic.h"
#include "os/lock.h"
#include "os/node.h"
#include "os/os.h"
#include "os/shard.h"
#include "policy/stat.h"
#include "space/dirty.h"
#include "space/end_guard.h"
#include "space/huge.h"
#include "space/locked.h"
#include "space/purge.h"
#include "space/region_map.h"
#include "space/shortage.h"
#include "space/space_check.h"

/* ---- Takes slabs from the superslabs. */

/* Claims slabs that are about to be touched. Returns whether they are known to be zero. */
static bool claim_for_use_locked(hk_superslab_t *superslab, uint32_t bits) {
  bool is_zero = (superslab->used_mask & bits) == 0;
  uint32_t wanted = bits & (~superslab->used_mask | superslab->lazy_mask);
  if (wanted != 0)
    hk_dirty_note_touched_locked(hk_superslab_index_account(superslab), hk_superslab_index_bytes_of(wanted));
  hk_superslab_index_claim_locked(superslab, bits);
  return is_zero;
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

static hk_slab_t *take_slabs_locked(hk_superslab_t *superslab, unsigned first, const request_t *request) {
  unsigned more = untouched_below(superslab, first, request);
  unsigned count = request->count + more;
  first -= more;
  hk_slab_t *slab = &superslab->slabs[first];
  slab->is_zero = claim_for_use_locked(superslab, hk_mask_range(first, count));
  slab->slab_count = (uint8_t)count;
  return slab;
}

/* Returns where `count` resident slabs start: dirty ones if there are any; else lazy ones too, which the system may
 * have taken. */
static uint32_t resident_starts(const hk_superslab_t *superslab, unsigned count) {
  uint32_t starts = hk_mask_row_starts(hk_superslab_index_dirty_bits(superslab), count);
  if (starts != 0 || HK_LIKELY(superslab->lazy_mask == 0)) return starts;
  return hk_mask_row_starts(superslab->free_mask & superslab->used_mask, count);
}

/* Returns the buckets that have a row of `count` slabs. */
static uint32_t buckets_from(const hk_superslab_index_t *index, unsigned count) {
  return hk_load_relaxed(&index->bucket_mask) >> (count - 1) << (count - 1);
}

/* A superslab, and where the requested slabs may start; NULL: none has them. */
typedef struct {
  hk_superslab_t *superslab;
  uint32_t starts;
} place_t;

/* Finds the shortest row that is long enough, so long rows stay whole. */
HK_INLINE place_t find_locked(hk_superslab_index_t *index, const request_t *request) {
  uint32_t allowed = hk_mask_multiples(request->alignment);
  for (uint32_t buckets = buckets_from(index, request->count); buckets != 0; buckets &= buckets - 1) {
    hk_list_t *node = index->bucket[hk_lowest_bit(buckets)].next;
    hk_superslab_t *superslab = HK_CONTAINER_OF(node, hk_superslab_t, link);
    uint32_t starts = hk_mask_row_starts(superslab->free_mask, request->count) & allowed;
    if (starts != 0) return (place_t){superslab, starts};
  }
  return (place_t){NULL, 0};
}

/* Takes a part that is resident if there is one, and of those the one nearest to `end`. */
HK_INLINE hk_slab_t *take_at_locked(place_t place, const request_t *request) {
  uint32_t starts = place.starts & resident_starts(place.superslab, request->count);
  if (starts == 0) starts = place.starts;
  unsigned first = request->end == hk_from_bottom ? hk_lowest_bit(starts) : hk_highest_bit(starts);
  return take_slabs_locked(place.superslab, first, request);
}

HK_INLINE hk_slab_t *take_locked(hk_superslab_index_t *index, const request_t *request) {
  place_t place = find_locked(index, request);
  return place.superslab != NULL ? take_at_locked(place, request) : NULL;
}

/* take_locked, not inline, for callers that few requests reach: a small program has less code resident. */
static HK_NOINLINE hk_slab_t *take_rarely_locked(hk_superslab_index_t *index, const request_t *request) {
  return take_locked(index, request);
}

HK_INLINE hk_slab_t *take(unsigned shard, const request_t *request) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_superslab_index_lock(shard);
  hk_slab_t *slab = take_locked(&hk_superslab_index[shard], request);
  hk_purge_end_change_of(shard, now_ms);
  return slab;
}

/* Moves a superslab that has the slabs to the shard `own`, and takes them. */
static hk_slab_t *take_over(unsigned own, unsigned from, const request_t *request) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_superslab_index_lock_two(own, from);
  place_t place = find_locked(&hk_superslab_index[from], request);
  hk_slab_t *slab = NULL;
  if (place.superslab != NULL) {
    hk_superslab_index_move_locked(place.superslab, own);
    slab = take_at_locked(place, request);
  }
  hk_superslab_index_unlock(from);
  hk_purge_end_change_of(own, now_ms);
  return slab;
}

/* Takes slabs of the other shards of the node, before a new superslab makes the program larger. The superslab moves, so
 * that a shard that has freed much does not serve all threads, under one lock (measured:
 * docs/experiments/2026-11-27-superslabs-that-move.md). */
static HK_NOINLINE hk_slab_t *take_from_neighbours(unsigned own, const request_t *request) {
  hk_slab_t *slab = NULL;
  for (unsigned i = hk_shard_next_of_node(own); slab == NULL && i != own; i = hk_shard_next_of_node(i)) {
    if (buckets_from(&hk_superslab_index[i], request->count) != 0) slab = take_over(own, i, request);
  }
  return slab;
}

/* ---- Takes slabs from a new superslab. */

/* Purges an extent on a machine of several nodes: its memory may be another node's. Each page then comes from the node
 * of the thread that touches it next. */
static void make_local(hk_extent_t *room) {
  if (hk_node_is_only_one() || room->is_zero) return;
  room->is_zero = hk_os_purge((void *)room->start, room->bytes);
}

/* Addresses for new slabs. */
typedef struct {
  hk_extent_t extent;
  bool is_new; /* newly mapped; otherwise a free extent */
} room_t;

static bool is_superslab(const room_t *room) { return room->extent.bytes == HK_SUPERSLAB_BYTES; }

/* Maps the room and an end guard. Returns NULL when the system refuses. */
static void *map_room(size_t bytes, size_t alignment) {
  char *start = hk_locked_reserve(bytes + HK_END_GUARD_BYTES, alignment);
  if (start == NULL) return NULL;
  if (!hk_region_map_enter(start, bytes + HK_END_GUARD_BYTES)) {
    (void)hk_os_unmap(start, bytes + HK_END_GUARD_BYTES);
    return NULL;
  }
  if (HK_HARDENED) (void)hk_os_purge_and_forbid(start + bytes, HK_END_GUARD_BYTES);
  hk_end_guard_begin((uintptr_t)start + bytes);
  return start;
}

/* Returns false when the system refuses. */
static bool find_room(size_t bytes, size_t alignment, room_t *room) {
  hk_lock_acquire(hk_lock_space);
  bool found = hk_extent_take_locked(bytes, alignment, alignment, &room->extent);
  hk_lock_release(hk_lock_space);
  hk_space_check();
  room->is_new = !found;
  if (found) {
    make_local(&room->extent);
    return true;
  }
  void *start = map_room(bytes, alignment);
  if (start == NULL) return false;
  room->extent = (hk_extent_t){.start = (uintptr_t)start, .bytes = bytes, .is_zero = true};
  return true;
}

/* Gives up room that is not needed. */
static void drop_new(const room_t *room) {
  if (room->is_new) {
    (void)hk_purge_unmap(room->extent);
    return;
  }
  hk_lock_acquire(hk_lock_space);
  hk_extent_put_locked(room->extent);
  hk_lock_release(hk_lock_space);
  hk_space_check();
}

/* Makes slabs of a whole superslab's room, in the index of `shard`. */
static void enter_whole_locked(unsigned shard, hk_superslab_t *record, const room_t *room, bool is_huge) {
  hk_lock_acquire(hk_lock_space);
  (void)hk_superslab_index_enter_locked(record, room->extent, shard);
  hk_lock_release(hk_lock_space);
  record->is_huge = record->is_allowed = is_huge;
}

/* Takes slabs from the room of a whole superslab. If many threads come here at once, the room of the first one serves
 * those that waited for the system meanwhile. Otherwise each would have a superslab of its own, for a slab or two. */
static hk_slab_t *take_from_whole(unsigned shard, const request_t *request, hk_superslab_t *record,
                                  const room_t *room) {
  bool is_huge = hk_huge_note_new_superslab(room->extent.start, room->is_new);
  hk_superslab_index_t *index = &hk_superslab_index[shard];
  uint64_t now_ms = hk_os_coarse_ms();
  hk_superslab_index_lock(shard);
  hk_slab_t *slab = take_rarely_locked(index, request);
  bool is_needed = slab == NULL;
  if (is_needed) {
    enter_whole_locked(shard, record, room, is_huge);
    slab = take_rarely_locked(index, request);
  }
  hk_purge_end_change_of(shard, now_ms);
  if (!is_needed) {
    hk_superslab_index_spare_record(record);
    drop_new(room);
  }
  return slab;
}

/* Takes slabs from the room for them alone. They may join a superslab of another shard. */
static HK_COLD hk_slab_t *take_from_piece(unsigned shard, const request_t *request, hk_superslab_t *record,
                                          const room_t *room) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_superslab_index_lock_all();
  bool is_record_used = hk_superslab_index_enter_locked(record, room->extent, shard);
  shard = hk_superslab_index_shard(hk_slab_of((void *)room->extent.start)->superslab);
  hk_slab_t *slab = take_rarely_locked(&hk_superslab_index[shard], request);
  hk_superslab_index_unlock_all_but(shard);
  hk_purge_end_change_of(shard, now_ms);
  if (!is_record_used) hk_superslab_index_spare_record(record);
  return slab;
}

/* Makes `slabs` new slabs, the first at a multiple of `alignment` slabs, and takes slabs for the request. */
static hk_slab_t *take_from_new(unsigned shard, const request_t *request, unsigned slabs, unsigned alignment) {
  hk_superslab_t *record = hk_superslab_index_take_record();
  if (record == NULL) return NULL;
  room_t room;
  if (find_room(slabs * HK_SLAB_BYTES, alignment * HK_SLAB_BYTES, &room)) {
    return is_superslab(&room) ? take_from_whole(shard, request, record, &room)
                               : take_from_piece(shard, request, record, &room);
  }
  hk_superslab_index_spare_record(record);
  return NULL;
}

static unsigned power_of_two_from(unsigned count) { return count == 1 ? 1 : 2u << hk_highest_bit(count - 1); }

/* Maps the requested slabs alone, where the system refuses 2 MiB. At this alignment they do not reach from one
 * superslab's addresses into the next one's. */
static HK_COLD hk_slab_t *take_from_part(unsigned shard, const request_t *request) {
  unsigned alignment = power_of_two_from(request->count);
  if (alignment < request->alignment) alignment = request->alignment;
  hk_slab_t *slab = take_from_new(shard, request, request->count, alignment);
  if (slab != NULL && !hk_shortage_is_on()) hk_shortage_begin();
  return slab;
}

/* ---- Takes slabs from other nodes. */

static HK_COLD hk_slab_t *take_from_others(unsigned own, const request_t *request) {
  for (unsigned i = hk_shard_of_next_node(own); i != own; i = hk_shard_of_next_node(i)) {
    hk_slab_t *slab = take(i, request);
    if (slab == NULL) slab = take_from_neighbours(i, request);
    if (slab == NULL) continue;
    hk_stat_add(hk_stat_numa_miss, 1);
    return slab;
  }
  return NULL;
}

HK_INLINE hk_slab_t *acquire(const request_t *request) {
  HK_ASSERT(request->count >= 1 && request->most <= HK_SUPERSLAB_SLABS, "the requested slabs fit into a superslab");
  unsigned own = hk_shard_current();
  hk_slab_t *slab = take(own, request);
  if (slab == NULL && hk_load_relaxed(&hk_shard_used) > 1) slab = take_from_neighbours(own, request);
  if (slab == NULL && !hk_shortage_is_on()) slab = take_from_new(own, request, HK_SUPERSLAB_SLABS, HK_SUPERSLAB_SLABS);
  if (slab == NULL) slab = take_from_others(own, request);
  return slab != NULL ? slab : take_from_part(own, request);
}

hk_slab_t *hk_superslab_acquire(unsigned count, unsigned alignment, hk_end_t end) {
  return acquire(&(request_t){.count = count, .most = count, .alignment = alignment, .end = end});
}

hk_slab_t *hk_superslab_acquire_some(unsigned least, unsigned most) {
  return acquire(&(request_t){.count = least, .most = most, .alignment = 1, .end = hk_from_top});
}

/* Takes the start of the longest row of free slabs that begins with `count` dirty ones, of one superslab for each
 * length. A row of `count` slabs has no room behind it. */
static hk_slab_t *take_roomy_locked(hk_superslab_index_t *index, unsigned count) {
  for (unsigned length = HK_SUPERSLAB_SLABS; length > count; length--) {
    if ((hk_load_relaxed(&index->bucket_mask) >> (length - 1) & 1) == 0) continue;
    hk_superslab_t *superslab = HK_CONTAINER_OF(index->bucket[length - 1].next, hk_superslab_t, link);
    unsigned first = hk_lowest_bit(hk_mask_row_starts(superslab->free_mask, length));
    uint32_t bits = hk_mask_range(first, count);
    if ((hk_superslab_index_dirty_bits(superslab) & bits) != bits) continue;
    hk_slab_t *slab = &superslab->slabs[first];
    slab->is_zero = claim_for_use_locked(superslab, bits);
    slab->slab_count = (uint8_t)count;
    return slab;
  }
  return NULL;
}

hk_slab_t *hk_superslab_acquire_roomy(unsigned count) {
  unsigned shard = hk_shard_current();
  uint64_t now_ms = hk_os_coarse_ms();
  hk_superslab_index_lock(shard);
  hk_slab_t *slab = take_roomy_locked(&hk_superslab_index[shard], count);
  hk_purge_end_change_of(shard, now_ms);
  return slab;
}

bool hk_superslab_extend(hk_slab_t *after_last, unsigned count, bool *is_zero) {
  hk_superslab_t *superslab = after_last[-1].superslab;
  unsigned first = (unsigned)(after_last - superslab->slabs);
  if (first + count > HK_SUPERSLAB_SLABS) return false;
  uint32_t bits = hk_mask_range(first, count);
  uint64_t now_ms = hk_os_coarse_ms();
  unsigned shard = hk_superslab_index_lock_of(superslab);
  bool fits = (superslab->free_mask & bits) == bits;
  if (fits) *is_zero = claim_for_use_locked(superslab, bits);
  hk_purge_end_change_of(shard, now_ms);
  return fits;
}

static void release_locked(hk_slab_t *first, unsigned count, bool used) {
  hk_superslab_t *superslab = first->superslab;
  hk_superslab_index_unclaim_locked(superslab, hk_mask_range((unsigned)(first - superslab->slabs), count), used);
  hk_superslab_index_rejuvenate_locked(superslab);
}

void hk_superslab_release(hk_slab_t *first, unsigned count) {
  uint64_t now_ms = hk_os_coarse_ms();
  unsigned shard = hk_superslab_index_lock_of(first->superslab);
  release_locked(first, count, true);
  hk_purge_end_change_of(shard, now_ms);
}

/* Returns groups to the superslabs of the first one's shard. Keeps those of other shards in the list. */
static void release_of_one_shard(hk_list_t *groups, uint64_t now_ms) {
  unsigned shard = hk_superslab_index_lock_of(HK_CONTAINER_OF(groups->next, hk_slab_t, link)->superslab);
  for (hk_list_t *node = groups->next, *next; node != groups; node = next) {
    next = node->next; /* NOLINT(clang-analyzer-core.NullDereference): see hk_list_t */
    hk_slab_t *first = HK_CONTAINER_OF(node, hk_slab_t, link);
    if (HK_UNLIKELY(hk_superslab_index_shard(first->superslab) != shard)) continue;
    hk_list_remove(node);
    release_locked(first, first->slab_count, !first->is_zero);
  }
  hk_purge_end_change_of(shard, now_ms);
}

void hk_superslab_release_all(hk_list_t *groups) {
  uint64_t now_ms = hk_os_coarse_ms();
  while (!hk_list_is_empty(groups)) release_of_one_shard(groups, now_ms);
}

/* ---- Makes extents of free superslabs. */

static void dissolve_locked(hk_superslab_t *superslab) {
  hk_extent_t room = {superslab->start, HK_SUPERSLAB_BYTES, superslab->used_mask == 0};
  hk_lock_acquire(hk_lock_space);
  hk_superslab_index_set_states(superslab->slabs, hk_superslab_index_detach_free_locked(superslab), hk_slab_none);
  hk_extent_put_locked(room);
  hk_lock_release(hk_lock_space);
}

static bool dissolve_one_of(unsigned shard) {
  hk_superslab_index_lock(shard);
  hk_superslab_t *superslab = hk_superslab_index_wholly_free_locked(&hk_superslab_index[shard]);
  if (superslab != NULL) dissolve_locked(superslab);
  hk_superslab_index_unlock(shard);
  hk_space_check();
  return superslab != NULL;
}

bool hk_superslab_dissolve_free(size_t bytes) {
  if (hk_dirty_sums_of_slabs().dirty_bytes == 0 || hk_dirty_total() < bytes) return false;
  size_t count = 0, left = hk_superslab_index_superslab_count();
  for (unsigned i = 0; i < hk_load_relaxed(&hk_shard_count); i++) {
    for (; left > 0 && dissolve_one_of(i); left--) count++;
  }
  return count > 0;
}

/* ---- For the layers above. */

hk_superslab_usage_t hk_superslab_usage(void) {
  hk_dirty_sums_t sums = hk_dirty_sums_of_slabs();
  return (hk_superslab_usage_t){
      .superslab_count = hk_superslab_index_superslab_count(),
      .mapped_bytes = hk_superslab_index_mapped_bytes(),
      .in_use_bytes = sums.in_use_bytes,
      .dirty_bytes = sums.dirty_bytes,
      .lazy_bytes = sums.lazy_bytes,
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
