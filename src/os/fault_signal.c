/* os/fault_signal.c - L1. See fault_signal.h. Bare system calls alone: a fault may have interrupted the C library. */
#define _GNU_SOURCE 1

#include "os/fault_signal.h"

#include <stddef.h>

#include "base/atomic.h"
#include "os/sandbox.h"
#include "os/signal_action.h"
#include "os/syscall.h"

/* Chosen: how often a program's new handler is followed. After that the program's last handler stays in front. */
#define ACTIONS_MOST 8

/* The actions that the library's handler has replaced, the oldest first. Entries below `action_count` are constant. */
static hk_signal_action_t actions[ACTIONS_MOST];
static _Atomic(unsigned) action_count;
static _Atomic(bool) is_renewing;
static const hk_fault_hook_t *hook;

/* The number of actions newest first that this thread's present signal has gone on to already. */
static HK_THREAD_LOCAL _Atomic(unsigned) passed;

static void on_fault(int number, siginfo_t *info, void *context);

/* ---- Signals that are not the library's. */

/* Leaves the signal to the system: the interrupted instruction raises it again, and one that was sent is sent again. */
static void end_by_default(int number, siginfo_t *info) {
  hk_signal_action_t by_default = {.handler = (void (*)(int, siginfo_t *, void *))(uintptr_t)SIG_DFL};
  (void)hk_signal_action_exchange(number, &by_default, NULL);
  if (info->si_code <= 0) hk_signal_send_again(number, info);
}

/* Calls the program's handler as the kernel would. The mask is the interrupted thread's again when the library's
 * handler returns. */
static void call(hk_signal_action_t *action, int number, siginfo_t *info, void *context) {
  void (*handler)(int, siginfo_t *, void *) = action->handler;
  uint64_t mask = action->mask | ((action->flags & SA_NODEFER) != 0 ? 0 : HK_SIGNAL_BIT(number));
  if ((action->flags & SA_RESETHAND) != 0) {
    *action = (hk_signal_action_t){.handler = (void (*)(int, siginfo_t *, void *))(uintptr_t)SIG_DFL};
  }
  (void)hk_syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, sizeof mask);
  handler(number, info, context); /* a handler without SA_SIGINFO reads the first argument alone */
}

static void pass_on(int number, siginfo_t *info, void *context) {
  unsigned count = hk_load_acquire(&action_count), before = hk_load_relaxed(&passed);
  hk_signal_action_t *action = before < count ? &actions[count - 1 - before] : NULL;
  if (action != NULL && hk_signal_action_is_function(action)) {
    hk_store_relaxed(&passed, before + 1);
    call(action, number, info, context);
    hk_store_relaxed(&passed, before);
  } else if (action == NULL || (uintptr_t)action->handler == (uintptr_t)SIG_DFL || info->si_code > 0) {
    end_by_default(number, info);
  }
}

/* A handler that the program has left by a jump did not return to pass_on: the kernel's call begins anew. */
static HK_NOINLINE void on_fault(int number, siginfo_t *info, void *context) {
  if (__builtin_return_address(0) == (void *)(uintptr_t)hk_signal_return) hk_store_relaxed(&passed, 0);
  bool is_fault = info->si_code > 0 && info->si_code != SI_KERNEL, is_handled = hk_load_relaxed(&passed) > 0;
  if (is_fault && !is_handled && hook->has((uintptr_t)info->si_addr)) {
    hk_crash_t crash;
    hk_crash_read(&crash, number, info, context);
    if (hook->handle(&crash)) return;
  }
  pass_on(number, info, context);
}

/* ---- Install. */

/* Keeps the program's choice of a stack: its handler may need the thread's own, or the alternate one. */
static bool install_before(const hk_signal_action_t *found) {
  unsigned long stack = hk_signal_action_is_function(found) ? found->flags & SA_ONSTACK : SA_ONSTACK;
  hk_signal_action_t ours = {.handler = on_fault,
                             .flags = SA_SIGINFO | SA_NODEFER | HK_SIGNAL_RESTORER_FLAG | stack,
                             .restorer = hk_signal_return};
  unsigned count = hk_load_relaxed(&action_count);
  if (count == ACTIONS_MOST) return false;
  actions[count] = *found;
  hk_store_release(&action_count, count + 1); /* before the handler can run */
  return hk_signal_action_exchange(SIGSEGV, &ours, NULL);
}

void hk_fault_signal_renew(void) {
  hk_signal_action_t found = {.handler = NULL};
  bool expected = false;
  if (hook == NULL || hk_sandbox_may_kill()) return;
  if (!hk_signal_action_exchange(SIGSEGV, NULL, &found) || found.handler == on_fault) return;
  if (!hk_compare_exchange_acquire(&is_renewing, &expected, true)) return;
  if (hk_signal_action_exchange(SIGSEGV, NULL, &found) && found.handler != on_fault) (void)install_before(&found);
  hk_store_release(&is_renewing, false);
}

bool hk_fault_signal_catch(const hk_fault_hook_t *wanted) {
  if (hook != NULL) return true;
  hk_signal_action_t found;
  if (hk_sandbox_may_kill() || !hk_signal_action_exchange(SIGSEGV, NULL, &found)) return false;
  hook = wanted;
  return install_before(&found);
}
