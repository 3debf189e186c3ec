/* space/dirty.h - L3. How much of the memory of all accounts (space/dirty_account.h) may be dirty: notes their changes
 * in the retention (policy/retention.h), and judges them. */
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
#include "policy/option.h"
#include "policy/retention.h"
#include "space/dirty_account.h"

/* True while a memory limit is felt (policy/pressure.h). Then free memory in heaps, which counts as in use, is purged
 * too. Written under hk_lock_space, read by any thread. */
extern HK_HIDDEN _Atomic(bool) hk_dirty_is_near_limit;

/* True while a thread is to purge the free memory in heaps of sleeping threads. Set under hk_lock_space while a limit
 * is near and more is in use than before; cleared by the thread that does so. */
extern HK_HIDDEN _Atomic(bool) hk_dirty_is_heap_purge_due;

/* `now_ms` is hk_os_coarse_ms(), read before a lock was taken. These functions require the account's lock. */

/* Notes that `bytes` of the account that are not resident are about to be touched. The end of the change tells whether
 * they are a refault. */
HK_INLINE void hk_dirty_note_touched_locked(hk_dirty_account_t *account, size_t bytes) {
  account->touched_bytes += bytes;
}

/* Ends a change and puts off noting it, if it is a small one that follows a look within the same ms of the coarse clock
 * (measured: docs/experiments/2026-11-26-runs.md). Returns false when the caller is to call hk_dirty_look_locked. */
bool hk_dirty_put_off_locked(hk_dirty_account_t *account, uint64_t now_ms);

/* These functions require hk_lock_space. */

/* What the caller does after it releases the lock. */
typedef struct {
  size_t keep_bytes;      /* the bytes to purge down to, when is_too_much */
  size_t most_bytes;      /* more dirty bytes than these are too much */
  bool is_too_much;       /* more memory is dirty than may be */
  hk_purge_cause_t cause; /* of is_too_much */
  bool is_apart_too_much; /* call hk_class_slabs_purge_excess (space/class_slabs.h) */
  bool is_limit_look_due; /* call hk_dirty_look_at_limit, then hk_dirty_look_locked again */
  bool is_peak_look_due;  /* call hk_dirty_look_at_peak */
  bool is_wakeup_sent;    /* call hk_purge_wakeup_wake */
} hk_purge_verdict_t;

/* A look: notes a change of an account, and returns the verdict on all dirty memory. Requires the account's lock
 * too. */
hk_purge_verdict_t hk_dirty_look_locked(hk_dirty_account_t *account, uint64_t now_ms);

/* Notes that `bytes` are being purged. */
void hk_dirty_note_purged_locked(uint64_t now_ms, hk_purge_cause_t cause, size_t bytes);

/* Drops credit and refaults (hk_retention_forget): a caller has requested a purge of all dirty memory. */
void hk_dirty_forget_locked(void);

/* Returns the memory limit in force: the lower one of the option's and the system's at the last look; 0: none. */
size_t hk_dirty_limit_bytes_locked(void);

/* Returns the verdict for a visit of the purge thread, without a change of the sums. Sets the time until its next
 * visit. */
hk_purge_verdict_t hk_dirty_visit_locked(uint64_t now_ms, uint64_t *wait_ms);

/* Sets what purging a MiB and faulting it in again cost, in ns of CPU time (hk_retention_set_costs). */
void hk_dirty_set_costs_locked(uint64_t now_ms, uint64_t purge_ns, uint64_t fault_ns);

#if HK_DEBUG
/* Runs hk_retention_check. */
void hk_dirty_check_locked(void);
#endif

/* These functions take the lock themselves. */

/* Ends a visit, after the purge that its verdict required. */
void hk_dirty_end_visit(void);

/* Asks the system for its memory limit and its pressure, and notes them. Later looks judge by them. */
void hk_dirty_look_at_limit(uint64_t now_ms);

/* Asks the system for the process's peak. Returns how many dirty bytes the caller is to purge as it rises
 * (policy/peak.h), and sets how many stay in any case. */
size_t hk_dirty_look_at_peak(uint64_t now_ms, size_t *keep_bytes);

/* Notes that `purged_bytes` were purged of those that hk_dirty_look_at_peak returned, or more. */
void hk_dirty_settle_peak(size_t returned_bytes, size_t purged_bytes);

/* For a child of fork, while it has one thread: forgets the peak, because the child has one of its own. */
void hk_dirty_repair(void);

/* Returns whether the program is quiet: it has taken and freed nothing for most of the break-even time. Sets
 * `*since_ms` to the time of its last change. */
bool hk_dirty_is_quiet(uint64_t now_ms, uint64_t *since_ms);

/* Returns the time after which a thread counts as asleep. Chosen: two fifths of the break-even time without a slow
 * path. */
uint64_t hk_dirty_asleep_ms(void);

/* Makes the purge thread come as soon as the program is quiet, also if nothing is dirty at its next visit. */
void hk_dirty_await_quiet(void);

/* Sets the time of the last change back to `since_ms`: frees by the purge thread are no activity of the program. */
void hk_dirty_stay_quiet(uint64_t since_ms);

/* hk_dirty_limit_bytes_locked, for callers without the lock. */
size_t hk_dirty_limit_bytes(void);

/* Copies the state of the learner, as it is now. */
void hk_dirty_copy_learned(hk_learn_t *copy);

/* Makes the learner continue from the record of an earlier run, if it is good. Returns the verdict on it. */
hk_learn_record_verdict_t hk_dirty_import_learned(const unsigned char *bytes, size_t length);

#endif /* HK_SPACE_DIRTY_H */
