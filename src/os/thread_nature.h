/* os/thread_nature.h - L1. What the library's own threads have in common. For os_thread.c and os_bare_thread.c. */
#ifndef HK_OS_THREAD_NATURE_H
#define HK_OS_THREAD_NATURE_H

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "base/compiler.h"
#include "os/syscall.h"

/* Signals as the kernel's masks have them: bit i is signal i + 1. */
#define HK_SIGNAL_MASK(number) ((uint64_t)1 << ((number)-1))

/* Those that a thread brings upon itself. Blocked, they would end the process, whatever handler the program has: a
 * sandbox answers refused system calls in one for SIGSYS. */
#define HK_SIGNALS_OF_ITS_OWN                                                                           \
  (HK_SIGNAL_MASK(SIGSEGV) | HK_SIGNAL_MASK(SIGBUS) | HK_SIGNAL_MASK(SIGILL) | HK_SIGNAL_MASK(SIGFPE) | \
   HK_SIGNAL_MASK(SIGTRAP) | HK_SIGNAL_MASK(SIGSYS))

/* Those by which the C library reaches every thread that it knows, as when the program changes its user. */
#define HK_SIGNALS_OF_THE_C_LIBRARY (HK_SIGNAL_MASK(32) | HK_SIGNAL_MASK(33))

/* Sets the calling thread's mask and says what it was. A thread that is made inherits its maker's. */
HK_INLINE bool hk_thread_nature_mask(uint64_t mask, uint64_t *before) {
  return hk_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, (long)before, sizeof mask) == 0;
}

/* Of each kind there is one thread at a time. */
typedef enum { hk_thread_of_c_library, hk_thread_bare, hk_thread_kind_count } hk_thread_kind_t;

/* The first act of such a thread. It may have been created by one that comes before all others, which it has no claim
 * to. */
void hk_thread_nature_take(hk_thread_kind_t kind, const char *name);

/* Waits until all of them have ended, at most `most_ms`. The caller has told each to end. */
void hk_thread_nature_await_ends(uint64_t most_ms);

#endif /* HK_OS_THREAD_NATURE_H */
