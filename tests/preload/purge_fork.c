/* Children of a process that has a purge thread: purge_fork again | storm COUNT | vfork COUNT
 *
 * `again`: the child has no other thread at first, and a purge thread of its own when it has dirty memory beside a
 * second thread. `storm`: COUNT children are made while the thread is there, now asleep and now at work; each
 * allocates, frees what it inherited, starts a thread, and ends. `vfork`: COUNT children leave idle memory in their
 * parent and execute a program; the parent gets its thread all the same. A child that does not end is a hang. Prints
 * `ok`.
 */
#include "with_purge_thread.h"

#include <signal.h>
#include <sys/wait.h>

enum { patience_beats = 20 * beats_a_second };

static atomic_int is_over;
static unsigned seed = 1;

static void count_thread(pid_t thread, void *count) {
  (void)thread;
  ++*(int *)count;
}

static void come_back(size_t before) {
  start_idle_thread();
  await_purge_thread();
  await_resident(before + BACK_BYTES);
  _exit(0);
}

/* The child's exit code, or -1 if it hangs. */
static int wait_for(pid_t child) {
  for (int beats = 0; beats < patience_beats * 20; ++beats) {
    int status;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    nanosleep(&(struct timespec){.tv_nsec = beat_ms * 1000000L / 20}, NULL);
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return -1;
}

static void check_again(int unused) {
  (void)unused;
  const size_t before = resident_bytes();
  start_idle_thread();
  await_purge_thread();
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    int threads = 0;
    visit_threads(count_thread, &threads);
    CHECK(threads == 1);
    come_back(before);
  }
  CHECK(wait_for(child) == 0);
  await_resident(before + BACK_BYTES);
}

/* Idle now for shorter and now for longer than it may be: the thread is asleep, at work, or gone for a moment. */
static void *be_idle_again_and_again(void *unused) {
  while (!is_over) {
    leave_idle(IDLE_BYTES);
    wait_beats(1 + (int)(next_random(&seed) % 20));
  }
  return unused;
}

static void *allocate_some(void *unused) {
  for (size_t size = 16; size < 256 * KIB; size *= 2) free_chain(take_chain(size, 2 * size));
  return unused;
}

static void live_as_child(block_t *inherited) {
  pthread_t thread;
  allocate_some(NULL);
  free_chain(inherited);
  CHECK(pthread_create(&thread, NULL, allocate_some, NULL) == 0 && pthread_join(thread, NULL) == 0);
  _exit(0);
}

static void check_storm(int count) {
  block_t *inherited = take_chain(64 * KIB, 2 * MIB);
  pthread_t thread;
  unsigned state = 7;
  CHECK(pthread_create(&thread, NULL, be_idle_again_and_again, NULL) == 0);
  for (int i = 0; i < count; ++i) {
    nanosleep(&(struct timespec){.tv_nsec = next_random(&state) % 4000000}, NULL);
    await_purge_thread();
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) live_as_child(inherited);
    CHECK(wait_for(child) == 0);
  }
  is_over = 1;
  CHECK(pthread_join(thread, NULL) == 0);
}

static void *keep_company(void *unused) {
  block_t *chain = take_chain(64 * KIB, MIB);
  for (;;) pause();
  free_chain(chain);
  return unused;
}

/* A thread that such a child started would not be the parent's, which would wait for it in vain. */
static void check_vfork(int count) {
  const size_t before = resident_bytes();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, keep_company, NULL) == 0);
  for (int i = 0; i < count; ++i) {
    const pid_t child = vfork();
    if (child == 0) {
      leave_idle(IDLE_BYTES);
      execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
      _exit(exit_failed);
    }
    CHECK(child > 0 && wait_for(child) == 7);
  }
  CHECK(pthread_create(&thread, NULL, be_idle_again_and_again, NULL) == 0);
  await_purge_thread();
  is_over = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  await_resident(before + BACK_BYTES);
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  const int count = atoi(argv[2]);
  alarm(30 + (unsigned)count / 5);
  (strcmp(argv[1], "again") == 0 ? check_again : strcmp(argv[1], "storm") == 0 ? check_storm : check_vfork)(count);
  puts("ok");
  return 0;
}
