/* os/os_thread.c - L1. Keeps the part of os.h's contract that is about a thread of our own, on Linux: one of the C
 * library's, for programs that change their user or load libraries expect of every thread that the C library knows it. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/units.h"
#include "os/os.h"

/* Chosen: of this only a few pages are ever touched. Libraries with much thread-local memory take it from the stack, and
 * the last thread of a process runs the exit handlers. */
#define STACK_BYTES (256 * HK_KIB)

/* Written by who starts the thread, before it is there. */
static const char *thread_name;
static void (*thread_run)(void);

static void *begin(void *unused) {
  (void)prctl(PR_SET_NAME, thread_name);
  thread_run();
  return unused;
}

static bool create(const pthread_attr_t *attributes) {
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false; /* the thread inherits it */
  pthread_t thread;
  bool created = pthread_create(&thread, attributes, begin, NULL) == 0;
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
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
