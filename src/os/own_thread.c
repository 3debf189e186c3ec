/* os/own_thread.c - L1. See own_thread.h. */
#include "os/own_thread.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>

#include "base/atomic.h"
#include "os/os.h"
#include "os/syscall.h"
#include "os/thread_call.h"

/* Chosen: interval of checks whether a thread has ended. */
#define LOOK_MS 1

/* A thread that is being made. A child of fork may find one that its parent was making. */
#define ANNOUNCED ((long)-1)

/* [kind]: the thread's number; ANNOUNCED; 0: there was none. */
static _Atomic(long) own_threads[hk_own_thread_kind_count];

bool hk_own_thread_announce(hk_own_thread_kind_t kind) {
  (void)hk_exchange_acq_rel(&own_threads[kind], ANNOUNCED); /* before the look: a thread that waits for ends sees it */
  if (hk_sandbox_permits_threads()) return true;
  hk_own_thread_withdraw(kind);
  return false;
}

void hk_own_thread_withdraw(hk_own_thread_kind_t kind) { hk_store_relaxed(&own_threads[kind], 0); }

void hk_own_thread_begin(hk_own_thread_kind_t kind, const char *name) {
  struct sched_param none = {.sched_priority = 0};
  hk_store_relaxed(&own_threads[kind], (long)hk_thread_call_own());
  (void)hk_syscall3(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&none);
  (void)hk_syscall2(SYS_prctl, PR_SET_NAME, (long)name);
}

/* Returns whether a thread exists. Signal 0 has no effect but the answer. A thread of the parent before a fork does not
 * exist in the child. */
static bool is_there(long thread) {
  if (thread == ANNOUNCED) return true;
  if (thread > 0 && hk_sandbox_may_kill()) return hk_thread_call_is_there((uint64_t)thread);
  return thread > 0 && hk_syscall3(SYS_tgkill, (long)hk_os_process_id(), thread, 0) != -ESRCH;
}

void hk_own_thread_await_ends(uint64_t most_ms) {
  uint64_t end_ms = hk_os_coarse_ms() + most_ms;
  for (unsigned kind = 0; kind < hk_own_thread_kind_count; kind++) {
    while (is_there(hk_load_relaxed(&own_threads[kind])) && hk_os_coarse_ms() < end_ms) hk_os_pause(LOOK_MS);
    hk_store_relaxed(&own_threads[kind], 0);
  }
}
