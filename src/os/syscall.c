/* os/syscall.c - L1. See syscall.h. One instruction makes all of the library's system calls, so that its address tells
 * them from the program's. Hence a function in assembly, which no compiler copies. */
#include "os/syscall.h"

/* CALL moves the seven arguments of hk_syscall_raw to the kernel's registers and makes the call. */
#if defined(__x86_64__)
#define FUNCTION "@function"
#define CALL                                         \
  "movq %rdi, %rax\n"                                \
  "movq %rsi, %rdi\n"                                \
  "movq %rdx, %rsi\n"                                \
  "movq %rcx, %rdx\n"                                \
  "movq %r8, %r10\n" /* the kernel overwrites rcx */ \
  "movq %r9, %r8\n"                                  \
  "movq 8(%rsp), %r9\n"                              \
  "syscall\n"
#elif defined(__aarch64__)
#define FUNCTION "%function"
#define CALL     \
  "mov x8, x0\n" \
  "mov x0, x1\n" \
  "mov x1, x2\n" \
  "mov x2, x3\n" \
  "mov x3, x4\n" \
  "mov x4, x5\n" \
  "mov x5, x6\n" \
  "svc 0\n"
#else
#error "hakmem knows the system calls of x86-64 and arm64 only"
#endif

__asm__(
    ".pushsection .text\n"
    ".balign 16\n"
    ".globl hk_syscall_raw\n"
    ".hidden hk_syscall_raw\n"
    ".type hk_syscall_raw, " FUNCTION
    "\n"
    "hk_syscall_raw:\n"
    ".cfi_startproc\n" CALL
    ".globl hk_syscall_end\n"
    ".hidden hk_syscall_end\n"
    "hk_syscall_end:\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size hk_syscall_raw, . - hk_syscall_raw\n"
    ".popsection\n");
