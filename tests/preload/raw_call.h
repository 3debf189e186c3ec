/* tests/preload/raw_call.h - a system call past every library, which might otherwise be taken for a call of the library
 * under test: hakmem stands in front of the C library's `syscall` and `prctl`. */
#ifndef PRELOAD_RAW_CALL_H
#define PRELOAD_RAW_CALL_H

#include <sys/syscall.h>

/* The kernel's answer: a result, or a negated errno. Further arguments are 0. */
static inline long raw_call(long number, long a, long b, long c, long d) {
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = 0;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = 0;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
#else
#error "no system call stub for this processor"
#endif
}

#endif /* PRELOAD_RAW_CALL_H */
