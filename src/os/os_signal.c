/* os/os_signal.c - L1. Implements the signals of os.h on Linux. The handlers run on the program's threads at any point:
 * they only make system calls and change words of their own. */
#define _GNU_SOURCE 1

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "os/os.h"
#include "os/signal_action.h"
#include "os/syscall.h"

/* The value that the command line tool sends with its signal ("hakmem", as in cli/hakmem/wake.py), to tell it from
 * signals that a program sends to itself. */
#define TOOL_VALUE ((uintptr_t)0x68616b6d656d)

/* Written at the start and constant from then on: each hook before its handler is installed, `tool_signal` after it. */
static unsigned tool_signal;
static void (*tool_hook)(void);
static void (*user_hook)(void);

/* The thread that listens for others; 0: none. A child of fork does not have it. */
static _Atomic(long) listener;

/* Set when a signal of another sender has come: the program may use that number, so no thread of the library listens
 * any more. */
static _Atomic(bool) is_the_programs;

static uint64_t mask_of(unsigned number) { return HK_SIGNAL_MASK(number); }

static void on_user_signal(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)info;
  (void)context;
  user_hook();
}

/* Sends a signal of another sender to the process once more, and blocks it in the interrupted thread from the handler's
 * end on. */
static void pass_on(unsigned number, const siginfo_t *info, ucontext_t *interrupted) {
  uint64_t mask;
  __builtin_memcpy(&mask, &interrupted->uc_sigmask, sizeof mask);
  mask |= mask_of(number);
  __builtin_memcpy(&interrupted->uc_sigmask, &mask, sizeof mask);
  hk_store_relaxed(&listener, 0);
  hk_store_relaxed(&is_the_programs, true);
  long process = (long)hk_os_process_id();
  if (hk_syscall3(SYS_rt_sigqueueinfo, process, (long)number, (long)info) == 0) return;
  (void)hk_syscall2(SYS_kill, process, (long)number); /* the kernel may refuse the siginfo of kill */
}

static void on_tool_signal(int number, siginfo_t *info, void *context) {
  if (info->si_code == SI_QUEUE && (uintptr_t)info->si_value.sival_ptr == TOOL_VALUE) {
    tool_hook();
  } else if (hk_load_relaxed(&listener) == hk_syscall2(SYS_gettid, 0, 0)) {
    pass_on((unsigned)number, info, context);
  }
}

/* Returns whether the signal can be taken: not signals of faults, of the C library, and the two that have no
 * handlers. */
static bool is_eligible(unsigned number) {
  uint64_t never = HK_SIGNALS_OF_ITS_OWN | HK_SIGNALS_OF_THE_C_LIBRARY | mask_of(SIGKILL) | mask_of(SIGSTOP);
  return number >= 1 && number <= 64 && (never & mask_of(number)) == 0;
}

typedef void handler_t(int, siginfo_t *, void *);

static struct sigaction handling(handler_t *handler) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  __builtin_memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
  action.sa_sigaction = handler;
  return action;
}

static hk_os_signal_t install(unsigned number, handler_t *handler) {
  struct sigaction found, wanted = handling(handler);
  if (sigaction((int)number, NULL, &found) != 0) return hk_os_signal_refused;
  if ((found.sa_flags & SA_SIGINFO) != 0 || found.sa_handler != SIG_DFL) return hk_os_signal_in_use;
  return sigaction((int)number, &wanted, NULL) == 0 ? hk_os_signal_taken : hk_os_signal_refused;
}

hk_os_signal_t hk_os_signal_take(unsigned number, bool from_tool_alone, void (*hook)(void)) {
  if (hk_sandbox_may_kill()) return hk_os_signal_unsafe;
  if (!is_eligible(number)) return hk_os_signal_unfit;
  int saved_errno = errno;
  *(from_tool_alone ? &tool_hook : &user_hook) = hook;
  hk_os_signal_t result = install(number, from_tool_alone ? on_tool_signal : on_user_signal);
  if (from_tool_alone && result == hk_os_signal_taken) tool_signal = number;
  errno = saved_errno;
  return result;
}

static bool is_ours(const struct sigaction *found) {
  return (found->sa_flags & SA_SIGINFO) != 0 && found->sa_sigaction == on_tool_signal;
}

static bool is_ignoring(const struct sigaction *found) {
  return (found->sa_flags & SA_SIGINFO) == 0 && found->sa_handler == SIG_IGN;
}

static bool is_handler_ours(void) {
  int saved_errno = errno;
  struct sigaction found;
  bool answer = sigaction((int)tool_signal, NULL, &found) == 0 && is_ours(&found);
  errno = saved_errno;
  return answer;
}

/* Exchanges one disposition for another, unless the program has set a third one. */
static bool exchange(unsigned number, const struct sigaction *wanted, bool (*is_expected)(const struct sigaction *)) {
  struct sigaction found, unused;
  if (sigaction((int)number, wanted, &found) != 0) return false;
  if (is_expected(&found)) return true;
  (void)sigaction((int)number, &found, &unused);
  return false;
}

void hk_os_signal_ignore(bool is_ignored) {
  static _Atomic(bool) was_ignored; /* written by a thread that installs or notices a filter */
  if (tool_signal == 0 || is_ignored == hk_load_relaxed(&was_ignored)) return;
  int saved_errno = errno;
  struct sigaction ignoring = {.sa_handler = SIG_IGN}, ours = handling(on_tool_signal);
  bool is_done = is_ignored ? exchange(tool_signal, &ignoring, is_ours) : exchange(tool_signal, &ours, is_ignoring);
  if (is_done) hk_store_relaxed(&was_ignored, is_ignored);
  errno = saved_errno;
}

void hk_os_signal_listen(void) {
  if (tool_signal == 0) return;
  bool listens = !hk_load_relaxed(&is_the_programs) && is_handler_ours();
  hk_store_relaxed(&listener, listens ? hk_syscall2(SYS_gettid, 0, 0) : 0);
  uint64_t mask = mask_of(tool_signal);
  (void)hk_syscall4(SYS_rt_sigprocmask, listens ? SIG_UNBLOCK : SIG_BLOCK, (long)&mask, 0, sizeof mask);
}
