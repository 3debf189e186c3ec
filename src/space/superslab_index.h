/* space/superslab_index.h - L3. All superslabs, and where to look for free slabs.
 *
 * Each shard (os/shard.h) has a superslab index. Its superslabs were made by threads of that shard, or moved to it from
 * another one when a thread found free slabs there alone. They are in buckets by their longest row of free slabs, and
 * in a list by age when they have dirty slabs.
 *
 * The shard's lock guards the index and its superslabs. A superslab begins and ends, and gets and loses slabs, under
 * that lock and hk_lock_space, which guards the records. It moves under the locks of both shards.
 * hk_superslab_index_lock_all takes all of these locks, for what looks at every superslab. A function whose name ends
 * in _locked requires the lock of the superslab's index.
 *
 * Every change is one mask, and the lists follow from the masks. A fork may interrupt another thread at any
 * instruction: hk_superslab_index_repair then finds masks that are true or, at worst, slabs that are lost to the child.
 */
#ifndef HK_SPACE_SUPERSLAB_INDEX_H
#define HK_SPACE_SUPERSLAB_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/mask.h"
#include "base/panic.h"
#include "os/lock.h"
#include "os/shard.h"
#include "space/dirty.h"
#include "space/extent.h"
#include "space/slab.h"

#define HK_SUPERSLAB_INDEX_BUCKETS HK_SUPERSLAB_SLABS

/* The superslabs of one shard. While the shard has none, the index is not set up and none of its memory is touched. */
typedef struct {
  _Atomic(uint32_t) bucket_mask; /* bit i: bucket i is not empty; other threads read it without the lock, as a hint */
  bool is_ready;
  hk_list_t bucket[HK_SUPERSLAB_INDEX_BUCKETS]; /* [i]: superslabs whose longest row has i + 1 free slabs */
  hk_list_t dirty; /* superslabs with dirty slabs, or wholly free, through dirty_link, the oldest first */
  hk_list_t lazy;  /* superslabs with lazy slabs that are not in `dirty`, through dirty_link */
} hk_superslab_index_t;

/* 2 MiB of addresses, or those of their slabs that the system granted when it refused all 2 MiB. Anything may have the
 * rest of the addresses. Start and slabs do not change while a slab of the superslab is in use.
 *
 * Invariant: each mapped slab is in one of three states: free, in use, on its way to the system. Lazy slabs are
 * free and used. A free slab's descriptor says hk_slab_free and has no owner. longest_row is that of free_mask. The
 * superslab is in the bucket of that row, and in the list by age that its masks call for.
 */
typedef struct hk_superslab {
  hk_list_t link;                /* in the bucket of its longest row of free slabs, or among the spare records */
  hk_list_t dirty_link;          /* in one of its index's lists by age */
  struct hk_superslab *all_next; /* links all records ever made, from which a child of fork rebuilds the lists */
  uintptr_t start;               /* 0: the record describes nothing and may be reused */
  hk_slab_t *slabs;              /* its 32 descriptors */
  uint32_t slab_mask;            /* bit i: slab i is mapped; the other masks are parts of this one */
  uint32_t free_mask;            /* bit i: slab i is free */
  uint8_t longest_row;           /* of free slabs, which is its bucket; 0 when it is in none */
  _Atomic(uint8_t) shard;        /* whose index it is in, and whose lock guards it */
  uint32_t used_mask; /* bit i: slab i was touched since it was last zero; free, used and not lazy is dirty */
  /* Bit i: slab i is free and used, and was purged lazily (os/os.h): its contents are unknown. */
  uint32_t lazy_mask;
  uint32_t in_use_mask;   /* bit i: slab i is in use, and not on its way to the system */
  uint64_t dirty_since;   /* age by hk_dirty_next_age_locked in the list of dirty ones; 0 in the list of lazy ones */
  uint64_t full_since_ms; /* when it was first seen wholly in use, or found sparse after that; 0: not seen so */
  bool is_huge;           /* one huge page, as far as hakmem can tell */
  bool is_allowed;        /* advised by a flag of the mapping, which outlasts the huge page */
  bool has_hole;          /* a slab is or was in a short span (short_span.h): never a huge page */
} hk_superslab_t;

/* Returns the address of a slab of a superslab. */
HK_INLINE uintptr_t hk_slab_start(const hk_slab_t *slab) {
  return slab->superslab->start + (uintptr_t)(slab - slab->superslab->slabs) * HK_SLAB_BYTES;
}

/* Returns whether all its slabs are free. */
HK_INLINE bool hk_superslab_index_is_wholly_free(const hk_superslab_t *superslab) {
  return superslab->free_mask == superslab->slab_mask;
}

HK_INLINE size_t hk_superslab_index_bytes_of(uint32_t bits) { return (size_t)hk_mask_count(bits) * HK_SLAB_BYTES; }

/* [i]: the index of shard i. */
extern HK_HIDDEN hk_superslab_index_t hk_superslab_index[HK_SHARD_MAX];

/* Take and release the lock of a shard's index. */
HK_INLINE void hk_superslab_index_lock(unsigned shard) { hk_lock_acquire(hk_shard_lock(shard)); }
HK_INLINE void hk_superslab_index_unlock(unsigned shard) { hk_lock_release(hk_shard_lock(shard)); }

/* Take and release the locks of all shards and hk_lock_space. */
void hk_superslab_index_lock_all(void);
void hk_superslab_index_unlock_all(void);

/* Releases these locks but the one of `shard`. */
void hk_superslab_index_unlock_all_but(unsigned shard);

/* Returns the shard that a superslab is in. It stays in it while the caller has that shard's lock. */
HK_INLINE unsigned hk_superslab_index_shard(const hk_superslab_t *superslab) {
  return hk_load_relaxed(&((hk_superslab_t *)superslab)->shard);
}

/* Takes the lock of the shard that a superslab is in, and returns the shard. Requires that a slab of the superslab is
 * the caller's, or on its way to the system. */
unsigned hk_superslab_index_lock_of(const hk_superslab_t *superslab);

/* Takes the locks of two shards. */
void hk_superslab_index_lock_two(unsigned a, unsigned b);

/* Moves a superslab to another shard. Requires the locks of both. */
void hk_superslab_index_move_locked(hk_superslab_t *superslab, unsigned shard);

/* Returns the sums over the superslabs of the superslab's shard. */
HK_INLINE hk_dirty_account_t *hk_superslab_index_account(const hk_superslab_t *superslab) {
  return &hk_dirty_slabs[hk_superslab_index_shard(superslab)];
}

/* Moves a superslab to the bucket and the list by age that its masks call for. */
void hk_superslab_index_file_locked(hk_superslab_t *superslab);

/* Notes which slabs are in use. */
HK_INLINE void hk_superslab_index_note_in_use(hk_superslab_t *superslab, uint32_t bits, bool is_in_use) {
  superslab->in_use_mask = is_in_use ? superslab->in_use_mask | bits : superslab->in_use_mask & ~bits;
}

/* Returns the dirty slabs. */
HK_INLINE uint32_t hk_superslab_index_dirty_bits(const hk_superslab_t *superslab) {
  return superslab->free_mask & superslab->used_mask & ~superslab->lazy_mask;
}

/* Takes free slabs out of the masks, so no other thread takes them. Until they are put back, they are neither dirty nor
 * in use. */
HK_INLINE void hk_superslab_index_withdraw_locked(hk_superslab_t *superslab, uint32_t bits) {
  HK_ASSERT((superslab->free_mask & bits) == bits, "only free slabs are claimed");
  uint32_t lazy = superslab->lazy_mask & bits;
  hk_dirty_account_t *account = hk_superslab_index_account(superslab);
  hk_bump_relaxed(&account->dirty_bytes, -hk_superslab_index_bytes_of(bits & superslab->used_mask & ~lazy));
  if (HK_UNLIKELY(lazy != 0)) {
    hk_bump_relaxed(&account->lazy_bytes, -hk_superslab_index_bytes_of(lazy));
    superslab->lazy_mask &= ~lazy;
  }
  superslab->free_mask &= ~bits;
  superslab->used_mask |= bits;
  hk_superslab_index_file_locked(superslab);
}

/* Takes free slabs out of the masks, for use. */
HK_INLINE void hk_superslab_index_claim_locked(hk_superslab_t *superslab, uint32_t bits) {
  hk_superslab_index_withdraw_locked(superslab, bits);
  hk_superslab_index_note_in_use(superslab, bits, true);
  hk_bump_relaxed(&hk_superslab_index_account(superslab)->in_use_bytes, hk_superslab_index_bytes_of(bits));
}

/* Puts withdrawn slabs back. `used`: they are not known to be zero. */
HK_INLINE void hk_superslab_index_put_back_locked(hk_superslab_t *superslab, uint32_t bits, bool used) {
  HK_ASSERT((superslab->free_mask & bits) == 0, "a slab is given back once");
  if (!used) superslab->used_mask &= ~bits;
  superslab->full_since_ms = 0;
  hk_keep_store_order();
  superslab->free_mask |= bits;
  if (used) hk_bump_relaxed(&hk_superslab_index_account(superslab)->dirty_bytes, hk_superslab_index_bytes_of(bits));
  hk_superslab_index_file_locked(superslab);
}

/* Puts slabs back that were in use. */
HK_INLINE void hk_superslab_index_unclaim_locked(hk_superslab_t *superslab, uint32_t bits, bool used) {
  hk_bump_relaxed(&hk_superslab_index_account(superslab)->in_use_bytes, -hk_superslab_index_bytes_of(bits));
  hk_superslab_index_note_in_use(superslab, bits, false);
  hk_superslab_index_put_back_locked(superslab, bits, used);
}

/* Notes that dirty slabs were purged lazily. */
void hk_superslab_index_note_lazy_locked(hk_superslab_t *superslab, uint32_t bits);

/* Makes the superslab the youngest of the dirty ones. */
void hk_superslab_index_rejuvenate_locked(hk_superslab_t *superslab);

/* Returns a superslab of the index whose 32 slabs are all mapped and free; NULL when there is none. */
hk_superslab_t *hk_superslab_index_wholly_free_locked(const hk_superslab_index_t *index);

/* Returns such a superslab of any index; NULL when there is none. Requires the locks of all. */
hk_superslab_t *hk_superslab_index_wholly_free_of_all_locked(void);

/* Returns the oldest superslab that has dirty slabs or is wholly free; NULL when there is none. Requires the locks of
 * all. */
hk_superslab_t *hk_superslab_index_oldest_locked(void);

/* Returns a superslab that has lazy slabs, has no dirty ones and is not wholly free; NULL when there is none. Requires
 * the locks of all. */
hk_superslab_t *hk_superslab_index_lazy_locked(void);

/* Returns a record that describes nothing; NULL when the system refuses. Takes hk_lock_space. */
hk_superslab_t *hk_superslab_index_take_record(void);

/* Takes back a record that hk_superslab_index_take_record returned and that describes nothing. Takes hk_lock_space. */
void hk_superslab_index_spare_record(hk_superslab_t *record);

/* Makes free slabs of `room`, which lies within one superslab's addresses. They join the superslab that has another
 * part of these addresses, or become a new one, described by `record`, in the index of `shard`. Returns true when
 * the record was used. Requires hk_lock_space too, and for less than 2 MiB the locks of all. */
bool hk_superslab_index_enter_locked(hk_superslab_t *record, hk_extent_t room, unsigned shard);

/* Takes all free slabs out of the superslab, for the caller to unmap, and returns them. A superslab without any other
 * slab ends, and its record becomes spare. Requires hk_lock_space too. */
uint32_t hk_superslab_index_detach_free_locked(hk_superslab_t *superslab);

/* Takes slabs that are in use out of the superslab, for the caller to unmap. The superslab may end, as in
 * hk_superslab_index_detach_free_locked. Requires hk_lock_space too. */
void hk_superslab_index_detach_used_locked(hk_superslab_t *superslab, uint32_t bits);

/* Sets the state of those of a superslab's slabs that `bits` names. */
void hk_superslab_index_set_states(hk_slab_t *slabs, uint32_t bits, hk_slab_state_t state);

/* Returns a superslab that has a free slab; NULL when none has. Requires the locks of all. */
hk_superslab_t *hk_superslab_index_any_free_locked(void);

/* Returns the record that was made next after `record`, or the first one for NULL and after the last; NULL when there
 * are none. Some records describe nothing: their start is 0. Requires hk_lock_space. */
hk_superslab_t *hk_superslab_index_next_record_locked(const hk_superslab_t *record);

/* Return the number of superslabs and the bytes of their slabs. Any thread, no lock. */
size_t hk_superslab_index_superslab_count(void);
size_t hk_superslab_index_mapped_bytes(void);

/* In debug builds, checks a superslab's masks and that its lists agree with them, after each change of the masks. The
 * panic names the sentence that does not hold. */
#if HK_DEBUG
void hk_superslab_index_check_one_locked(const hk_superslab_t *superslab);
#else
HK_INLINE void hk_superslab_index_check_one_locked(const hk_superslab_t *superslab) { (void)superslab; }
#endif

/* For a child of fork, while it has one thread: rebuilds the lists and sums from the records. */
void hk_superslab_index_repair(void);

#endif /* HK_SPACE_SUPERSLAB_INDEX_H */
