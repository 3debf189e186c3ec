/* space/dirty_account.h - L3. How much memory is in use and how much is dirty, in an account for the superslabs of each
 * shard and one for the extents that large blocks come from. The ages of all dirty memory have one order. */
#ifndef HK_SPACE_DIRTY_ACCOUNT_H
#define HK_SPACE_DIRTY_ACCOUNT_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/units.h"
#include "os/shard.h"

/* The account of one shard's superslabs, or of the extents. Guarded by the shard's lock, or by hk_lock_space.
 * Other threads read the atomic fields without it.
 *
 * Invariant for superslabs: in_use_bytes counts the slabs of their in_use_mask, dirty_bytes those of
 * hk_superslab_index_dirty_bits, and lazy_bytes those of lazy_mask (superslab_index.h). For extents: dirty_bytes counts
 * the free extents that are not known to be zero.
 */
typedef struct {
  alignas(HK_CACHE_LINE_BYTES) _Atomic(size_t) in_use_bytes;
  _Atomic(size_t) dirty_bytes; /* free, and not purged */
  /* Free slabs that were purged lazily: they are not dirty, and the system may not have taken them yet. */
  _Atomic(size_t) lazy_bytes;
  _Atomic(uint64_t) last_age; /* the highest of this account */
  /* The time of the last change that was put off and is not noted yet; 0: none. Set by the holder of the account's
   * lock, cleared under hk_lock_space by the thread that notes the change. */
  _Atomic(uint64_t) put_off_ms;
  size_t touched_bytes;      /* noted as about to be touched since the last change ended */
  size_t ended_in_use_bytes; /* as the last change left them */
  size_t ended_dirty_bytes;
  struct {            /* the last look at a change of this account */
    bool may_put_off; /* the next change may be put off ... */
    uint64_t at_ms;
    uint32_t version;    /* ... until the numbers below are void (dirty.c, look_version), ... */
    size_t in_use_bytes; /* ... within `in_use_change_bytes` of these in use that the account sees (dirty.c), ... */
    size_t in_use_change_bytes;
    size_t most_dirty_bytes; /* ... up to these dirty, ... */
    size_t most_held_bytes;  /* ... below these in use and dirty, ... */
    size_t retain_bytes;     /* ... while the options are these */
    size_t memory_limit_bytes;
    bool is_refault_possible; /* memory was purged a short time ago, so touched memory is noted at once */
  } look;
} hk_dirty_account_t;

extern HK_HIDDEN hk_dirty_account_t hk_dirty_slabs[HK_SHARD_MAX]; /* [i]: the superslabs of shard i */
extern HK_HIDDEN hk_dirty_account_t hk_dirty_extents;

/* All accounts, by number. */
HK_INLINE unsigned hk_dirty_account_count(void) { return hk_load_relaxed(&hk_shard_count) + 1; }
HK_INLINE hk_dirty_account_t *hk_dirty_account_at(unsigned i) {
  return i == 0 ? &hk_dirty_extents : &hk_dirty_slabs[i - 1];
}

typedef struct {
  size_t in_use_bytes;
  size_t dirty_bytes;
  size_t lazy_bytes;
} hk_dirty_sums_t;

/* Return the sums of all superslabs, and of all memory. Any thread, no lock: while others change them, each sum is one
 * of about this moment. */
hk_dirty_sums_t hk_dirty_sums_of_slabs(void);
hk_dirty_sums_t hk_dirty_sums(void);

/* Adds the sums of an account. */
HK_INLINE void hk_dirty_add(hk_dirty_sums_t *sums, hk_dirty_account_t *account) {
  sums->in_use_bytes += hk_load_relaxed(&account->in_use_bytes);
  sums->dirty_bytes += hk_load_relaxed(&account->dirty_bytes);
  sums->lazy_bytes += hk_load_relaxed(&account->lazy_bytes);
}

/* Returns the sums that decide whether a change of the account may be put off: for a shard its own and the extents',
 * for the extents all. Other shards' lines are not read at each change; each shard has a share of what may be. */
HK_INLINE hk_dirty_sums_t hk_dirty_sums_seen_by(hk_dirty_account_t *account) {
  if (account == &hk_dirty_extents) return hk_dirty_sums();
  hk_dirty_sums_t sums = {0, 0, 0};
  hk_dirty_add(&sums, account);
  hk_dirty_add(&sums, &hk_dirty_extents);
  return sums;
}

/* Return fields of hk_dirty_sums. */
HK_INLINE size_t hk_dirty_total(void) { return hk_dirty_sums().dirty_bytes; }
HK_INLINE size_t hk_dirty_in_use(void) { return hk_dirty_sums().in_use_bytes; }

/* Stores the sums at the end of a change, which is noted now or put off. Requires the account's lock. */
HK_INLINE void hk_dirty_end_change_locked(hk_dirty_account_t *account) {
  account->ended_in_use_bytes = hk_load_relaxed(&account->in_use_bytes);
  account->ended_dirty_bytes = hk_load_relaxed(&account->dirty_bytes);
}

/* Returns the time of the last change that was put off, and clears that time; 0 when there was none. Requires
 * hk_lock_space. The exchange comes before the caller reads the sums, and the account's holder sets the time after it
 * has changed them. So a change that is missed here is noted after the next call. */
uint64_t hk_dirty_take_put_off_locked(void);

/* Returns the next age for memory of the account. Requires the account's lock. Ages grow: the lower one is older. Never
 * 0. Ages of different shards follow each other about in the order of time. */
uint64_t hk_dirty_next_age_locked(hk_dirty_account_t *account);

/* Makes later ages of all accounts higher than this account's ages so far. Requires the account's lock and
 * hk_lock_space. */
void hk_dirty_note_age_locked(hk_dirty_account_t *account);

/* Moves sums from one account to another. The sums of all accounts stay, so no look follows. What each account may put
 * off moves too. Requires the locks of both. */
void hk_dirty_move_locked(hk_dirty_account_t *from, hk_dirty_account_t *to, const hk_dirty_sums_t *sums);

#endif /* HK_SPACE_DIRTY_ACCOUNT_H */
