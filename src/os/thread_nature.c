/* os/thread_nature.c - L1. See thread_nature.h. */
#include "os/thread_nature.h"

#include <errno.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "os/os.h"
#include "os/thread_call.h"

/* Chosen: interval of checks whether a thread has ended. */
#define LOOK_MS 1

static _Atomic(long) own_threads[hk_thread_kind_count];

void hk_thread_nature_take(hk_thread_kind_t kind, const char *name) {
  struct sched_param none = {.sched_priority = 0};
  hk_store_relaxed(&own_threads[kind], (long)hk_thread_call_own());
  (void)hk_syscall3(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&none);
  (void)hk_syscall2(SYS_prctl, PR_SET_NAME, (long)name);
}

/* Returns whether a thread exists. Signal 0 has no effect but the answer. A thread of the parent before a fork does not
 * exist in the child. */
static bool is_there(long thread) {
  if (thread > 0 && hk_sandbox_may_kill()) return hk_thread_call_is_there((uint64_t)thread);
  return thread > 0 && hk_syscall3(SYS_tgkill, (long)hk_os_process_id(), thread, 0) != -ESRCH;
}

void hk_thread_nature_await_ends(uint64_t most_ms) {
  uint64_t end_ms = hk_os_coarse_ms() + most_ms;
  for (unsigned kind = 0; kind < hk_thread_kind_count; kind++) {
    while (is_there(hk_load_relaxed(&own_threads[kind])) && hk_os_coarse_ms() < end_ms) hk_os_pause(LOOK_MS);
    hk_store_relaxed(&own_threads[kind], 0);
  }
}
