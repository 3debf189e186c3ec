/* api/purge_thread.c - L5. See purge_thread.h. */
#include "api/purge_thread.h"

#include "api/lifecycle.h"
#include "api/misuse.h"
#include "api/process_purge.h"
#include "base/arithmetic.h"
#include "heap/detach.h"
#include "heap/heap.h"
#include "heap/part.h"
#include "heap/pool.h"
#include "heap/purge_drain.h"
#include "os/os.h"
#include "os/rights.h"
#include "os/sandbox.h"
#include "policy/option.h"
#include "space/dirty.h"
#include "space/purge.h"

/* Chosen: remote frees wake the purge thread at most this often. */
#define BLOCKS_MIN_MS 1000

/* Written by the thread that has claimed the start, before it starts the purge thread. */
static bool is_of_first_thread;

/* Set when a purge thread that another thread started had other rights than the first thread. From then on only the
 * first thread starts one. */
static _Atomic(bool) is_left_to_first_thread;

/* Returns whether the program has `count` threads beside `of_ours` threads of the library. Where the system cannot
 * count threads, counts those with a heap; the purge thread has none. */
static bool has_threads(unsigned count, unsigned of_ours) {
  unsigned threads = hk_os_thread_count();
  return threads > 0 ? threads >= count + of_ours : hk_heap_count(hk_heap_attached) >= count;
}

/* Returns whether the program has two threads beside the purge thread. A first thread that has ended counts until the
 * process ends, and the process ends with the last of the others. */
static bool has_company(void) { return has_threads(2, 1); }

/* Detaches heaps of sleeping threads and drains their incoming lists. Purges the idle heaps, and what a hardened build
 * keeps apart, once in each time of quiet, and again when a heap has become idle since. */
static void visit_heaps(uint64_t now_ms, uint64_t *purged_ms) {
  uint64_t since_ms;
  bool is_quiet = hk_dirty_is_quiet(now_ms, &since_ms);
  hk_process_purge_detach_sleepers(now_ms);
  const hk_block_t *damaged = hk_purge_drain(now_ms, hk_dirty_asleep_ms());
  if (damaged != NULL) hk_misuse_damage(damaged);
  bool has_unflushed = hk_heap_pool_has_unflushed();
  if (is_quiet && (has_unflushed || since_ms != *purged_ms)) {
    *purged_ms = since_ms;
    hk_process_purge_idle_heaps();
  }
  if (!is_quiet && has_unflushed) hk_dirty_await_quiet();
  hk_dirty_stay_quiet(since_ms);
}

/* Returns the time until the next visit, in ms. A remote free sends the wake-up, at most once in BLOCKS_MIN_MS. The
 * wake-up is opened before the look at what waits, so that blocks that come after the look send it. */
static uint64_t wait_for_blocks_ms(uint64_t now_ms, uint64_t wait_ms, uint64_t *closed_until_ms) {
  bool may_open = now_ms >= *closed_until_ms;
  if (may_open) (void)hk_exchange_acq_rel(&hk_purge_wakeup_is_due_at_free, true);
  uint64_t due_ms = hk_purge_drain_next_due(now_ms, hk_dirty_asleep_ms());
  if (may_open && due_ms == UINT64_MAX) {
    *closed_until_ms = now_ms + BLOCKS_MIN_MS;
    return wait_ms;
  }
  hk_store_relaxed(&hk_purge_wakeup_is_due_at_free, false);
  if (due_ms == UINT64_MAX) due_ms = *closed_until_ms;
  return hk_smaller(wait_ms, hk_subtract_to_zero(due_ms, now_ms) + 1);
}

static uint64_t wait_for_sleepers_ms(uint64_t now_ms, uint64_t wait_ms) {
  hk_detach_terms_t terms = hk_process_purge_detach_terms(now_ms);
  uint64_t due_ms = hk_detach_next_due(&terms);
  return due_ms == UINT64_MAX ? wait_ms : hk_smaller(wait_ms, hk_subtract_to_zero(due_ms, now_ms) + 1);
}

/* Waits for a wake-up, at most `wait_ms`, and checks the thread's rights and its company meanwhile. `*verdict` is the
 * last check's. Returns false when the system refuses every way to wait. */
static bool rest(hk_rights_watch_t *rights, uint32_t word, uint64_t now_ms, uint64_t wait_ms, hk_rights_t *verdict) {
  uint64_t end_ms = hk_add_saturating(now_ms, wait_ms);
  do {
    uint64_t step_ms = hk_subtract_to_zero(hk_smaller(end_ms, rights->due_ms), now_ms);
    if (!hk_os_wait_for((const uint32_t *)&hk_purge_wakeup_word, word, step_ms)) return false;
    now_ms = hk_os_coarse_ms();
    *verdict = hk_rights_watch(rights, now_ms);
  } while (hk_rights_may_stay(*verdict) && now_ms < end_ms && hk_load_relaxed(&hk_purge_wakeup_word) == word &&
           has_company());
  return true;
}

/* Called when the thread ends because of its rights. The first thread starts the next one, with its own rights. No
 * thread does when a system call filter might end it for that, or when the next one could not check its rights
 * either. */
static void leave_to_others(hk_rights_t verdict) {
  if (verdict == hk_rights_confined) hk_lifecycle_note_filter();
  if (verdict == hk_rights_differ || (verdict == hk_rights_unknown && !is_of_first_thread)) {
    hk_store_relaxed(&is_left_to_first_thread, true);
  } else {
    hk_purge_wakeup_forbid();
  }
}

/* Declines the next purge thread for a while: the program's threads may come and go. After a longer life, the next
 * thread that begins may start one. */
static void decline_next(uint64_t start_ms, bool can_wait) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_purge_wakeup_decline(now_ms);
  if (can_wait && hk_subtract_to_zero(now_ms, start_ms) >= HK_PURGE_WAKEUP_RETRY_MS) hk_purge_wakeup_await_thread();
}

static void run(void) {
  uint64_t purged_ms = UINT64_MAX, closed_until_ms = 0, start_ms = hk_os_coarse_ms();
  hk_rights_watch_t rights = hk_rights_watch_begin(is_of_first_thread, true, start_ms);
  hk_rights_t verdict = hk_rights_watch(&rights, start_ms);
  bool can_wait = true;
  hk_purge_wakeup_set_thread(true);
  while (can_wait && hk_rights_may_stay(verdict) && hk_sandbox_permits_threads() && has_company()) {
    hk_os_signal_listen(); /* the program's threads may all block the command line tool's signal */
    uint32_t word = hk_load_relaxed(&hk_purge_wakeup_word); /* read before the visit: a wake-up may be sent during it */
    uint64_t now_ms = hk_os_coarse_ms();
    visit_heaps(now_ms, &purged_ms);
    uint64_t wait_ms = wait_for_blocks_ms(now_ms, hk_purge_visit(now_ms), &closed_until_ms);
    wait_ms = wait_for_sleepers_ms(now_ms, wait_ms);
    can_wait = rest(&rights, word, now_ms, wait_ms, &verdict);
  }
  if (!hk_rights_may_stay(verdict)) leave_to_others(verdict);
  hk_store_relaxed(&hk_purge_wakeup_is_due_at_free, false);
  hk_purge_wakeup_set_thread(false);
  (void)hk_purge_visit(hk_os_coarse_ms()); /* by the limit of a program without a purge thread */
  decline_next(start_ms, can_wait);
  hk_purge_wakeup_give_up();
}

/* The C library allocates for the thread. A tag of the calling thread is not charged for that. */
static bool start(void) {
  hk_heap_t *part = hk_part_enter_base();
  bool is_started = hk_os_thread_start("hakmem-purge", run);
  hk_part_leave_base(part);
  return is_started;
}

void hk_purge_thread_consider_slow(void) {
  hk_store_relaxed(&hk_purge_wakeup_is_thread_due, false); /* first: creating a thread allocates */
  /* Checks the sandbox first: it may forbid the system call that says which thread this is. */
  bool may_start = hk_option.purge_thread && hk_sandbox_permits_threads() &&
                   (!hk_load_relaxed(&is_left_to_first_thread) || hk_rights_is_first_thread());
  bool has_others = may_start && has_threads(2, 0);
  if (has_others && !hk_purge_wakeup_is_allowed())
    return; /* in a child of vfork the memory is the parent's, which may have a purge thread */
  if (has_others && hk_purge_wakeup_claim()) {
    is_of_first_thread = hk_rights_is_first_thread();
    if (start()) return;
    hk_purge_wakeup_give_up();
  }
  hk_purge_wakeup_decline(hk_os_coarse_ms());
  if (may_start && !has_others) hk_purge_wakeup_await_thread();
}
