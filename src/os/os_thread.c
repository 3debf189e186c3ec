/* os/os_thread.c - L1. Implements the library's own thread of os.h on Linux. It is one of the C library's: programs
 * that change their user or load libraries expect that the C library knows every thread. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/units.h"
#include "os/file_status.h"
#include "os/os.h"
#include "os/own_stack.h"
#include "os/own_thread.h"
#include "os/signal_action.h"
#include "os/syscall.h"

/* Chosen: the size of the stack, of which only a few pages are ever touched. Libraries with much thread-local memory
 * take it from the stack, and the last thread of a process runs the exit handlers. Where the program's thread-local
 * memory alone is larger, the C library refuses the stack as too small, and the next attempt has a larger one. */
#define STACK_BYTES (256 * HK_KIB)
#define STACK_MAX_BYTES (64 * HK_MIB)

/* Written by the thread that starts the new one, before that exists. */
static const char *thread_name;
static void (*thread_run)(void);

static void *begin(void *unused) {
  hk_own_thread_begin(hk_own_thread_of_c_library, thread_name);
  thread_run();
  return unused;
}

/* Starts the thread. Returns 0 or the error number. */
static int create_with(pthread_attr_t *attributes, size_t stack_bytes) {
  pthread_t thread;
  int error = pthread_attr_setstacksize(attributes, stack_bytes);
  if (error != 0) return error;
  if (!hk_own_thread_announce(hk_own_thread_of_c_library)) return EPERM;
  error = pthread_create(&thread, attributes, begin, NULL);
  if (error != 0) hk_own_thread_withdraw(hk_own_thread_of_c_library);
  return error;
}

static bool create(pthread_attr_t *attributes) {
  uint64_t before;
  if (!hk_signal_mask_change(SIG_SETMASK, ~(HK_SIGNALS_OF_ITS_OWN | HK_SIGNALS_OF_THE_C_LIBRARY), &before))
    return false;
  int error = EINVAL;
  for (size_t bytes = STACK_BYTES; error == EINVAL && bytes <= STACK_MAX_BYTES; bytes *= 4) {
    error = create_with(attributes, bytes);
  }
  hk_signal_mask_restore(before);
  return error == 0;
}

/* Sets `*context`, a bool, to whether the thread was started. */
static void start(void *context) {
  bool *created = context;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  *created = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 && create(&attributes);
  (void)pthread_attr_destroy(&attributes);
}

/* The C library's part takes some KiB of stack, and allocates at its end. */
bool hk_os_thread_start(const char *name, void (*run)(void)) {
  if (!hk_sandbox_permits_threads()) return false;
  int saved_errno = errno;
  bool created = false;
  thread_name = name;
  thread_run = run;
  (void)hk_own_stack_run(start, &created);
  errno = saved_errno;
  return created;
}

/* Set by the C library while a process has never had a second thread; older versions have no such variable. */
extern char __libc_single_threaded __attribute__((weak));

static bool was_always_alone(void) { return &__libc_single_threaded != NULL && __libc_single_threaded != 0; }

/* Where a filter may kill, the loader has shown that the process may open a file and query an open one. */
static bool look_at_tasks(struct stat *tasks) {
  static const char path[] = "/proc/self/task";
  if (!hk_sandbox_may_kill()) return hk_syscall4(SYS_newfstatat, AT_FDCWD, (long)path, (long)tasks, 0) == 0;
  long folder = hk_syscall4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (hk_syscall_failed(folder)) return false;
  bool is_told = hk_file_status(folder, tasks) == 0;
  (void)hk_syscall2(SYS_close, folder, 0);
  return is_told;
}

/* Counts the folders of /proc/self/task by its links: each thread's folder is a link, beside the folder's own two. */
unsigned hk_os_thread_count(void) {
  if (was_always_alone()) return 1;
  struct stat tasks = {.st_nlink = 0};
  if (!look_at_tasks(&tasks) || tasks.st_nlink <= 2) return 0;
  return (unsigned)tasks.st_nlink - 2 - hk_os_bare_thread_is_claimed();
}

/* After all destructors, glibc (from 2.34 on) blocks every signal, also the one by which it cancels threads. No program
 * can block that one through the C library. */
bool hk_os_thread_is_ending(void) {
  uint64_t mask;
  if (hk_sandbox_is_own()) return true;
  if (hk_sandbox_may_kill() && was_always_alone()) return false;
  if (hk_syscall4(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&mask, sizeof mask) != 0) return true;
  return (mask & HK_SIGNAL_MASK(32)) != 0;
}

int hk_os_cancel_defer(void) {
  int type = PTHREAD_CANCEL_DEFERRED;
  (void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  return type;
}

void hk_os_cancel_restore(int type) {
  if (type != PTHREAD_CANCEL_DEFERRED) (void)pthread_setcanceltype(type, &type);
}
