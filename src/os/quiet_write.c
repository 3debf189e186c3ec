/* os/quiet_write.c - L1. See quiet_write.h. The kernel sends these signals to the writing thread. So that thread blocks
 * them, and takes the one that was not pending before. */
#include "os/quiet_write.h"

#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "os/os.h"
#include "os/signal_action.h"
#include "os/syscall.h"

#define RAISED (HK_SIGNAL_MASK(SIGPIPE) | HK_SIGNAL_MASK(SIGXFSZ))

static bool are_calls_permitted(void) {
  return hk_sandbox_permits(SYS_rt_sigprocmask) && hk_sandbox_permits(SYS_rt_sigpending) &&
         hk_sandbox_permits(SYS_rt_sigtimedwait);
}

/* Where this is unknown, all are pending. */
static uint64_t pending_signals(void) {
  uint64_t pending;
  return hk_syscall2(SYS_rt_sigpending, (long)&pending, sizeof pending) == 0 ? pending : RAISED;
}

static void take_pending(uint64_t mask) {
  const struct timespec at_once = {0, 0};
  if (mask != 0) (void)hk_syscall4(SYS_rt_sigtimedwait, (long)&mask, 0, (long)&at_once, sizeof mask);
}

long hk_quiet_write(int file, const char *text, size_t bytes) {
  uint64_t blocked;
  bool is_quiet = are_calls_permitted() && hk_signal_mask_change(SIG_BLOCK, RAISED, &blocked);
  uint64_t pending = is_quiet ? pending_signals() : 0;
  long written = hk_syscall3(SYS_write, file, (long)text, (long)bytes);
  if (!is_quiet) return written;
  /* A write that waits for room in a pipe whose reader leaves returns what the pipe has taken, and raises SIGPIPE. */
  if (written != (long)bytes) take_pending(RAISED & ~pending);
  hk_signal_mask_restore(blocked);
  return written;
}
