/* os/syscall.h - L1. System calls without the C library: nobody can interpose them, none is a cancellation point, and
 * errno stays as it is. */
#ifndef HK_OS_SYSCALL_H
#define HK_OS_SYSCALL_H

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "base/compiler.h"
#include "os/call_count.h"
#include "os/sandbox.h"

/* Returns the kernel's answer: a result, or a negated errno. For the program's calls; the library's own ones follow. */
#if defined(__x86_64__)

HK_INLINE long hk_syscall_raw(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

#elif defined(__aarch64__)

HK_INLINE long hk_syscall_raw(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}

#else
#error "hakmem knows the system calls of x86-64 and arm64 only"
#endif

/* The same for a call of the library: -EPERM, and no call, where the sandbox may not permit it. */
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

/* The kernel's errors are -1 to -4095; an address is never that high. */
HK_INLINE bool hk_syscall_failed(long result) { return (unsigned long)result > -4096ul; }

#endif /* HK_OS_SYSCALL_H */
