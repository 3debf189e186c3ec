/* os/fault_signal.c - L1. See fault_signal.h. Bare system calls alone: a fault may have interrupted the C library. */
#define _GNU_SOURCE 1

#include "os/fault_signal.h"

#include <stddef.h>
#include <string.h>

#include "base/atomic.h"
#include "os/sandbox.h"
#include "os/signal_action.h"
#include "os/syscall.h"

/* Chosen: how many different handlers of a program are followed. After that the last one stays in front. */
#define LEVELS 8

/* [level]: the action that the library's handler of that level has replaced, the oldest first. Entries below
 * `action_count` are constant, but for SA_RESETHAND; each is written before its level's handler is installed. */
static hk_signal_action_t actions[LEVELS];
static unsigned action_count; /* written by the thread that renews */
static _Atomic(bool) is_renewing;
static const hk_fault_hook_t *hook;

/* What this thread has passed on to the program. */
enum { passed_nothing, passed_fault, passed_sent };
static HK_THREAD_LOCAL _Atomic(uint8_t) passed;

/* ---- Signals that are not the library's. */

/* Leaves the signal to the system: the interrupted instruction raises it again, and one that was sent is sent again. */
static void end_by_default(int number) {
  hk_signal_action_t by_default = {.handler = (void (*)(int, siginfo_t *, void *))(uintptr_t)SIG_DFL};
  (void)hk_signal_action_exchange(number, &by_default, NULL);
  siginfo_t sent = {.si_signo = number, .si_code = SI_TKILL};
  if (hk_load_relaxed(&passed) == passed_sent) hk_signal_send_again(number, &sent);
}

/* Calls the program's handler as the kernel would. The mask is the interrupted thread's again when the library's
 * handler returns. */
static void call(hk_signal_action_t *action, int number, siginfo_t *info, void *context) {
  void (*handler)(int, siginfo_t *, void *) = action->handler;
  uint64_t mask = action->mask | ((action->flags & SA_NODEFER) != 0 ? 0 : HK_SIGNAL_MASK(number));
  if ((action->flags & SA_RESETHAND) != 0) {
    *action = (hk_signal_action_t){.handler = (void (*)(int, siginfo_t *, void *))(uintptr_t)SIG_DFL};
  }
  (void)hk_syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, sizeof mask);
  handler(number, info, context); /* a handler without SA_SIGINFO reads the first argument alone */
}

/* A program's handler that was installed by signal() calls the one before with the number alone: then nothing is read
 * through the other arguments. */
static void pass_on(unsigned level, int number, siginfo_t *info, void *context) {
  hk_signal_action_t *action = &actions[level];
  if (hk_signal_action_is_function(action)) {
    call(action, number, info, context);
  } else if ((uintptr_t)action->handler == (uintptr_t)SIG_DFL || hk_load_relaxed(&passed) != passed_sent) {
    end_by_default(number);
  }
}

/* ---- The handlers. */

/* Reads from the registers what the kernel leaves out of the siginfo where a program has put the library's handler back
 * without SA_SIGINFO, as signal() does. */
static void complete(siginfo_t *info, const void *context) {
  uintptr_t address;
  memset(info, 0, sizeof *info);
  info->si_signo = SIGSEGV;
  if (!hk_crash_fault_address(context, &address)) return;
  info->si_code = SEGV_MAPERR;
  info->si_addr = (void *)address;
}

/* Returns whether the kernel has called the handler, and not the program's handler that runs before it. `returns_to` is
 * where the handler returns to. Sets `*has_info`. */
static bool is_from_kernel(const void *returns_to, bool *has_info) {
  *has_info = true;
  if (returns_to == (void *)(uintptr_t)hk_signal_return) return true;
  hk_signal_action_t now = {.handler = NULL};
  if (!hk_signal_action_exchange(SIGSEGV, NULL, &now)) return false;
  *has_info = (now.flags & SA_SIGINFO) != 0;
  bool has_restorer = (now.flags & HK_SIGNAL_RESTORER_FLAG) != 0;
  return has_restorer ? returns_to == (void *)(uintptr_t)now.restorer : hk_load_relaxed(&passed) == passed_nothing;
}

static void on_fault(unsigned level, const void *returns_to, int number, siginfo_t *info, void *context) {
  bool has_info;
  if (!is_from_kernel(returns_to, &has_info)) {
    pass_on(level, number, info, context);
    return;
  }
  siginfo_t completed;
  if (!has_info) complete(info = &completed, context);
  bool is_fault = info->si_code > 0 && info->si_code != SI_KERNEL;
  if (is_fault && hook->has((uintptr_t)info->si_addr)) {
    hk_crash_t crash;
    hk_crash_read(&crash, number, info, context);
    if (hook->handle(&crash)) return;
  }
  uint8_t before = hk_load_relaxed(&passed);
  hk_store_relaxed(&passed, info->si_code > 0 ? passed_fault : passed_sent);
  pass_on(level, number, info, context);
  hk_store_relaxed(&passed, before);
}

/* A handler for each level: a program that saves the handler which it finds, and puts it back later, puts back the one
 * that goes on to the action which was there then. */
#define HANDLER(level)                                                                   \
  static HK_NOINLINE void on_fault_##level(int number, siginfo_t *info, void *context) { \
    on_fault(level, __builtin_return_address(0), number, info, context);                 \
  }
HANDLER(0)
HANDLER(1)
HANDLER(2)
HANDLER(3)
HANDLER(4)
HANDLER(5)
HANDLER(6)
HANDLER(7)
static void (*const handlers[LEVELS])(int, siginfo_t *, void *) = {on_fault_0, on_fault_1, on_fault_2, on_fault_3,
                                                                   on_fault_4, on_fault_5, on_fault_6, on_fault_7};

/* ---- Install. */

#define OUR_FLAGS (SA_SIGINFO | SA_NODEFER | HK_SIGNAL_RESTORER_FLAG)

/* Returns LEVELS for an action that is not the library's. */
static unsigned level_of(const hk_signal_action_t *action) {
  unsigned level = 0;
  while (level < LEVELS && action->handler != handlers[level]) level++;
  return level;
}

static bool is_same(const hk_signal_action_t *one, const hk_signal_action_t *other) {
  return one->handler == other->handler && one->flags == other->flags && one->mask == other->mask;
}

/* Returns the level of an action of the program's; LEVELS when there is none left. */
static unsigned level_for(const hk_signal_action_t *found) {
  for (unsigned level = 0; level < action_count; level++) {
    if (is_same(&actions[level], found)) return level;
  }
  if (action_count == LEVELS) return LEVELS;
  actions[action_count] = *found;
  return action_count++;
}

/* Installs the handler of a level. Keeps the program's choice of a stack: its handler may need the thread's own, or the
 * alternate one. */
static bool install(unsigned level, hk_signal_action_t *before) {
  const hk_signal_action_t *of_program = &actions[level];
  unsigned long stack = hk_signal_action_is_function(of_program) ? of_program->flags & SA_ONSTACK : SA_ONSTACK;
  hk_signal_action_t ours = {.handler = handlers[level], .flags = OUR_FLAGS | stack, .restorer = hk_signal_return};
  return hk_signal_action_exchange(SIGSEGV, &ours, before);
}

static bool is_in_front(const hk_signal_action_t *found) {
  return level_of(found) < LEVELS && (found->flags & OUR_FLAGS) == OUR_FLAGS;
}

/* Puts the library's handler before the action that was found. Another thread of the program may install its own
 * meanwhile, which is then the one to go before. */
static bool install_before(hk_signal_action_t found) {
  for (;;) {
    if (is_in_front(&found)) return true;
    unsigned level = level_of(&found);
    if (level == LEVELS) level = level_for(&found);
    hk_signal_action_t before = found;
    if (level == LEVELS || !install(level, &before)) return false;
    if (is_same(&before, &found) || level_of(&before) < LEVELS) return true;
    found = before;
  }
}

void hk_fault_signal_renew(void) {
  hk_signal_action_t found = {.handler = NULL};
  bool expected = false;
  if (hook == NULL || hk_sandbox_may_kill()) return;
  if (!hk_signal_action_exchange(SIGSEGV, NULL, &found) || is_in_front(&found)) return;
  if (!hk_compare_exchange_acquire(&is_renewing, &expected, true)) return;
  if (hk_signal_action_exchange(SIGSEGV, NULL, &found)) (void)install_before(found);
  hk_store_release(&is_renewing, false);
}

bool hk_fault_signal_catch(const hk_fault_hook_t *wanted) {
  if (hook != NULL) return true;
  hk_signal_action_t found;
  if (hk_sandbox_may_kill() || !hk_signal_action_exchange(SIGSEGV, NULL, &found)) return false;
  hook = wanted;
  return install_before(found);
}
