/* os/sandbox.h - L1. The system calls that the library may make where the kernel may end the process for one (seccomp).
 *
 * A filter cannot be queried without a call that it may forbid. So the library goes by the filter's origin. Until the
 * program installs a filter, the library makes every call. A container's filter refuses calls and does not kill.
 * Another filter that came through exec permits what the process has done under it: the calls of the dynamic loader,
 * and with a second thread those of the C library that make one. A filter that the program installed later permits
 * those of any malloc. os/syscall.h checks each call here, with a constant number: a call that is not permitted is
 * refused there and never reaches the kernel.
 */
#ifndef HK_OS_SANDBOX_H
#define HK_OS_SANDBOX_H

#include <stdbool.h>
#include <sys/syscall.h>

#include "base/atomic.h"
#include "base/compiler.h"

HK_C_BEGIN

/* Each level permits less than the one before. */
typedef enum {
  hk_sandbox_none,
  hk_sandbox_container, /* the filter of a container, which refuses and does not kill */
  hk_sandbox_inherited, /* another filter that came through exec */
  hk_sandbox_filtered,  /* the process has installed a filter itself */
  hk_sandbox_strict,    /* only read, write and exit */
} hk_sandbox_t;

/* An hk_sandbox_t. Written at the start, and by a thread that installs a filter. */
extern HK_HIDDEN _Atomic(int) hk_sandbox_level;

/* Set when a filter is about to be installed: the library's threads end, and none starts. */
extern HK_HIDDEN _Atomic(bool) hk_sandbox_is_near;

/* Returns the last level at which the library makes a call. Requires a constant `number`: then it costs nothing. */
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
    /* In a sandbox only signal handlers make these, to pass a signal on. The filter sees the calls that such a signal
     * brings without the library too. Under a filter that came through exec no such handler is installed, and
     * rt_sigprocmask is left to programs with a second thread, which the C library makes by it. */
    case SYS_gettid:
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo:
    case SYS_tgkill:
    case SYS_kill:
      return hk_sandbox_filtered;
    /* The dynamic loader makes these, to find the library itself and its limits. */
    case SYS_openat:
    case SYS_read:
    case SYS_close:
    case SYS_fstat:
    case SYS_newfstatat:
    case SYS_prlimit64:
      return hk_sandbox_inherited;
    /* systemd's @system-service, which most services are allowed, does not have these, or has them in a group of its
     * own. */
    case SYS_mincore:
    case SYS_process_vm_readv:
    case SYS_sched_setscheduler:
      return hk_sandbox_none;
    default:
      return hk_sandbox_container;
  }
}

HK_INLINE bool hk_sandbox_permits(long number) {
  return HK_LIKELY(hk_load_relaxed(&hk_sandbox_level) <= (int)hk_sandbox_last_level(number));
}

/* Returns whether a filter may end the process for a call that it has not made yet. */
HK_INLINE bool hk_sandbox_may_kill(void) { return hk_load_relaxed(&hk_sandbox_level) >= (int)hk_sandbox_inherited; }

/* Returns whether the process has installed a filter itself. */
HK_INLINE bool hk_sandbox_is_own(void) { return hk_load_relaxed(&hk_sandbox_level) >= (int)hk_sandbox_filtered; }

/* Returns whether a thread of the library may begin, or go on. */
HK_INLINE bool hk_sandbox_permits_threads(void) {
  return !hk_load_relaxed(&hk_sandbox_is_near) && !hk_sandbox_is_own();
}

HK_C_END

#endif /* HK_OS_SANDBOX_H */
