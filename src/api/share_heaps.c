/* api/share_heaps.c - L5. See share_heaps.h.
 *
 * Where many threads are created at once, those that began first soon sleep, and their heaps can serve the others. So a
 * thread that finds no heap waits in line. Only the thread at the front looks for heaps, and takes a new one when its
 * turn is over. Threads of the program that work have the processors meanwhile.
 */
#include "api/share_heaps.h"

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "heap/detach.h"
#include "heap/pool.h"
#include "os/os.h"
#include "os/shard.h"

/* Chosen: with fewer heaps each thread has its own. */
#define FEW_HEAPS 8

/* Chosen: where no thread has taken a new heap for this time, a thread that begins does not wait. */
#define BURST_MS 16

/* Chosen: the looks in a turn at the front, and the pause after each. */
#define TURN_LOOKS 4
#define PAUSE_MS 1

/* Chosen, in quarters of a ms (docs/experiments/2026-11-28-how-long-the-line-waits.md): the time for which the threads
 * at the front may pause in a burst, the time that each heap found there adds, and the time of one pause. When the time
 * is used up, the rest of the burst does not wait. */
#define BUDGET_MAX 192
#define BUDGET_OF_HEAP 1
#define BUDGET_OF_PAUSE (4 * PAUSE_MS)

/* Chosen: the next thread takes the place of one that is at the front for longer: that one was cancelled, or left by a
 * signal handler's longjmp, or is not in this child of fork. Where it only had no processor, both look for heaps. */
#define STUCK_MS 64

/* When a thread last took a new heap. */
static _Atomic(uint64_t) last_new_ms;

/* The time left for pauses in this burst. The thread at the front writes it, and each that begins a burst. */
static _Atomic(uint32_t) budget;

/* The number of the thread at the front; 0: none. */
static _Atomic(uint32_t) front;

/* Inline: where a thread begins late, its stack has no room for one more frame (tests/preload/test_stack_use.py). */
HK_INLINE bool find_heap(void) { return hk_heap_pool_has_any() || hk_detach_one(hk_os_coarse_ms()); }

/* Returns whether a thread that finds no heap may pause. Where a processor may be free, a pause loses time. */
static bool may_wait(void) {
  return hk_heap_total() >= hk_load_relaxed(&hk_shard_used) && hk_load_relaxed(&budget) >= BUDGET_OF_PAUSE;
}

/* Returns false where the thread cannot wait, and in a signal handler of the thread at the front. */
static bool go_to_front(uint32_t self) {
  uint32_t other = 0;
  while (!hk_compare_exchange_acquire(&front, &other, self)) {
    if (other == self || !hk_os_wait_for((const uint32_t *)&front, other, STUCK_MS)) return false;
    if (hk_load_relaxed(&front) != other) other = 0;
  }
  return true;
}

static void leave_front(uint32_t self) {
  (void)hk_compare_exchange_acquire(&front, &self, 0);
  hk_os_wake_one((const uint32_t *)&front);
}

/* Two threads at the front may write at once: one change is then lost, and the budget never falls below zero. */
static void spend(uint32_t amount) {
  hk_store_relaxed(&budget, (uint32_t)hk_subtract_to_zero(hk_load_relaxed(&budget), amount));
}
static void earn(uint32_t amount) {
  hk_store_relaxed(&budget, (uint32_t)hk_smaller(hk_load_relaxed(&budget) + amount, BUDGET_MAX));
}

/* Returns whether the thread has found a heap in its turn. */
static bool take_turn(void) {
  for (unsigned looks = 0; looks < TURN_LOOKS && may_wait(); looks++) {
    if (find_heap()) return true;
    spend(BUDGET_OF_PAUSE);
    if (!hk_os_pause(PAUSE_MS)) break;
  }
  return find_heap();
}

/* Not inline: each thread runs the caller, whose code is to stay short (override/first_functions.txt). */
static HK_NOINLINE bool wait_for_heap(void) {
  uint32_t self = (uint32_t)hk_os_thread_self().number;
  if (self == 0 || !go_to_front(self)) return false;
  bool is_found = take_turn();
  if (is_found) earn(BUDGET_OF_HEAP);
  leave_front(self);
  return is_found;
}

void hk_share_heaps(void) {
  if (hk_heap_total() < FEW_HEAPS || hk_thread_keeps_no_heap() || hk_thread_take_up() || find_heap()) return;
  uint64_t new_ms = hk_load_relaxed(&last_new_ms);
  bool is_burst = hk_subtract_to_zero(hk_os_coarse_ms(), new_ms) < BURST_MS;
  if (!is_burst) hk_store_relaxed(&budget, BUDGET_MAX);
  if (is_burst && may_wait() && wait_for_heap()) return;
  hk_store_relaxed(&last_new_ms, hk_os_coarse_ms());
}
