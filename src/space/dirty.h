/* space/dirty.h - L3. How much memory is in use and how much is dirty, in parts: the superslabs of each shard, and the
 * extents that large blocks come from. All have one limit (policy/retention.h) and one order of age. */
#ifndef HK_SPACE_DIRTY_H
#define HK_SPACE_DIRTY_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/panic.h"
#include "base/units.h"
#include "os/shard.h"
#include "policy/cost.h"
#include "policy/learn.h"
#include "policy/learn_record.h"
#include "policy/option.h"
#include "policy/retention.h"

/* A part of the memory: the superslabs of one shard, or the extents. Guarded by the shard's lock, or by hk_lock_space.
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
  _Atomic(uint64_t) last_age; /* the youngest of this part */
  /* When the last change was made that is not noted yet; 0: none. Set by the holder of the part's lock, cleared under
   * hk_lock_space by the thread that notes it. */
  _Atomic(uint64_t) put_off_ms;
  size_t wanted_bytes;       /* are about to be touched, since the last change ended */
  size_t ended_in_use_bytes; /* as the last change left them */
  size_t ended_dirty_bytes;
  struct {        /* the last look at a change of this part */
    bool is_calm; /* the next change may be put off ... */
    uint64_t at_ms;
    uint32_t round;          /* ... until the numbers below are void (dirty.c, look_round), ... */
    size_t in_use_bytes;     /* ... near these in use that the part sees (dirty.c, sums_seen_by), ... */
    size_t most_dirty_bytes; /* ... up to these dirty, ... */
    size_t most_held_bytes;  /* ... below these in use and dirty, ... */
    size_t retain_bytes;     /* ... while the options are these */
    size_t memory_limit_bytes;
    bool is_refault_possible; /* memory was purged a short time ago, so touched memory is noted at once */
  } look;
} hk_dirty_part_t;

extern HK_HIDDEN hk_dirty_part_t hk_dirty_slabs[HK_SHARD_MAX]; /* [i]: the superslabs of shard i */
extern HK_HIDDEN hk_dirty_part_t hk_dirty_extents;

typedef struct {
  size_t in_use_bytes;
  size_t dirty_bytes;
  size_t lazy_bytes;
} hk_dirty_sums_t;

/* Return the sums of all superslabs, and of all memory. Any thread, no lock: while others change them, each sum is one
 * of about this moment. */
hk_dirty_sums_t hk_dirty_sums_of_slabs(void);
hk_dirty_sums_t hk_dirty_sums(void);

/* Whether a memory limit is felt (policy/pressure.h). Then free memory in heaps, which counts as in use, is purged
 * too. Written under hk_lock_space, read by any thread. */
extern HK_HIDDEN _Atomic(bool) hk_dirty_is_near_limit;

/* Whether the free memory in heaps of sleeping threads is to be taken. Set under hk_lock_space while a limit is near
 * and more is in use than before; cleared by the thread that takes it. */
extern HK_HIDDEN _Atomic(bool) hk_dirty_wants_heaps;

/* Return fields of hk_dirty_sums. */
HK_INLINE size_t hk_dirty_total(void) { return hk_dirty_sums().dirty_bytes; }
HK_INLINE size_t hk_dirty_in_use(void) { return hk_dirty_sums().in_use_bytes; }

/* Returns how many bytes of each kind of memory that is not in these sums a hardened build keeps for the next requests:
 * `retain`, and a twelfth of the memory in use. */
HK_INLINE size_t hk_dirty_room_apart(void) {
  return hk_option.retain > 0 ? hk_option.retain + hk_dirty_in_use() / 12 : 0;
}

/* `now_ms` is hk_os_coarse_ms(), read before a lock was taken. These functions require the part's lock. */

/* Returns the next age for memory of the part. Ages grow: the lower one is older. Never 0. Ages of different shards
 * follow each other about in the order of time. */
uint64_t hk_dirty_next_age_locked(hk_dirty_part_t *part);

/* Notes that `bytes` of the part that are not resident are about to be touched. The end of the change judges it. */
HK_INLINE void hk_dirty_note_wanted_locked(hk_dirty_part_t *part, size_t bytes) { part->wanted_bytes += bytes; }

/* Ends a change that may be noted later: a small one that follows another within the same ms of the coarse clock
 * (measured: docs/experiments/2026-11-26-runs.md). False: call hk_dirty_look_locked now. */
bool hk_dirty_put_off_locked(hk_dirty_part_t *part, uint64_t now_ms);

/* These functions require hk_lock_space. */

/* What the caller does after it releases the lock. */
typedef struct {
  size_t keep_bytes;      /* the bytes to purge down to, when is_too_much */
  size_t most_bytes;      /* more dirty bytes than these are too much */
  bool is_too_much;       /* more memory is dirty than may be */
  hk_purge_cause_t cause; /* of is_too_much */
  /* hk_dirty_ask_system is to be called; then the caller looks again. */
  bool is_system_look_due;
  bool is_wakeup_sent; /* hk_purge_wakeup_wake is to be called */
} hk_purge_verdict_t;

/* Notes a change of a part and judges it. Requires the part's lock too. */
hk_purge_verdict_t hk_dirty_look_locked(hk_dirty_part_t *part, uint64_t now_ms);

/* Notes that `bytes` are being purged. */
void hk_dirty_note_given_back_locked(uint64_t now_ms, hk_purge_cause_t cause, size_t bytes);

/* Drops credit and refaults (hk_retention_forget): a caller has requested a purge of all dirty memory. */
void hk_dirty_forget_locked(void);

/* Returns the memory limit in force: the lower one of the option's and the system's at the last look; 0: none. */
size_t hk_dirty_limit_bytes_locked(void);

/* Judges for the purge thread, without a change of the sums. Sets the time until its next visit, in ms. */
hk_purge_verdict_t hk_dirty_visit_locked(uint64_t now_ms, uint64_t *wait_ms);

#if HK_DEBUG
/* Runs hk_retention_check. */
void hk_dirty_check_locked(void);
#endif

/* These functions take the lock themselves. */

/* Ends the visit, after the purge that its verdict required. */
void hk_dirty_end_visit(void);

/* Asks the system how near its memory limit is. */
void hk_dirty_ask_system(uint64_t now_ms);

/* Whether the program is quiet: it has taken and freed nothing for most of the break-even time. Sets since when. */
bool hk_dirty_is_quiet(uint64_t now_ms, uint64_t *since_ms);

/* Returns the time after which a thread counts as asleep. Chosen: two fifths of the break-even time without a slow
 * path. */
uint64_t hk_dirty_asleep_ms(void);

/* Sets the time of the last change back: frees by the purge thread itself are no activity of the program. */
void hk_dirty_stay_quiet(uint64_t since_ms);

/* hk_dirty_limit_bytes_locked, for callers without the lock. */
size_t hk_dirty_limit_bytes(void);

/* The costs that are measured. */
typedef enum {
  hk_dirty_cost_purge, /* of purging memory */
  hk_dirty_cost_fault, /* of faulting it in again, in one call */
  hk_dirty_cost_count,
} hk_dirty_cost_t;

/* Permits measuring costs. Without this call the expected ones hold, so that tests can be repeated. */
void hk_dirty_allow_costs(void);

/* Returns whether a call of this kind is to be measured. */
bool hk_dirty_wants_cost(hk_dirty_cost_t kind);

/* Notes a measured call (hk_cost_add). The learner uses the costs once they are known. */
void hk_dirty_note_cost(hk_dirty_cost_t kind, size_t bytes, uint64_t cpu_ns);

/* Returns what a MiB costs here, in ns of CPU time; the expected cost until enough calls were measured. Sets their
 * number. */
uint64_t hk_dirty_cost_ns(hk_dirty_cost_t kind, unsigned *samples);

/* Copies the state of the learner, as it is now. */
void hk_dirty_copy_learned(hk_learn_t *copy);

/* Continues from the record of an earlier run, if it is good. */
hk_learn_record_verdict_t hk_dirty_import_learned(const unsigned char *bytes, size_t length);

#endif /* HK_SPACE_DIRTY_H */
