/* os/syscall.h - L1. System calls without the C library: no library can interpose them, none is a cancellation point,
 * and errno stays. */
#ifndef HK_OS_SYSCALL_H
#define HK_OS_SYSCALL_H

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "base/compiler.h"
#include "os/call_count.h"
#include "os/sandbox.h"

/* Makes a system call of the program's. Returns the kernel's answer: a result, or a negated errno. The library's own
 * calls are the functions below. */
HK_HIDDEN long hk_syscall_raw(long number, long a, long b, long c, long d, long e, long f);

/* The address in user space of a thread that waits in one of these calls (os_sleep.c). */
extern HK_HIDDEN const char hk_syscall_end[];

/* Makes a system call of the library's. Returns -EPERM without the call where the sandbox may not permit it. */
HK_INLINE long hk_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  if (HK_UNLIKELY(!hk_sandbox_permits(number))) return -EPERM;
  hk_call_count_note(number);
  return hk_syscall_raw(number, a, b, c, d, e, f);
}

HK_INLINE long hk_syscall4(long number, long a, long b, long c, long d) {
  return hk_syscall6(number, a, b, c, d, 0, 0);
}
HK_INLINE long hk_syscall3(long number, long a, long b, long c) { return hk_syscall6(number, a, b, c, 0, 0, 0); }
HK_INLINE long hk_syscall2(long number, long a, long b) { return hk_syscall6(number, a, b, 0, 0, 0, 0); }

/* Returns whether the result is an error. The kernel's errors are -1 to -4095; no address is as high. */
HK_INLINE bool hk_syscall_failed(long result) { return (unsigned long)result > -4096ul; }

#endif /* HK_OS_SYSCALL_H */
