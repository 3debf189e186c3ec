/* os/signal_action.c - L1. See signal_action.h. */
#define _GNU_SOURCE 1

#include "os/signal_action.h"

#include "os/os.h"
#include "os/syscall.h"

/* The kernel of x86-64 has no such code of its own. Debuggers and unwinders recognise it by its bytes. */
#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".balign 16\n"
    ".globl hk_signal_return\n"
    ".hidden hk_signal_return\n"
    ".type hk_signal_return, @function\n"
    "nop\n"
    "hk_signal_return:\n"
    "  movq $15, %rax\n"
    "  syscall\n"
    ".size hk_signal_return, .-hk_signal_return\n");
#else
__asm__(
    ".text\n"
    ".balign 16\n"
    ".globl hk_signal_return\n"
    ".hidden hk_signal_return\n"
    ".type hk_signal_return, %function\n"
    "nop\n"
    "hk_signal_return:\n"
    "  mov x8, #139\n"
    "  svc #0\n"
    ".size hk_signal_return, .-hk_signal_return\n");
#endif

bool hk_signal_action_exchange(int number, const hk_signal_action_t *action, hk_signal_action_t *before) {
  return hk_syscall4(SYS_rt_sigaction, number, (long)action, (long)before, sizeof action->mask) == 0;
}

void hk_signal_send_again(int number, siginfo_t *info) {
  uint64_t mask = HK_SIGNAL_MASK(number);
  (void)hk_syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, sizeof mask);
  long process = (long)hk_os_process_id(), thread = hk_syscall2(SYS_gettid, 0, 0);
  if (hk_syscall4(SYS_rt_tgsigqueueinfo, process, thread, number, (long)info) == 0) return;
  bool comes_again = number != SIGABRT && info->si_code > 0;
  if (!comes_again) (void)hk_syscall3(SYS_tgkill, process, thread, number);
}
