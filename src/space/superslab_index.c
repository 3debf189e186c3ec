/* space/superslab_index.c - L3. See superslab_index.h. */
#include "space/superslab_index.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/mask.h"
#include "os/lock.h"
#include "space/dirty.h"
#include "space/meta.h"
#include "space/region_map.h"

hk_superslab_index_t hk_superslab_index[HK_SHARD_MAX];

#define EMPTY_LIST(list) \
  { &(list), &(list) }

/* Guarded by hk_lock_space. Other threads read the atomic sums without it. */
static struct {
  hk_list_t spare; /* records that describe nothing, through link */
  hk_superslab_t *all;
  _Atomic(size_t) superslab_count;
  _Atomic(size_t) mapped_bytes;
} space = {.spare = EMPTY_LIST(space.spare)};

static unsigned shard_count(void) { return hk_load_relaxed(&hk_shard_count); }

static hk_superslab_index_t *index_of(const hk_superslab_t *superslab) {
  return &hk_superslab_index[hk_superslab_index_shard(superslab)];
}

static void set_up_locked(hk_superslab_index_t *index) {
  for (unsigned i = 0; i < HK_SUPERSLAB_INDEX_BUCKETS; i++) hk_list_init(&index->bucket[i]);
  hk_list_init(&index->dirty);
  hk_list_init(&index->lazy);
  hk_store_relaxed(&index->bucket_mask, 0);
  hk_keep_store_order(); /* a child of fork may find it half done */
  index->is_ready = true;
}

void hk_superslab_index_lock_all(void) {
  (void)hk_shard_current(); /* the number of shards is known from here on, and stays from the first lock on */
  for (unsigned i = 0; i < shard_count(); i++) hk_lock_acquire(hk_shard_lock(i));
  hk_lock_acquire(hk_lock_space);
}

void hk_superslab_index_unlock_all_but(unsigned shard) {
  hk_lock_release(hk_lock_space);
  for (unsigned i = shard_count(); i-- > 0;) {
    if (i != shard) hk_lock_release(hk_shard_lock(i));
  }
}

/* The superslab may move before the lock is taken. */
unsigned hk_superslab_index_lock_of(const hk_superslab_t *superslab) {
  for (;;) {
    unsigned shard = hk_superslab_index_shard(superslab);
    hk_superslab_index_lock(shard);
    if (HK_LIKELY(hk_superslab_index_shard(superslab) == shard)) return shard;
    hk_superslab_index_unlock(shard);
  }
}

void hk_superslab_index_lock_two(unsigned a, unsigned b) {
  hk_superslab_index_lock(a < b ? a : b);
  hk_superslab_index_lock(a < b ? b : a);
}

void hk_superslab_index_unlock_all(void) { hk_superslab_index_unlock_all_but(HK_SHARD_MAX); }

/* Returns the number of dirty slabs: a purge makes the program smaller by them. */
static unsigned dirty_count(const hk_superslab_t *superslab) {
  return hk_mask_count(hk_superslab_index_dirty_bits(superslab));
}

/* ---- Buckets and lists by age. */

static void mark_bucket_locked(hk_superslab_index_t *index, unsigned bucket, bool has_superslab) {
  uint32_t mask = hk_load_relaxed(&index->bucket_mask), bit = UINT32_C(1) << bucket;
  hk_store_relaxed(&index->bucket_mask, has_superslab ? mask | bit : mask & ~bit);
}

/* Moves a superslab to the bucket of its longest row; 0: to none. */
static void file_by_row_locked(hk_superslab_t *superslab, unsigned longest) {
  hk_superslab_index_t *index = index_of(superslab);
  if (superslab->longest_row > 0) {
    unsigned bucket = superslab->longest_row - 1u;
    hk_list_remove(&superslab->link);
    if (hk_list_is_empty(&index->bucket[bucket])) mark_bucket_locked(index, bucket, false);
  }
  superslab->longest_row = (uint8_t)longest;
  if (longest > 0) {
    hk_list_push_front(&index->bucket[longest - 1], &superslab->link);
    mark_bucket_locked(index, longest - 1, true);
  }
}

/* Moves a superslab to the front of its bucket. A search examines the first one of each bucket, and this one has slabs
 * for the request. */
static void file_first_locked(hk_superslab_t *superslab) {
  hk_list_remove(&superslab->link);
  hk_list_push_front(&index_of(superslab)->bucket[superslab->longest_row - 1], &superslab->link);
}

/* Moves a superslab to the list by age that its masks call for, or to none. */
static void file_by_age_locked(hk_superslab_t *superslab) {
  hk_superslab_index_t *index = index_of(superslab);
  hk_list_t *list = NULL;
  if (hk_superslab_index_dirty_bits(superslab) != 0 || hk_superslab_index_is_wholly_free(superslab)) {
    list = &index->dirty;
  } else if (HK_UNLIKELY(superslab->lazy_mask != 0)) {
    list = &index->lazy;
  }
  if (hk_list_is_linked(&superslab->dirty_link)) {
    if (list == (superslab->dirty_since != 0 ? &index->dirty : &index->lazy)) return;
    hk_list_remove(&superslab->dirty_link);
  }
  if (list == NULL) return;
  superslab->dirty_since = list == &index->dirty ? hk_dirty_next_age_locked(hk_superslab_index_account(superslab)) : 0;
  hk_list_push_back(list, &superslab->dirty_link);
}

#if HK_DEBUG

static const hk_list_t *age_list_of(const hk_superslab_t *superslab) {
  if (!hk_list_is_linked(&superslab->dirty_link)) return NULL;
  return superslab->dirty_since != 0 ? &index_of(superslab)->dirty : &index_of(superslab)->lazy;
}

void hk_superslab_index_check_one_locked(const hk_superslab_t *superslab) {
  uint32_t free_mask = superslab->free_mask, lazy = superslab->lazy_mask;
  HK_REQUIRE((free_mask & superslab->in_use_mask) == 0, "a slab is free or in use");
  uint32_t of_all = free_mask | superslab->in_use_mask | superslab->used_mask;
  HK_REQUIRE((of_all & ~superslab->slab_mask) == 0, "a mask of a superslab has slabs of its own");
  HK_REQUIRE((lazy & ~(free_mask & superslab->used_mask)) == 0, "lazy slabs are free and used");
  HK_REQUIRE(superslab->longest_row == hk_mask_longest_row(free_mask),
             "a superslab has the length of its longest free row");
  HK_REQUIRE(hk_list_is_linked(&superslab->link) == (free_mask != 0), "a superslab with a free slab is in a bucket");
  bool is_in_dirty_list = dirty_count(superslab) > 0 || hk_superslab_index_is_wholly_free(superslab);
  const hk_list_t *list = is_in_dirty_list ? &index_of(superslab)->dirty
                          : lazy != 0      ? &index_of(superslab)->lazy
                                           : NULL;
  HK_REQUIRE(age_list_of(superslab) == list, "a superslab is in the list by age that its masks call for");
  for (uint32_t left = superslab->slab_mask; left != 0; left &= left - 1) {
    unsigned i = hk_lowest_bit(left);
    hk_slab_t *slab = &superslab->slabs[i];
    HK_REQUIRE(slab->superslab == superslab, "each slab of a superslab names it");
    if ((free_mask >> i & 1) == 0) continue;
    HK_REQUIRE(hk_slab_state(slab) == hk_slab_free, "a free slab's descriptor says so");
    HK_REQUIRE(hk_slab_owner(slab) == NULL, "a free slab has no owner");
  }
}

#endif

void hk_superslab_index_file_locked(hk_superslab_t *superslab) {
  unsigned longest = hk_mask_longest_row(superslab->free_mask);
  if (longest != superslab->longest_row) file_by_row_locked(superslab, longest);
  file_by_age_locked(superslab);
  hk_superslab_index_check_one_locked(superslab);
}

/* Makes its dirty slabs the youngest of the new shard, because a thread of that shard takes some of them now. */
void hk_superslab_index_move_locked(hk_superslab_t *superslab, unsigned shard) {
  if (!hk_superslab_index[shard].is_ready) set_up_locked(&hk_superslab_index[shard]);
  hk_keep_store_order(); /* a child of fork empties the lists and sums of indexes that are ready, and files in them */
  hk_dirty_sums_t sums = {
      .in_use_bytes = hk_superslab_index_bytes_of(superslab->in_use_mask),
      .dirty_bytes = hk_superslab_index_bytes_of(hk_superslab_index_dirty_bits(superslab)),
      .lazy_bytes = hk_superslab_index_bytes_of(superslab->lazy_mask),
  };
  file_by_row_locked(superslab, 0);
  if (hk_list_is_linked(&superslab->dirty_link)) hk_list_remove(&superslab->dirty_link);
  hk_dirty_move_locked(hk_superslab_index_account(superslab), &hk_dirty_slabs[shard], &sums);
  hk_store_relaxed(&superslab->shard, (uint8_t)shard);
  hk_superslab_index_file_locked(superslab);
}

void hk_superslab_index_note_lazy_locked(hk_superslab_t *superslab, uint32_t bits) {
  HK_ASSERT((hk_superslab_index_dirty_bits(superslab) & bits) == bits, "only dirty slabs are purged lazily");
  superslab->lazy_mask |= bits;
  hk_dirty_account_t *account = hk_superslab_index_account(superslab);
  hk_bump_relaxed(&account->dirty_bytes, -hk_superslab_index_bytes_of(bits));
  hk_bump_relaxed(&account->lazy_bytes, hk_superslab_index_bytes_of(bits));
  hk_superslab_index_file_locked(superslab);
}

void hk_superslab_index_rejuvenate_locked(hk_superslab_t *superslab) {
  if (!hk_list_is_linked(&superslab->dirty_link) || superslab->dirty_since == 0) return;
  hk_list_remove(&superslab->dirty_link);
  hk_list_push_back(&index_of(superslab)->dirty, &superslab->dirty_link);
  superslab->dirty_since = hk_dirty_next_age_locked(hk_superslab_index_account(superslab));
}

/* ---- Finding. */

hk_superslab_t *hk_superslab_index_wholly_free_locked(const hk_superslab_index_t *index) {
  if (hk_load_relaxed(&index->bucket_mask) >> (HK_SUPERSLAB_INDEX_BUCKETS - 1) == 0) return NULL;
  return HK_CONTAINER_OF(index->bucket[HK_SUPERSLAB_INDEX_BUCKETS - 1].next, hk_superslab_t, link);
}

hk_superslab_t *hk_superslab_index_wholly_free_of_all_locked(void) {
  hk_superslab_t *found = NULL;
  for (unsigned i = 0; i < shard_count() && found == NULL; i++)
    found = hk_superslab_index_wholly_free_locked(&hk_superslab_index[i]);
  return found;
}

hk_superslab_t *hk_superslab_index_any_free_locked(void) {
  for (unsigned i = 0; i < shard_count(); i++) {
    const hk_superslab_index_t *index = &hk_superslab_index[i];
    uint32_t buckets = hk_load_relaxed(&index->bucket_mask);
    if (buckets != 0) return HK_CONTAINER_OF(index->bucket[hk_lowest_bit(buckets)].next, hk_superslab_t, link);
  }
  return NULL;
}

static hk_superslab_t *first_by_age(const hk_list_t *list) {
  bool has_any = hk_list_is_linked(list) && !hk_list_is_empty(list);
  return has_any ? HK_CONTAINER_OF(list->next, hk_superslab_t, dirty_link) : NULL;
}

hk_superslab_t *hk_superslab_index_oldest_locked(void) {
  hk_superslab_t *oldest = NULL;
  for (unsigned i = 0; i < shard_count(); i++) {
    hk_superslab_t *first = first_by_age(&hk_superslab_index[i].dirty);
    if (first != NULL && (oldest == NULL || first->dirty_since < oldest->dirty_since)) oldest = first;
  }
  return oldest;
}

hk_superslab_t *hk_superslab_index_lazy_locked(void) {
  hk_superslab_t *found = NULL;
  for (unsigned i = 0; i < shard_count() && found == NULL; i++) found = first_by_age(&hk_superslab_index[i].lazy);
  return found;
}

hk_superslab_t *hk_superslab_index_next_record_locked(const hk_superslab_t *record) {
  return record != NULL && record->all_next != NULL ? record->all_next : space.all;
}

size_t hk_superslab_index_superslab_count(void) { return hk_load_relaxed(&space.superslab_count); }
size_t hk_superslab_index_mapped_bytes(void) { return hk_load_relaxed(&space.mapped_bytes); }

/* ---- Records. */

hk_superslab_t *hk_superslab_index_take_record(void) {
  hk_superslab_t *record = NULL;
  hk_lock_acquire(hk_lock_space);
  if (!hk_list_is_empty(&space.spare)) {
    record = HK_CONTAINER_OF(space.spare.next, hk_superslab_t, link);
    hk_list_remove(&record->link);
  }
  hk_lock_release(hk_lock_space);
  return record != NULL ? record : hk_meta_alloc(sizeof(hk_superslab_t));
}

static void spare_record_locked(hk_superslab_t *record) {
  record->start = 0;
  hk_list_push_front(&space.spare, &record->link);
}

void hk_superslab_index_spare_record(hk_superslab_t *record) {
  hk_lock_acquire(hk_lock_space);
  bool is_spare = hk_list_is_linked(&record->link); /* by hk_superslab_index_repair */
  if (HK_LIKELY(!is_spare)) spare_record_locked(record);
  hk_lock_release(hk_lock_space);
}

void hk_superslab_index_set_states(hk_slab_t *slabs, uint32_t bits, hk_slab_state_t state) {
  for (; bits != 0; bits &= bits - 1) hk_slab_set_state(&slabs[hk_lowest_bit(bits)], state);
}

/* Returns the slabs of a superslab's addresses that the room has. */
static uint32_t bits_of(hk_extent_t room) {
  unsigned first = (unsigned)(room.start % HK_SUPERSLAB_BYTES / HK_SLAB_BYTES);
  return hk_mask_range(first, (unsigned)(room.bytes / HK_SLAB_BYTES));
}

/* Returns the superslab that has slabs at these addresses; NULL when there is none. A descriptor may name a record of
 * an earlier use: records stay, and such a record has another start. */
static HK_COLD hk_superslab_t *find_locked(uintptr_t start) {
  const hk_slab_t *slabs = hk_slab_of((void *)start);
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    if (slabs[i].superslab != NULL && slabs[i].superslab->start == start) return slabs[i].superslab;
  }
  return NULL;
}

/* Begins a superslab without slabs, which a child of fork takes for a spare record. */
static void begin_locked(hk_superslab_t *record, uintptr_t start, unsigned shard) {
  bool is_new = record->slabs == NULL;
  bool is_spare = hk_list_is_linked(&record->link); /* by hk_superslab_index_repair */
  if (HK_UNLIKELY(is_spare)) hk_list_remove(&record->link);
  record->slabs = hk_slab_of((void *)start);
  hk_region_map_note_superslab(start);
  hk_store_relaxed(&record->shard, (uint8_t)shard);
  if (!index_of(record)->is_ready) set_up_locked(index_of(record));
  record->slab_mask = record->free_mask = record->used_mask = record->lazy_mask = 0;
  hk_superslab_index_note_in_use(record, HK_MASK_ALL, false);
  record->is_huge = record->is_allowed = record->has_hole = false;
  hk_keep_store_order();
  record->start = start;
  if (is_new) {
    record->all_next = space.all;
    hk_keep_store_order();
    space.all = record;
  }
  hk_bump_relaxed(&space.superslab_count, 1);
}

/* Adds slabs. The free mask is set last: a child of fork loses slabs that are not in it yet. */
static void add_locked(hk_superslab_t *superslab, hk_extent_t room) {
  uint32_t bits = bits_of(room);
  HK_ASSERT((superslab->slab_mask & bits) == 0, "the system grants addresses that no slab has");
  for (uint32_t left = bits; left != 0; left &= left - 1) superslab->slabs[hk_lowest_bit(left)].superslab = superslab;
  hk_superslab_index_set_states(superslab->slabs, bits, hk_slab_free);
  if (!room.is_zero) superslab->used_mask |= bits;
  superslab->slab_mask |= bits;
  superslab->full_since_ms = 0;
  hk_keep_store_order();
  superslab->free_mask |= bits;
  hk_bump_relaxed(&space.mapped_bytes, room.bytes);
  if (!room.is_zero) hk_bump_relaxed(&hk_superslab_index_account(superslab)->dirty_bytes, room.bytes);
  hk_superslab_index_file_locked(superslab);
  file_first_locked(superslab);
}

bool hk_superslab_index_enter_locked(hk_superslab_t *record, hk_extent_t room, unsigned shard) {
  uintptr_t start = hk_align_down(room.start, HK_SUPERSLAB_BYTES);
  hk_superslab_t *superslab = room.bytes < HK_SUPERSLAB_BYTES ? find_locked(start) : NULL;
  bool is_new = superslab == NULL;
  if (is_new) begin_locked(superslab = record, start, shard);
  add_locked(superslab, room);
  return is_new;
}

/* Removes slabs that are not free. A superslab without any other slab ends. */
static void remove_locked(hk_superslab_t *superslab, uint32_t bits) {
  hk_keep_store_order();
  superslab->slab_mask &= ~bits;
  superslab->used_mask &= ~bits;
  hk_bump_relaxed(&space.mapped_bytes, -hk_superslab_index_bytes_of(bits));
  if (superslab->slab_mask == 0) {
    hk_bump_relaxed(&space.superslab_count, (size_t)-1);
    spare_record_locked(superslab);
  }
}

uint32_t hk_superslab_index_detach_free_locked(hk_superslab_t *superslab) {
  uint32_t bits = superslab->free_mask;
  hk_superslab_index_withdraw_locked(superslab, bits);
  remove_locked(superslab, bits);
  return bits;
}

void hk_superslab_index_detach_used_locked(hk_superslab_t *superslab, uint32_t bits) {
  HK_ASSERT((superslab->slab_mask & ~superslab->free_mask & bits) == bits, "the slabs are in use");
  hk_bump_relaxed(&hk_superslab_index_account(superslab)->in_use_bytes, -hk_superslab_index_bytes_of(bits));
  hk_superslab_index_note_in_use(superslab, bits, false);
  remove_locked(superslab, bits);
  if (superslab->slab_mask != 0) hk_superslab_index_file_locked(superslab); /* it may be wholly free now */
}

/* ---- Fork. */

static void empty_lists(void) {
  hk_list_init(&space.spare);
  for (unsigned i = 0; i < HK_SHARD_MAX; i++) {
    if (!hk_superslab_index[i].is_ready) continue;
    set_up_locked(&hk_superslab_index[i]);
    hk_store_relaxed(&hk_dirty_slabs[i].in_use_bytes, 0);
    hk_store_relaxed(&hk_dirty_slabs[i].dirty_bytes, 0);
    hk_store_relaxed(&hk_dirty_slabs[i].lazy_bytes, 0);
  }
}

static void count_superslab(hk_superslab_t *superslab) {
  hk_dirty_account_t *account = hk_superslab_index_account(superslab);
  uint32_t in_use = superslab->slab_mask & ~superslab->free_mask;
  hk_bump_relaxed(&space.superslab_count, 1);
  hk_bump_relaxed(&space.mapped_bytes, hk_superslab_index_bytes_of(superslab->slab_mask));
  hk_bump_relaxed(&account->in_use_bytes, hk_superslab_index_bytes_of(in_use));
  hk_bump_relaxed(&account->dirty_bytes, dirty_count(superslab) * HK_SLAB_BYTES);
  hk_bump_relaxed(&account->lazy_bytes, hk_superslab_index_bytes_of(superslab->lazy_mask));
}

/* A record that the forking thread had taken for a new superslab becomes a spare one. If that was a signal handler's
 * fork, the thread goes on with the record in the child: begin_locked takes it out again, and a thread that does not
 * need it finds it given back. */
void hk_superslab_index_repair(void) {
  empty_lists();
  hk_store_relaxed(&space.superslab_count, 0);
  hk_store_relaxed(&space.mapped_bytes, 0);
  for (hk_superslab_t *superslab = space.all; superslab != NULL; superslab = superslab->all_next) {
    superslab->link.next = superslab->dirty_link.next = NULL;
    superslab->longest_row = 0;
    if (superslab->start == 0 || superslab->slab_mask == 0) {
      superslab->start = 0;
      hk_list_push_front(&space.spare, &superslab->link);
      continue;
    }
    superslab->used_mask &= superslab->slab_mask; /* a vanished thread was adding or removing slabs */
    superslab->lazy_mask &= superslab->free_mask; /* slabs that a vanished thread was claiming are lost */
    hk_superslab_index_note_in_use(superslab, HK_MASK_ALL, false);
    hk_superslab_index_note_in_use(superslab, superslab->slab_mask, true);
    hk_superslab_index_note_in_use(superslab, superslab->free_mask, false);
    hk_superslab_index_file_locked(superslab);
    count_superslab(superslab);
  }
}
