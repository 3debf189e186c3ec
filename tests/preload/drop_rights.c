/* A program with a purge thread and the threads of its options, which obeys standard input, a word and an argument a
 * line, and answers each with "ok": it hides the files that tell rights (`jail FOLDER`, `files`), gives rights up in
 * the first thread alone (`user`, `capabilities`, `groups`) or by the C library (`all`), installs a filter of system
 * calls (`filter`), waits for some milliseconds and fails when a signal ends the wait early (`wait MS`), or requests
 * memory (`request`). */
#define _GNU_SOURCE

#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NOBODY = 65534, HELD_BYTES = 32 << 20 };

static void *live(void *unused) {
  free(malloc(100));
  for (;;) pause();
  return unused;
}

static int give_up_capabilities(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {{0}};
  return (int)syscall(SYS_capset, &header, none);
}

static int enter_filter(void) {
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {.len = 1, .filter = &allow};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

static int wait_for(long ms) {
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  return nanosleep(&time, NULL);
}

static int request(void) {
  char *volatile block = malloc(2 << 20);
  free(block);
  return block == NULL;
}

static int obey(const char *word, const char *argument) {
  struct rlimit none = {0, 0};
  gid_t group = NOBODY;
  if (strcmp(word, "jail") == 0) return chroot(argument) != 0 || chdir("/") != 0;
  if (strcmp(word, "files") == 0) return setrlimit(RLIMIT_NOFILE, &none);
  if (strcmp(word, "user") == 0) return (int)syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY);
  if (strcmp(word, "capabilities") == 0) return give_up_capabilities();
  if (strcmp(word, "groups") == 0) return (int)syscall(SYS_setgroups, 1, &group);
  if (strcmp(word, "all") == 0) return setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0;
  if (strcmp(word, "filter") == 0) return enter_filter();
  if (strcmp(word, "wait") == 0) return wait_for(atol(argument));
  if (strcmp(word, "request") == 0) return request();
  return 1;
}

int main(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, live, NULL) != 0) return 1;
  char *held = malloc(HELD_BYTES);
  memset(held, 1, HELD_BYTES);
  for (size_t bytes = 2 << 20; bytes < HELD_BYTES; bytes += 2 << 20) free(malloc(bytes));
  puts("ok");
  fflush(stdout);
  char line[4096], word[32], argument[4000];
  while (fgets(line, sizeof line, stdin) != NULL) {
    argument[0] = '\0';
    if (sscanf(line, "%31s %3999s", word, argument) < 1) return 1;
    if (obey(word, argument) != 0) return 2;
    puts("ok");
    fflush(stdout);
  }
  free(held);
  return 0;
}
