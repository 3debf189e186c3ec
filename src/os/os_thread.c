/* os/os_thread.c - L1. Keeps the part of os.h's contract that is about a thread of our own, on Linux: one of the C
 * library's, for programs that change their user or load libraries expect of every thread that the C library knows it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/units.h"
#include "os/os.h"
#include "os/syscall.h"

/* Chosen: of this only a few pages are ever touched. Libraries with much thread-local memory take it from the stack, and
 * the last thread of a process runs the exit handlers. */
#define STACK_BYTES (256 * HK_KIB)

/* Written by who starts the thread, before it is there. */
static const char *thread_name;
static void (*thread_run)(void);

/* Signals as the kernel's masks have them: bit i is signal i + 1. */
#define MASK_OF(number) ((uint64_t)1 << ((number)-1))

/* Those that a thread brings upon itself. Blocked, they would end the process, whatever handler the program has: a
 * sandbox answers refused system calls in one for SIGSYS. */
#define OF_ITS_OWN \
  (MASK_OF(SIGSEGV) | MASK_OF(SIGBUS) | MASK_OF(SIGILL) | MASK_OF(SIGFPE) | MASK_OF(SIGTRAP) | MASK_OF(SIGSYS))

/* Those by which the C library reaches every thread, as when the program changes its user. */
#define OF_THE_C_LIBRARY (MASK_OF(32) | MASK_OF(33))

/* It may have been created by a thread that comes before all others, which it has no claim to. */
static void *begin(void *unused) {
  struct sched_param none = {.sched_priority = 0};
  (void)hk_syscall3(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&none);
  (void)hk_syscall2(SYS_prctl, PR_SET_NAME, (long)thread_name);
  thread_run();
  return unused;
}

/* The thread inherits its creator's mask. */
static bool create(const pthread_attr_t *attributes) {
  uint64_t mask = ~(OF_ITS_OWN | OF_THE_C_LIBRARY), before;
  if (hk_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, (long)&before, sizeof mask) != 0) return false;
  pthread_t thread;
  bool created = pthread_create(&thread, attributes, begin, NULL) == 0;
  (void)hk_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof mask);
  return created;
}

bool hk_os_thread_start(const char *name, void (*run)(void)) {
  int saved_errno = errno;
  thread_name = name;
  thread_run = run;
  pthread_attr_t attributes;
  bool created = false;
  if (pthread_attr_init(&attributes) == 0) {
    created = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
              pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 && create(&attributes);
    (void)pthread_attr_destroy(&attributes);
  }
  errno = saved_errno;
  return created;
}

/* Each is a folder there, which counts as a link, beside the folder's own two. */
unsigned hk_os_thread_count(void) {
  struct stat tasks = {.st_nlink = 0};
  long result = hk_syscall4(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&tasks, 0);
  return result == 0 && tasks.st_nlink > 2 ? (unsigned)tasks.st_nlink - 2 : 0;
}
