/* tests/preload/refused_for_good.h - system calls that a sandbox refuses, and that stay refused.
 *
 * The kernel refuses them, to this thread and those that it starts. A refusal that can end would need a signal
 * (SIGSYS), which kills a thread that blocks all signals.
 */
#ifndef PRELOAD_REFUSED_FOR_GOOD_H
#define PRELOAD_REFUSED_FOR_GOOD_H

#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* From now on this system call, of this thread, gets `error` and is not done. */
static inline void refuse_for_good(int number, int error) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    puts("this kernel or container allows no seccomp filter");
    exit(exit_skipped);
  }
}

#endif /* PRELOAD_REFUSED_FOR_GOOD_H */
