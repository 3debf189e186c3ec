/* A program that the tool questions from outside. It does what the lines on its stdin say, and prints `ok` after
 * each:
 *   spin             a thread allocates and frees without end
 *   threads N        N threads that wait for nothing
 *   fork             a child that waits; its number is printed before the `ok`
 *   close            every descriptor but the first three is closed
 *   reuse            and their numbers belong to a pipe, but for some that hakmem needs to answer
 *   block            every thread from here on, and this one, blocks every signal
 *   handle N         a handler of its own for signal N, which counts
 *   count            how often that ran is printed before the `ok`
 *   user N           it becomes this user for good
 *   leave            the first thread ends, and the process with the last one
 * At the end of its stdin it ends. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { most_files = 1024, files_to_spare = 16, deadline_seconds = 100 };

static volatile sig_atomic_t handled;

static void count_signal(int number) { ++handled; }

static void *spin(void *unused) {
  for (size_t size = 16;; size = size * 3 % 100003 + 16) free(memset(malloc(size), 1, size));
  return unused;
}

static void *wait_for_nothing(void *unused) {
  for (;;) pause();
  return unused;
}

static void start(void *(*run)(void *)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
}

/* Where there may be no more than 1024 descriptors, as by default, hakmem needs some that the program does not have. */
static int end_of_files(void) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  return limit.rlim_cur < most_files + files_to_spare ? (int)limit.rlim_cur - files_to_spare : most_files;
}

static void close_all(void) {
  for (int file = 3; file < most_files; ++file) close(file);
}

/* Reads and writes of such a number are seen at the pipe's other end. */
static void reuse_all(void) {
  int ends[2];
  CHECK(pipe2(ends, O_NONBLOCK) == 0);
  for (int file = ends[1] + 1; file < end_of_files(); ++file) CHECK(dup2(ends[file % 2], file) == file);
}

static void fork_one(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(deadline_seconds);
    wait_for_nothing(NULL);
  }
  printf("%d ", (int)child);
}

static void block_all(void) {
  sigset_t all;
  sigfillset(&all);
  CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
}

static void become(uid_t user) {
  CHECK(setgroups(0, NULL) == 0);
  CHECK(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0);
}

static void obey(const char *word, int number) {
  if (strcmp(word, "spin") == 0) start(spin);
  if (strcmp(word, "threads") == 0)
    while (number-- > 0) start(wait_for_nothing);
  if (strcmp(word, "fork") == 0) fork_one();
  if (strcmp(word, "close") == 0) close_all();
  if (strcmp(word, "reuse") == 0) reuse_all();
  if (strcmp(word, "block") == 0) block_all();
  if (strcmp(word, "handle") == 0) CHECK(signal(number, count_signal) != SIG_ERR);
  if (strcmp(word, "count") == 0) printf("%d ", (int)handled);
  if (strcmp(word, "user") == 0) become((uid_t)number);
  printf("ok\n");
  fflush(stdout);
  if (strcmp(word, "leave") == 0) pthread_exit(NULL);
}

int main(void) {
  alarm(deadline_seconds);
  char line[64], word[64];
  for (ssize_t length; (length = read(STDIN_FILENO, line, sizeof line - 1)) != 0;) {
    CHECK(length > 0); /* an interrupted read is one that has not been restarted */
    line[length] = 0;
    int number = 0;
    CHECK(sscanf(line, "%63s %d", word, &number) >= 1);
    obey(word, number);
  }
  return 0;
}
