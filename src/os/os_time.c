/* os/os_time.c - L1. Implements clocks and waiting of os.h on Linux. Reads clocks by the vDSO and waits by bare system
 * calls: the C library's clock_gettime may be interposed by one that allocates. */
#include <errno.h>
#include <linux/futex.h>
#include <time.h>

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "os/os.h"
#include "os/syscall.h"
#include "os/timespec.h"
#include "os/vdso.h"

/* ---- Clocks. */

static int call_clock_gettime(long clock, struct timespec *now) {
  return (int)hk_syscall2(SYS_clock_gettime, clock, (long)now);
}

static struct timespec read_clock(long clock) {
  static _Atomic(hk_vdso_clock_t *) known;
  hk_vdso_clock_t *read = hk_load_relaxed(&known);
  if (HK_UNLIKELY(read == NULL)) {
    read = hk_vdso_find_clock(hk_os_vdso());
    if (read == NULL) read = call_clock_gettime;
    hk_store_relaxed(&known, read);
  }
  struct timespec now = {0, 0};
  (void)read(clock, &now);
  return now;
}

static uint64_t read_clock_ms(long clock) { return hk_timespec_to_ms(read_clock(clock)); }

uint64_t hk_os_now_ns(void) { return hk_timespec_to_ns(read_clock(CLOCK_MONOTONIC)); }

uint64_t hk_os_coarse_ms(void) { return read_clock_ms(CLOCK_MONOTONIC_COARSE); }

/* No vDSO reads this clock. */
uint64_t hk_os_thread_cpu_ns(void) {
  struct timespec now = {0, 0};
  if (hk_sandbox_may_kill()) return 0;
  (void)hk_syscall2(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&now);
  return hk_timespec_to_ns(now);
}

/* The exact clock reads the time-stamp counter, which a program may have forbidden itself (PR_SET_TSC). */
uint64_t hk_os_unix_ms(void) { return read_clock_ms(CLOCK_REALTIME_COARSE); }

/* ---- Waiting. */

/* Chosen: longer than a lock is held. */
#define LOCK_SLEEP_NS 50000

/* Chosen: the longest interval at which a sleeper without a wake-up reads its word; the first is a millisecond. */
#define WORD_LOOK_MS 50

static bool is_word(const uint32_t *word, uint32_t expected) {
  return __atomic_load_n(word, __ATOMIC_RELAXED) == expected;
}

/* Returns whether the system refused to wait. A filter may return any error, also the one that means another word. */
static bool is_wait_refused(long answer, const uint32_t *word, uint32_t expected) {
  if (!hk_syscall_failed(answer) || answer == -EINTR || answer == -ETIMEDOUT) return false;
  return answer != -EAGAIN || is_word(word, expected);
}

static bool has_slept(long answer) { return !hk_syscall_failed(answer) || answer == -EINTR; }

/* Sleeps without a futex. Returns false when the system refuses. */
static bool sleep_by_clock(uint64_t ns) {
  struct timespec time = hk_timespec_of_ns(ns);
  return has_slept(hk_syscall2(SYS_nanosleep, (long)&time, 0)) ||
         has_slept(hk_syscall4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&time, 0)) ||
         has_slept(hk_syscall6(SYS_ppoll, 0, 0, (long)&time, 0, 0, 0));
}

void hk_os_yield(void) { (void)hk_syscall2(SYS_sched_yield, 0, 0); }

void hk_os_wait(const uint32_t *word, uint32_t expected) {
  long answer = hk_syscall4(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, (long)expected, 0);
  if (HK_LIKELY(!is_wait_refused(answer, word, expected)) || sleep_by_clock(LOCK_SLEEP_NS)) return;
  hk_os_yield();
}

static bool look_at_word(const uint32_t *word, uint32_t expected, uint64_t timeout_ms) {
  for (uint64_t step_ms = 1; timeout_ms > 0 && is_word(word, expected);) {
    uint64_t part_ms = hk_smaller(step_ms, timeout_ms);
    if (!sleep_by_clock(part_ms * 1000000)) return false;
    timeout_ms -= part_ms;
    step_ms = hk_smaller(2 * step_ms, WORD_LOOK_MS);
  }
  return true;
}

bool hk_os_wait_for(const uint32_t *word, uint32_t expected, uint64_t timeout_ms) {
  struct timespec timeout = hk_timespec_of_ms(timeout_ms);
  long answer = hk_syscall4(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, expected, (long)&timeout);
  return !is_wait_refused(answer, word, expected) || look_at_word(word, expected, timeout_ms);
}

void hk_os_wake_one(const uint32_t *word) { (void)hk_syscall3(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 1); }
