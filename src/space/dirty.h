/* space/dirty.h - L3. How much memory is in use and how much lies idle, of both kinds that there are: slabs of
 * superslabs, and the ranges that large blocks are made of. One limit for both (policy/retention.h), one order of age.
 */
#ifndef HK_SPACE_DIRTY_H
#define HK_SPACE_DIRTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/panic.h"
#include "policy/learn.h"
#include "policy/learn_record.h"
#include "policy/retention.h"

/* Sums over one kind of memory. Written under hk_lock_space, read by any thread.
 *
 * Invariant, of superslabs: in_use_bytes are the slabs of their in_use_mask, dirty_bytes those of hk_superslab_index_dirty_bits and
 * hk_dirty_lazy_bytes those of lazy_mask (superslab_index.h). Of ranges: dirty_bytes are the free extents that are not known to be
 * zero. */
typedef struct {
  _Atomic(size_t) in_use_bytes;
  _Atomic(size_t) dirty_bytes; /* free, and not given back to the system */
} hk_dirty_sum_t;

extern HK_HIDDEN hk_dirty_sum_t hk_dirty_slabs;
extern HK_HIDDEN hk_dirty_sum_t hk_dirty_extents;

/* Free slabs that were given back lazily: not idle, and the system may not have taken them yet. Written under
 * hk_lock_space, read by anybody. */
extern HK_HIDDEN _Atomic(size_t) hk_dirty_lazy_bytes;

/* Whether a limit on memory is felt (policy/pressure.h): then free memory that heaps keep, which counts as in use, goes
 * too. Written under hk_lock_space, read by any thread. */
extern HK_HIDDEN _Atomic(bool) hk_dirty_is_near_limit;

/* Set under hk_lock_space while that is so and more is in use than before; cleared by the thread that then takes what
 * heaps of sleeping threads keep. */
extern HK_HIDDEN _Atomic(bool) hk_dirty_wants_heaps;

/* What is idle, and what is in use, of both kinds. */
size_t hk_dirty_total(void);
size_t hk_dirty_in_use(void);

/* What follows needs hk_lock_space. `now_ms` is hk_os_coarse_ms(), asked for before the lock was taken. */

/* Ages grow: of two things that are idle, the one with the lower age has been so for longer. Never 0. */
uint64_t hk_dirty_next_age_locked(void);

/* What to do when the lock is released. */
typedef struct {
  size_t keep_bytes;       /* when there is too much: what to trim to */
  bool is_too_much;        /* more is idle than may be */
  hk_purge_cause_t cause;  /* of that */
  bool is_system_look_due; /* hk_dirty_ask_system, after which who has looked looks again */
  bool is_wakeup_sent;     /* hk_purge_wakeup_wake is to be called */
} hk_purge_verdict_t;

/* To be called after each change of the sums. */
hk_purge_verdict_t hk_dirty_look_locked(uint64_t now_ms);

/* So much is about to be touched that is not resident. */
void hk_dirty_note_wanted_locked(uint64_t now_ms, size_t bytes);

/* So much is going back to the system. */
void hk_dirty_note_given_back_locked(uint64_t now_ms, hk_purge_cause_t cause, size_t bytes);

/* Somebody asked for everything to be given back: the limit is what it was at the start. */
void hk_dirty_forget_locked(void);

/* The limit on memory that is respected, the lower one of the option's and the system's as it was seen last; 0:
 * none. */
size_t hk_dirty_limit_bytes_locked(void);

/* For the purge thread, when nothing need have changed. */
hk_purge_verdict_t hk_dirty_visit_locked(uint64_t now_ms, uint64_t *wait_ms);

#if HK_DEBUG
/* hk_retention_check. */
void hk_dirty_check_locked(void);
#endif

/* The rest takes the lock itself. */

/* The visit is over, and what it said has been given back as far as it could be. */
void hk_dirty_end_visit(void);

/* Asks the system how near its limit on memory is. */
void hk_dirty_ask_system(uint64_t now_ms);

/* Whether the program is quiet: nothing was taken or freed for most of the break-even time. Since when. */
bool hk_dirty_is_quiet(uint64_t now_ms, uint64_t *since_ms);

/* Chosen: a thread that was in no slow path for two fifths of the break-even time counts as asleep. */
uint64_t hk_dirty_asleep_ms(void);

/* What the purge thread itself frees is no sign of life: the program has been quiet since then. */
void hk_dirty_stay_quiet(uint64_t since_ms);

/* hk_dirty_limit_bytes_locked, by who has no lock. */
size_t hk_dirty_limit_bytes(void);

/* What was learned, as it is now. */
void hk_dirty_copy_learned(hk_learn_t *copy);

/* Goes on from what an earlier run has learned, if the record is good. */
hk_learn_record_verdict_t hk_dirty_import_learned(const unsigned char *bytes, size_t length);

#endif /* HK_SPACE_DIRTY_H */
