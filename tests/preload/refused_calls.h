/* tests/preload/refused_calls.h - refuses chosen system calls of this process, in the process itself, and stops refusing.
 *
 * A seccomp filter turns the memory calls into a signal, whose handler makes up the refusal (ENOMEM) or does the call from
 * the one place that the filter lets through. A filter that refuses by itself (SECCOMP_RET_ERRNO) could not be told
 * to stop, and recovery is half of what is tested. The one who was refused cannot tell the two apart. Included once a
 * program.
 */
#ifndef PRELOAD_REFUSED_CALLS_H
#define PRELOAD_REFUSED_CALLS_H

#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

static const struct {
  const char *name;
  int number;
} memory_calls[] = {
    {"mmap", SYS_mmap},     {"munmap", SYS_munmap},     {"madvise", SYS_madvise},
    {"mremap", SYS_mremap}, {"mprotect", SYS_mprotect},
};
enum { memory_call_count = sizeof memory_calls / sizeof *memory_calls };

/* Which call is refused: its number, or any_call, or no_call; and which time: 0 is every time, N the Nth. */
enum { no_call = -2, any_call = -1 };
static atomic_int refused_number = no_call;
static atomic_long refused_turn;
static atomic_long calls_seen, calls_refused;

#if defined(__x86_64__)
#define AUDIT_ARCHITECTURE AUDIT_ARCH_X86_64
__asm__(
    ".text\n.globl do_call_unfiltered\ndo_call_unfiltered:\n"
    "  mov %rdi, %rax\n  mov %rsi, %rdi\n  mov %rdx, %rsi\n  mov %rcx, %rdx\n  mov %r8, %r10\n  mov %r9, %r8\n"
    "  mov 8(%rsp), %r9\n  syscall\n.globl unfiltered_return\nunfiltered_return:\n  ret\n");
static long call_argument(const ucontext_t *context, int index) {
  static const int registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
  return context->uc_mcontext.gregs[registers[index]];
}
static void set_call_result(ucontext_t *context, long result) { context->uc_mcontext.gregs[REG_RAX] = result; }
#elif defined(__aarch64__)
#define AUDIT_ARCHITECTURE AUDIT_ARCH_AARCH64
__asm__(
    ".text\n.globl do_call_unfiltered\ndo_call_unfiltered:\n"
    "  mov x8, x0\n  mov x0, x1\n  mov x1, x2\n  mov x2, x3\n  mov x3, x4\n  mov x4, x5\n  mov x5, x6\n"
    "  svc 0\n.globl unfiltered_return\nunfiltered_return:\n  ret\n");
static long call_argument(const ucontext_t *context, int index) { return (long)context->uc_mcontext.regs[index]; }
static void set_call_result(ucontext_t *context, long result) {
  context->uc_mcontext.regs[0] = (unsigned long long)result;
}
#else
#error "no system call stub for this processor"
#endif

long do_call_unfiltered(long number, long a, long b, long c, long d, long e, long f);
extern const char unfiltered_return[];

static void on_filtered_call(int signal_number, siginfo_t *info, void *opaque) {
  (void)signal_number;
  ucontext_t *context = (ucontext_t *)opaque;
  const int wanted = refused_number;
  if (wanted == any_call || wanted == info->si_syscall) {
    const long turn = ++calls_seen;
    if (refused_turn == 0 || refused_turn == turn) {
      ++calls_refused;
      set_call_result(context, -ENOMEM);
      return;
    }
  }
  set_call_result(context, do_call_unfiltered(info->si_syscall, call_argument(context, 0), call_argument(context, 1),
                                              call_argument(context, 2), call_argument(context, 3),
                                              call_argument(context, 4), call_argument(context, 5)));
}

/* Catches this thread's memory calls from now on. */
static void install_call_filter(void) {
  struct sigaction action = {0};
  action.sa_sigaction = on_filtered_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  CHECK(sigaction(SIGSYS, &action, NULL) == 0);

  const uint64_t stub = (uint64_t)(uintptr_t)unfiltered_return;
  struct sock_filter filter[8 + memory_call_count + 2];
  int length = 0;
  const int trap = 7 + memory_call_count + 1;
#define PUT(...) filter[length++] = (struct sock_filter)__VA_ARGS__
  PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)));
  PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)stub, 0, 2));
  PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4));
  PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(stub >> 32), (uint8_t)(trap - 1 - 4), 0));
  PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
  PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCHITECTURE, 0, (uint8_t)(trap - 1 - 6)));
  PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
  for (int i = 0; i < memory_call_count; ++i) {
    PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)memory_calls[i].number, (uint8_t)(trap - 8 - i), 0));
  }
  PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  CHECK(length == trap);
  PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
#undef PUT
  const struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    puts("this kernel or container allows no seccomp filter");
    exit(exit_skipped);
  }
}

/* From now on `name` (or `any`) is refused the `turn`th time, or every time if 0. */
static void refuse_calls(const char *name, long turn) {
  int number = strcmp(name, "any") == 0 ? any_call : no_call;
  for (int i = 0; i < memory_call_count; ++i) {
    if (strcmp(name, memory_calls[i].name) == 0) number = memory_calls[i].number;
  }
  if (number == no_call) _exit(exit_usage);
  calls_seen = calls_refused = 0;
  refused_turn = turn;
  refused_number = number;
}

static void stop_refusing(void) { refused_number = no_call; }

#endif /* PRELOAD_REFUSED_CALLS_H */
