/* os/os_time.c - L1. Keeps the part of os.h's contract that is about clocks and waiting, on Linux. It reads clocks by the
 * vDSO and waits by bare system calls: the C library's clock_gettime may be interposed by one that allocates.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <time.h>

#include "base/atomic.h"
#include "os/os.h"
#include "os/syscall.h"
#include "os/vdso.h"

/* ---- Clocks. */

static uintptr_t vdso_header(void) {
  int saved_errno = errno;
  uintptr_t header = getauxval(AT_SYSINFO_EHDR);
  errno = saved_errno;
  return header;
}

static int call_clock_gettime(long clock, struct timespec *now) {
  return (int)hk_syscall2(SYS_clock_gettime, clock, (long)now);
}

static struct timespec read_clock(long clock) {
  static _Atomic(hk_vdso_clock_t *) known;
  hk_vdso_clock_t *read = hk_load_relaxed(&known);
  if (HK_UNLIKELY(read == NULL)) {
    read = hk_vdso_find_clock(vdso_header());
    if (read == NULL) read = call_clock_gettime;
    hk_store_relaxed(&known, read);
  }
  struct timespec now = {0, 0};
  (void)read(clock, &now);
  return now;
}

static uint64_t read_clock_ms(long clock) {
  struct timespec now = read_clock(clock);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

uint64_t hk_os_now_ns(void) {
  struct timespec now = read_clock(CLOCK_MONOTONIC);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t hk_os_coarse_ms(void) { return read_clock_ms(CLOCK_MONOTONIC_COARSE); }

uint64_t hk_os_unix_ms(void) { return read_clock_ms(CLOCK_REALTIME); }

/* ---- Waiting. */

void hk_os_wait(const uint32_t *word, uint32_t expected) {
  (void)hk_syscall4(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, (long)expected, 0);
}

void hk_os_wait_for(const uint32_t *word, uint32_t expected, uint64_t timeout_ms) {
  struct timespec timeout = {.tv_sec = (time_t)(timeout_ms / 1000), .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
  (void)hk_syscall4(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, expected, (long)&timeout);
}

void hk_os_wake_one(const uint32_t *word) { (void)hk_syscall3(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 1); }
