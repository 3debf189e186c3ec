/* space/purge_wakeup.c - L3. See purge_wakeup.h. */
#include "space/purge_wakeup.h"

#include "os/lock.h"
#include "os/os.h"
#include "os/process.h"

_Atomic(bool) hk_purge_wakeup_is_thread_due;
_Atomic(uint32_t) hk_purge_wakeup_word;
_Atomic(bool) hk_purge_wakeup_is_due_at_free;
_Atomic(bool) hk_purge_wakeup_awaits_thread;

/* Guarded by hk_lock_space. */
static bool has_thread;
static bool is_expected;

/* Written without the lock, by the thread that declined, and by one that attaches a heap. */
static _Atomic(uint64_t) not_before_ms;

/* True while there is a purge thread, or one is about to start. Set by the thread that starts it; cleared by the purge
 * thread, or where it could not be started. */
static _Atomic(bool) is_claimed;

/* The mark of the process that may have a purge thread; 0: none yet. */
static _Atomic(uint64_t) process;

bool hk_purge_wakeup_has_thread_locked(void) { return has_thread; }

void hk_purge_wakeup_note_locked(uint64_t now_ms, size_t held_bytes) {
  if (HK_LIKELY(has_thread || held_bytes < HK_PURGE_WAKEUP_WORTH_BYTES)) return;
  if (now_ms >= hk_load_relaxed(&not_before_ms)) hk_store_relaxed(&hk_purge_wakeup_is_thread_due, true);
}

size_t hk_purge_wakeup_next_look_bytes_locked(size_t held_bytes) {
  bool is_below = held_bytes < HK_PURGE_WAKEUP_WORTH_BYTES;
  return !has_thread && is_below ? HK_PURGE_WAKEUP_WORTH_BYTES : SIZE_MAX;
}

void hk_purge_wakeup_expect_locked(void) { is_expected = has_thread; }

bool hk_purge_wakeup_is_expected_locked(void) { return is_expected; }

bool hk_purge_wakeup_send_locked(void) {
  if (HK_LIKELY(!is_expected)) return false;
  is_expected = false;
  hk_bump_relaxed(&hk_purge_wakeup_word, 1);
  return true;
}

/* The purge thread read the word before its visit, and the word has changed since. So the purge thread does not fall
 * asleep, or this wakes it (docs/concurrency.md, "The purge thread's sleep"). */
void hk_purge_wakeup_wake(void) { hk_os_wake_one((const uint32_t *)&hk_purge_wakeup_word); }

void hk_purge_wakeup_send_at_free(void) {
  hk_lock_acquire(hk_lock_space);
  bool is_first = hk_load_relaxed(&hk_purge_wakeup_is_due_at_free);
  if (is_first) {
    hk_store_relaxed(&hk_purge_wakeup_is_due_at_free, false);
    hk_bump_relaxed(&hk_purge_wakeup_word, 1);
  }
  hk_lock_release(hk_lock_space);
  if (is_first) hk_purge_wakeup_wake();
}

void hk_purge_wakeup_force(void) {
  hk_lock_acquire(hk_lock_space);
  hk_bump_relaxed(&hk_purge_wakeup_word, 1);
  hk_lock_release(hk_lock_space);
  hk_purge_wakeup_wake();
}

void hk_purge_wakeup_set_thread(bool is_there) {
  hk_lock_acquire(hk_lock_space);
  has_thread = is_there;
  is_expected = false;
  hk_lock_release(hk_lock_space);
}

void hk_purge_wakeup_decline(uint64_t now_ms) {
  hk_store_relaxed(&hk_purge_wakeup_is_thread_due, false);
  hk_store_relaxed(&not_before_ms, now_ms + HK_PURGE_WAKEUP_RETRY_MS);
}

void hk_purge_wakeup_note_thread_slow(void) {
  hk_store_relaxed(&hk_purge_wakeup_awaits_thread, false);
  hk_store_relaxed(&not_before_ms, 0);
  hk_store_relaxed(&hk_purge_wakeup_is_thread_due, true);
}

void hk_purge_wakeup_allow(void) { hk_store_relaxed(&process, hk_process_mark()); }

void hk_purge_wakeup_forbid(void) { hk_store_relaxed(&process, 0); }

bool hk_purge_wakeup_is_allowed(void) { return hk_load_relaxed(&process) == hk_process_mark(); }

bool hk_purge_wakeup_claim(void) {
  bool expected = false;
  return hk_compare_exchange_acquire(&is_claimed, &expected, true);
}

void hk_purge_wakeup_give_up(void) { hk_store_release(&is_claimed, false); /* with the next claim */ }

void hk_purge_wakeup_repair(void) {
  hk_store_relaxed(&is_claimed, false);
  has_thread = is_expected = false;
  hk_store_relaxed(&hk_purge_wakeup_is_due_at_free, false);
  hk_store_relaxed(&hk_purge_wakeup_awaits_thread, false);
  hk_store_relaxed(&hk_purge_wakeup_is_thread_due, false);
  hk_store_relaxed(&not_before_ms, 0);
}
