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
#include "os/syscall.h"
#include "os/thread_nature.h"

/* The value that the command line tool sends with its signal ("hakmem", as in cli/hakmem/wake.py), to tell it from
 * signals that a program sends to itself. */
#define TOOL_VALUE ((uintptr_t)0x68616b6d656d)

/* Written at the start and constant from then on, each before its handler is installed. */
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

typedef struct {
  unsigned number; /* written at the start, after the handler is installed; 0: not taken */
  handler_t *handler;
  bool is_ignored; /* by the thread that installs a filter */
} taken_t;

static taken_t of_tool = {.handler = on_tool_signal}, of_user = {.handler = on_user_signal};

static hk_os_signal_t install(unsigned number, handler_t *handler) {
  struct sigaction found, wanted = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  if (sigaction((int)number, NULL, &found) != 0) return hk_os_signal_refused;
  if ((found.sa_flags & SA_SIGINFO) != 0 || found.sa_handler != SIG_DFL) return hk_os_signal_in_use;
  __builtin_memset(&wanted.sa_mask, 0xff, sizeof wanted.sa_mask);
  wanted.sa_sigaction = handler;
  return sigaction((int)number, &wanted, NULL) == 0 ? hk_os_signal_taken : hk_os_signal_refused;
}

hk_os_signal_t hk_os_signal_take(unsigned number, bool from_tool_alone, void (*hook)(void)) {
  if (hk_sandbox_may_kill()) return hk_os_signal_unsafe;
  if (!is_eligible(number)) return hk_os_signal_refused;
  int saved_errno = errno;
  *(from_tool_alone ? &tool_hook : &user_hook) = hook;
  taken_t *taken = from_tool_alone ? &of_tool : &of_user;
  hk_os_signal_t result = install(number, taken->handler);
  if (result == hk_os_signal_taken) taken->number = number;
  errno = saved_errno;
  return result;
}

static bool is_handler_ours(const taken_t *taken) {
  struct sigaction found;
  return taken->number != 0 && sigaction((int)taken->number, NULL, &found) == 0 && (found.sa_flags & SA_SIGINFO) != 0 &&
         found.sa_sigaction == taken->handler;
}

static bool set_disposition(unsigned number, void (*disposition)(int)) {
  struct sigaction wanted = {.sa_handler = disposition};
  return sigaction((int)number, &wanted, NULL) == 0;
}

static void ignore(taken_t *taken) {
  if (is_handler_ours(taken)) taken->is_ignored = set_disposition(taken->number, SIG_IGN);
}

static void stop_ignoring(taken_t *taken) {
  if (!taken->is_ignored || !set_disposition(taken->number, SIG_DFL)) return;
  taken->is_ignored = false;
  (void)install(taken->number, taken->handler);
}

void hk_os_signal_ignore(bool is_ignored) {
  int saved_errno = errno;
  void (*change)(taken_t *) = is_ignored ? ignore : stop_ignoring;
  change(&of_tool);
  change(&of_user);
  errno = saved_errno;
}

void hk_os_signal_listen(void) {
  if (of_tool.number == 0) return;
  int saved_errno = errno;
  bool listens = !hk_load_relaxed(&is_the_programs) && is_handler_ours(&of_tool);
  errno = saved_errno;
  hk_store_relaxed(&listener, listens ? hk_syscall2(SYS_gettid, 0, 0) : 0);
  uint64_t mask = mask_of(of_tool.number);
  (void)hk_syscall4(SYS_rt_sigprocmask, listens ? SIG_UNBLOCK : SIG_BLOCK, (long)&mask, 0, sizeof mask);
}
