/* override/seccomp.c - L11. prctl and syscall, through which a program and libseccomp install a system call filter.
 * hakmem prepares for the filter before it is in force. As the C library's functions, both pass on as many words as the
 * call may have, however many the caller passed.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "api/confine.h"
#include "os/syscall.h"

#define EXPORT __attribute__((visibility("default")))

HK_HIDDEN long hk_seccomp_fail(long answer);
HK_HIDDEN long hk_seccomp_call(long number, long a, long b, long c, long d, long e);

__attribute__((used, noinline, cold)) long hk_seccomp_fail(long answer) {
  errno = (int)-answer;
  return -1;
}

HK_INLINE long finish(long answer) { return HK_UNLIKELY(hk_syscall_failed(answer)) ? hk_seccomp_fail(answer) : answer; }

static HK_NOINLINE long install(hk_sandbox_t sandbox, long number, long a, long b, long c, long d, long e) {
  int saved_errno = errno;
  hk_sandbox_t before = hk_confine_begin(sandbox);
  long answer = hk_syscall_raw(number, a, b, c, d, e, 0);
  if (hk_syscall_failed(answer)) hk_confine_undo(before);
  errno = saved_errno;
  return finish(answer);
}

EXPORT int prctl(int option, ...) {
  va_list rest;
  va_start(rest, option);
  long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long), d = va_arg(rest, long);
  va_end(rest);
  hk_sandbox_t sandbox = hk_confine_level_of_prctl((unsigned long)option, (unsigned long)a, (unsigned long)b);
  if (HK_UNLIKELY(sandbox != hk_sandbox_none)) return (int)install(sandbox, SYS_prctl, option, a, b, c, d);
  return (int)finish(hk_syscall_raw(SYS_prctl, option, a, b, c, d, 0));
}

/* Makes the call `number`, which is SYS_prctl or SYS_seccomp. */
__attribute__((used, noinline, cold)) long hk_seccomp_call(long number, long a, long b, long c, long d, long e) {
  hk_sandbox_t sandbox = number == SYS_prctl
                             ? hk_confine_level_of_prctl((unsigned long)a, (unsigned long)b, (unsigned long)c)
                             : hk_confine_level_of_seccomp((unsigned long)a, (unsigned long)b, (unsigned long)c);
  if (sandbox != hk_sandbox_none) return install(sandbox, number, a, b, c, d, e);
  return finish(hk_syscall_raw(number, a, b, c, d, e, 0));
}

/* Has no frame, as the C library's has none: a call may return on another stack, or twice on this one. */
#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)
#if defined(__x86_64__)
__asm__(
    ".text\n.globl syscall\n.type syscall, @function\nsyscall:\n.cfi_startproc\n"
    "  endbr64\n"
    "  cmpq $" TEXT(SYS_seccomp) ", %rdi\n  je 1f\n"
    "  cmpq $" TEXT(SYS_prctl) ", %rdi\n  je 1f\n"
    "  movq %rdi, %rax\n  movq %rsi, %rdi\n  movq %rdx, %rsi\n  movq %rcx, %rdx\n"
    "  movq %r8, %r10\n  movq %r9, %r8\n  movq 8(%rsp), %r9\n"
    "  syscall\n"
    "  cmpq $-4095, %rax\n  jae 2f\n"
    "  ret\n"
    "1:  jmp hk_seccomp_call\n"
    "2:  movq %rax, %rdi\n  jmp hk_seccomp_fail\n"
    ".cfi_endproc\n.size syscall, . - syscall\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl syscall\n.type syscall, %function\nsyscall:\n.cfi_startproc\n"
    "  hint #34\n" /* bti c */
    "  cmp x0, #" TEXT(SYS_seccomp) "\n  b.eq 1f\n"
    "  cmp x0, #" TEXT(SYS_prctl) "\n  b.eq 1f\n"
    "  mov x8, x0\n  mov x0, x1\n  mov x1, x2\n  mov x2, x3\n  mov x3, x4\n  mov x4, x5\n  mov x5, x6\n"
    "  svc #0\n"
    "  cmn x0, #4095\n  b.cs 2f\n"
    "  ret\n"
    "1:  b hk_seccomp_call\n"
    "2:  b hk_seccomp_fail\n"
    ".cfi_endproc\n.size syscall, . - syscall\n");
#endif
