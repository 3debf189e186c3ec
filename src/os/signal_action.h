/* os/signal_action.h - L1. Signal handlers by bare system calls, for handlers that may have interrupted the C library
 * at any point. */
#ifndef HK_OS_SIGNAL_ACTION_H
#define HK_OS_SIGNAL_ACTION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/c_library.h"
#include "os/syscall.h"

HK_C_BEGIN

/* The kernel's own structure for rt_sigaction. */
typedef struct {
  void (*handler)(int, siginfo_t *, void *);
  unsigned long flags;
  void (*restorer)(void);
  uint64_t mask;
} hk_signal_action_t;

/* A signal in the kernel's masks: bit i is signal i + 1. */
#define HK_SIGNAL_MASK(number) ((uint64_t)1 << ((number)-1))

/* Signals that a thread causes itself. Where they are blocked, they end the process, whatever handler the program has:
 * a sandbox answers refused system calls in a handler for SIGSYS. */
#define HK_SIGNALS_OF_ITS_OWN                                                                           \
  (HK_SIGNAL_MASK(SIGSEGV) | HK_SIGNAL_MASK(SIGBUS) | HK_SIGNAL_MASK(SIGILL) | HK_SIGNAL_MASK(SIGFPE) | \
   HK_SIGNAL_MASK(SIGTRAP) | HK_SIGNAL_MASK(SIGSYS))

/* Signals by which the C library reaches every thread that it knows, as when the program changes its user. musl has one
 * more; in glibc's programs that one is the program's. */
#define HK_SIGNALS_OF_THE_C_LIBRARY \
  (HK_SIGNAL_MASK(32) | HK_SIGNAL_MASK(33) | (HK_ON_MUSL ? HK_SIGNAL_MASK(34) : (uint64_t)0))

/* Sets the calling thread's mask (SIG_SETMASK), or adds to it (SIG_BLOCK), and stores the one before. A new thread
 * inherits its maker's mask. Returns false when the system refuses. */
HK_INLINE bool hk_signal_mask_change(int how, uint64_t mask, uint64_t *before) {
  return hk_syscall4(SYS_rt_sigprocmask, how, (long)&mask, (long)before, sizeof mask) == 0;
}

/* Gives the calling thread the mask back that it had. */
HK_INLINE void hk_signal_mask_restore(uint64_t before) {
  (void)hk_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
}

/* The kernel's flag, which not every header has. */
#define HK_SIGNAL_RESTORER_FLAG 0x04000000

/* The code that a handler of the library returns to. The flag goes with it. */
HK_HIDDEN void hk_signal_return(void);

/* Reads the action of a signal into `before` (not if NULL) and sets it to `action` (not if NULL). Returns false when
 * the system refuses. */
bool hk_signal_action_exchange(int number, const hk_signal_action_t *action, hk_signal_action_t *before);

/* Returns false for SIG_DFL and SIG_IGN. */
HK_INLINE bool hk_signal_action_is_function(const hk_signal_action_t *action) {
  return (uintptr_t)action->handler != (uintptr_t)SIG_DFL && (uintptr_t)action->handler != (uintptr_t)SIG_IGN;
}

/* Sends the same signal again, to arrive when the handler has returned: it then finds the thread as it was interrupted.
 * A queued signal arrives in any case, while the interrupted instruction may not raise it again. */
void hk_signal_send_again(int number, siginfo_t *info);

HK_C_END

#endif /* HK_OS_SIGNAL_ACTION_H */
