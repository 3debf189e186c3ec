/* os/sandbox.h - L1. Which system calls the library may make, now that the kernel may end the process for one
 * (seccomp).
 *
 * A filter cannot be queried without a call that it may forbid. So the library assumes little: until the program
 * installs a filter it makes every call; a filter that came through exec permits the calls of the dynamic loader and
 * the C library; one that the program installed later permits those of any malloc. os/syscall.h checks each call here,
 * with a constant number: a call that is not permitted is refused there and never reaches the kernel.
 */
#ifndef HK_OS_SANDBOX_H
#define HK_OS_SANDBOX_H

#include <stdbool.h>
#include <sys/syscall.h>

#include "base/atomic.h"
#include "base/compiler.h"

HK_C_BEGIN

/* Each permits less than the one before. */
typedef enum {
  hk_sandbox_none,
  hk_sandbox_inherited, /* a filter since exec */
  hk_sandbox_filtered,  /* the process has installed one itself */
  hk_sandbox_strict,    /* read, write and exit alone */
} hk_sandbox_t;

/* hk_sandbox_t. Written at the start, and by a thread that installs a filter. */
extern HK_HIDDEN _Atomic(int) hk_sandbox_level;

/* A filter is about to be installed: threads of ours end, and none is started. */
extern HK_HIDDEN _Atomic(bool) hk_sandbox_is_near;

/* The last level at which the library makes a call. For a constant `number`: then it costs nothing. */
HK_INLINE hk_sandbox_t hk_sandbox_last_level(long number) {
  switch (number) {
    case SYS_write:
    case SYS_exit:
      return hk_sandbox_strict;
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_madvise:
    case SYS_mprotect:
    case SYS_futex:
    case SYS_clock_gettime: /* the vDSO makes it too, on a machine whose clock it cannot read */
    /* Made in a signal handler alone, to pass a signal on: the filter sees the calls that the signal brings without
     * us. */
    case SYS_gettid:
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo:
    case SYS_tgkill:
    case SYS_kill:
      return hk_sandbox_filtered;
    /* systemd's @system-service, which most services are allowed, lacks these or has them in a group of its own. */
    case SYS_mincore:
    case SYS_process_vm_readv:
    case SYS_sched_setscheduler:
      return hk_sandbox_none;
    default:
      return hk_sandbox_inherited;
  }
}

HK_INLINE bool hk_sandbox_permits(long number) {
  return HK_LIKELY(hk_load_relaxed(&hk_sandbox_level) <= (int)hk_sandbox_last_level(number));
}

/* The process has installed a filter itself. */
HK_INLINE bool hk_sandbox_is_own(void) { return hk_load_relaxed(&hk_sandbox_level) >= (int)hk_sandbox_filtered; }

/* Whether a thread of ours may begin, or go on. */
HK_INLINE bool hk_sandbox_permits_threads(void) {
  return !hk_load_relaxed(&hk_sandbox_is_near) && !hk_sandbox_is_own();
}

HK_C_END

#endif /* HK_OS_SANDBOX_H */
