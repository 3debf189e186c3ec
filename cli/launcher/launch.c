/* cli/launcher/launch.c - starts a program, waits for it and reports its times and memory. engine.py starts it
 * and reads the report.
 *
 *   launch REPORT_FD MASK PARENT OWN_GROUP PRELOAD PATH ARGV0 [ARGUMENT...]
 *
 * Linux begins a program's peak (ru_maxrss) at the size of the process that executed it, also after vfork and
 * posix_spawn. Started from Python, every small program would be as big as Python. This launcher is smaller than any
 * program that it starts.
 *
 * It blocks every signal for itself, so that Ctrl-C does not lose the figures, and gives the program the signals MASK
 * (hexadecimal, bit n-1 is signal n) as its blocked ones. One signal is open: the kernel sends it at the end of the
 * parent. A parent that waits for the program ends before it only by SIGKILL, which then ends the program too. PARENT
 * is its process id: it may have ended before this process could ask. OWN_GROUP 1 puts the program into a process group
 * of its own. PRELOAD, unless it is "-", becomes the program's LD_PRELOAD. REPORT_FD gets lines:
 *
 *   error ERRNO             the program could not be started; nothing follows
 *   pid PID                 it runs
 *   stopped SIGNAL          job control stopped it
 *   continued               and let it go on; the parent gets a SIGCONT as well, it may have stopped itself meanwhile
 *   end STATUS WALL_NS USER_US SYSTEM_US PEAK_KIB MINOR_FAULTS MAJOR_FAULTS
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
  ARGUMENT_REPORT_FD = 1,
  ARGUMENT_MASK,
  ARGUMENT_PARENT,
  ARGUMENT_OWN_GROUP,
  ARGUMENT_PRELOAD,
  ARGUMENT_PATH,
  ARGUMENT_ARGV0
};

static pid_t parent;
static bool has_own_group;
static volatile pid_t child; /* 0 before it is known */

/* Any process may send the signal. */
static void end_without_parent(int number) {
  (void)number;
  if (child > 0 && getppid() != parent) kill(has_own_group ? -child : child, SIGKILL);
}

static void listen_for_parents_end(sigset_t *blocked) {
  struct sigaction action = {.sa_handler = end_without_parent, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR2, &action, NULL);
  sigdelset(blocked, SIGUSR2);
  prctl(PR_SET_PDEATHSIG, SIGUSR2);
}

static long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long long in_us(struct timeval time) { return time.tv_sec * 1000000LL + time.tv_usec; }

static void set_mask(posix_spawnattr_t *attributes, const char *hexadecimal) {
  const unsigned long long bits = strtoull(hexadecimal, NULL, 16);
  sigset_t mask;
  sigemptyset(&mask);
  for (int number = 1; number <= 64; number++) {
    if (bits >> (number - 1) & 1) sigaddset(&mask, number);
  }
  posix_spawnattr_setsigmask(attributes, &mask);
}

static int start(char **argv, pid_t *started) {
  posix_spawnattr_t attributes;
  short flags = POSIX_SPAWN_SETSIGMASK;
  posix_spawnattr_init(&attributes);
  set_mask(&attributes, argv[ARGUMENT_MASK]);
  if (has_own_group) {
    flags |= POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setpgroup(&attributes, 0);
  }
  posix_spawnattr_setflags(&attributes, flags);
  if (strcmp(argv[ARGUMENT_PRELOAD], "-") != 0) setenv("LD_PRELOAD", argv[ARGUMENT_PRELOAD], 1);
  return posix_spawn(started, argv[ARGUMENT_PATH], NULL, &attributes, argv + ARGUMENT_ARGV0, environ);
}

int main(int argc, char **argv) {
  if (argc <= ARGUMENT_ARGV0) {
    fputs("usage: launch REPORT_FD MASK PARENT OWN_GROUP PRELOAD PATH ARGV0 [ARGUMENT...]\n", stderr);
    return 2;
  }
  const int report = atoi(argv[ARGUMENT_REPORT_FD]);
  parent = (pid_t)atoi(argv[ARGUMENT_PARENT]);
  has_own_group = strcmp(argv[ARGUMENT_OWN_GROUP], "1") == 0;
  sigset_t blocked;
  sigfillset(&blocked);
  listen_for_parents_end(&blocked);
  sigprocmask(SIG_SETMASK, &blocked, NULL);
  signal(SIGCHLD, SIG_DFL); /* if the caller ignores it, it would never arrive */
  fcntl(report, F_SETFD, FD_CLOEXEC);

  if (getppid() != parent) return 1;
  pid_t started = 0;
  const long long begin = now_ns();
  const int error = start(argv, &started);
  if (error != 0) {
    dprintf(report, "error %d\n", error);
    return 1;
  }
  child = started;
  end_without_parent(0); /* where the parent ended before */
  dprintf(report, "pid %d\n", (int)started);
  for (;;) {
    struct rusage usage;
    int status;
    if (wait4(started, &status, WUNTRACED | WCONTINUED, &usage) != started) return 1;
    if (WIFSTOPPED(status)) {
      dprintf(report, "stopped %d\n", WSTOPSIG(status));
    } else if (WIFCONTINUED(status)) {
      dprintf(report, "continued\n");
      if (getppid() == parent) kill(parent, SIGCONT);
    } else {
      dprintf(report, "end %d %lld %lld %lld %ld %ld %ld\n", status, now_ns() - begin, in_us(usage.ru_utime),
              in_us(usage.ru_stime), usage.ru_maxrss, usage.ru_minflt, usage.ru_majflt);
      return 0;
    }
  }
}
