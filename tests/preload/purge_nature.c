/* What the purge thread is like: it blocks every signal that others send but the command line tool's, has a small
 * stack, and changes its credentials with the process. The program prints `ok`. */
#include "with_purge_thread.h"

#include <grp.h>
#include <signal.h>

enum { most_stack_bytes = 512 * 1024, first_of_libc = 32, of_the_tool = 58 };

/* The C library keeps the signals from 32 up to SIGRTMIN for itself: cancellation, and credentials, which every
 * thread has to change for itself. */
static int can_be_blocked(int number) {
  return number != SIGKILL && number != SIGSTOP && (number < first_of_libc || number >= SIGRTMIN);
}

/* Blocked, they end the process whatever handler it has; a sandbox may answer system calls in that of SIGSYS. */
static int is_of_its_own(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE || number == SIGTRAP ||
         number == SIGSYS;
}

static void check_signals(pid_t thread) {
  char text[4096];
  CHECK(read_of_thread(thread, "status", text, sizeof text));
  const char *line = strstr(text, "SigBlk:");
  CHECK(line != NULL);
  const unsigned long long blocked = strtoull(line + strlen("SigBlk:"), NULL, 16);
  for (int number = 1; number <= SIGRTMAX; ++number) {
    const int is_blocked = (int)(blocked >> (number - 1) & 1);
    if (can_be_blocked(number)) CHECK(is_blocked == !(is_of_its_own(number) || number == of_the_tool));
  }
}

/* Its stack pointer, the last number but one, while it sleeps; 0 if the kernel does not tell, or there is no such
 * thread. */
static uintptr_t stack_pointer_of(pid_t thread) {
  char text[256];
  while (read_of_thread(thread, "syscall", text, sizeof text)) {
    const char *last = strrchr(text, ' ');
    if (strncmp(text, "running", strlen("running")) != 0 && last != NULL) {
      while (*--last != ' ') continue;
      return strtoull(last, NULL, 16);
    }
    wait_beats(1);
  }
  return 0;
}

/* From there down to the end of the mapping: what the stack can still grow by. Most of a small stack is unused while
 * it sleeps. */
static size_t stack_below(uintptr_t pointer) {
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  char line[1024];
  uintptr_t start, end;
  while (fgets(line, sizeof line, maps) != NULL) {
    CHECK(sscanf(line, "%zx-%zx", &start, &end) == 2);
    if (start <= pointer && pointer < end) {
      fclose(maps);
      return pointer - start;
    }
  }
  CHECK(!"the stack pointer is in a mapping");
  return 0;
}

static void check_group(pid_t thread, void *expected) {
  char text[4096];
  if (!read_of_thread(thread, "status", text, sizeof text)) return; /* it has ended */
  const char *line = strstr(text, "\nGid:");
  const unsigned group = *(const unsigned *)expected;
  unsigned real, effective, saved;
  CHECK(line != NULL && sscanf(line, "\nGid: %u %u %u", &real, &effective, &saved) == 3);
  CHECK(real == group && effective == group && saved == group);
}

/* The C library asks each thread to do it too and waits for all: one that does not answer would hang us. */
static void check_credentials(void) {
  const gid_t nobodys = 65534;
  gid_t group = geteuid() == 0 ? nobodys : getegid();
  CHECK(setgroups(1, &group) == 0 || errno == EPERM);
  CHECK(setresgid(group, group, group) == 0);
  visit_threads(check_group, &group);
}

int main(void) {
  alarm(30);
  const size_t before = resident_bytes();
  start_idle_thread();
  const pid_t thread = await_purge_thread();
  check_signals(thread);
  const uintptr_t stack = stack_pointer_of(thread);
  if (stack != 0) CHECK(stack_below(stack) < most_stack_bytes);
  CHECK(find_purge_thread() == thread); /* all this was about a living one */
  check_credentials();
  await_resident(before + BACK_BYTES);
  puts("ok");
  return 0;
}
