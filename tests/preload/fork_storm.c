/* Forks while four threads allocate, free each other's blocks, and come and go: fork_storm HOW FORKS
 *
 * HOW is fork, _Fork (no at-fork handlers run) or clone (the bare system call). The child allocates at once, frees
 * blocks that it inherited, after fork starts a thread too, and forks again beside it. A child that does not end by
 * itself is a hang. Prints `forks N hangs 0`.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { thread_count = 4, shared_count = 512, inherited_count = 600, patience_seconds = 30 };

static _Atomic(void *) shared[shared_count];
static atomic_int is_over;
static pid_t (*divide)(void);
static unsigned char *inherited[inherited_count];
static size_t inherited_size[inherited_count];

static size_t a_size(unsigned random) {
  return 1 + random % (random % 16 == 0 ? 400000 : random % 4 == 0 ? 20000 : 1000);
}

/* A short life: blocks swapped with the other threads, so that many are freed by another than their maker. */
static void *mayfly(void *argument) {
  unsigned state = (unsigned)(uintptr_t)argument;
  for (int i = 0; i < 400; ++i) {
    const unsigned random = next_random(&state);
    free(atomic_exchange(&shared[random % shared_count], malloc(a_size(random >> 3))));
  }
  return NULL;
}

static void *breed(void *argument) {
  unsigned state = (unsigned)(uintptr_t)argument;
  while (!is_over) {
    pthread_t child;
    if (pthread_create(&child, NULL, mayfly, (void *)(uintptr_t)next_random(&state)) == 0) pthread_join(child, NULL);
  }
  return NULL;
}

static void allocate_some(unsigned state) {
  for (int i = 0; i < 200; ++i) {
    const size_t size = a_size(next_random(&state));
    char *block = malloc(size);
    if (block == NULL) _exit(3);
    paint(block, size < 64 ? size : 64, 1);
    free(block);
  }
}

static void *allocate_until_over(void *unused) {
  do {
    allocate_some(99);
  } while (!is_over);
  return unused;
}

/* The second generation's first half of blocks was the first one's to free, and the other half is this one's. */
static void free_inherited(unsigned from, unsigned to) {
  for (unsigned i = from; i < to; ++i) {
    if (!is_painted(inherited[i], inherited_size[i], i)) _exit(4);
    free(inherited[i]);
  }
}

static void live_as_grandchild(void) {
  alarm(patience_seconds / 2);
  allocate_some(8);
  free_inherited(inherited_count / 2, inherited_count);
  _exit(0);
}

static void fork_again(void) {
  const pid_t child = divide();
  if (child == 0) live_as_grandchild();
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) _exit(7);
}

static void live_as_child(int may_start_thread) {
  free(malloc(64));
  free_inherited(0, inherited_count / 2);
  for (int i = 0; i < shared_count; ++i) free(atomic_exchange(&shared[i], NULL));
  allocate_some(7);
  pthread_t thread;
  if (may_start_thread && pthread_create(&thread, NULL, allocate_until_over, NULL) != 0) _exit(5);
  fork_again();
  is_over = 1;
  if (may_start_thread && pthread_join(thread, NULL) != 0) _exit(6);
  free_inherited(inherited_count / 2, inherited_count);
  _exit(0);
}

static pid_t bare_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); }

/* The child's exit code, or -1 if it hangs. Polls: SIGCHLD and alarms would disturb the test. */
static int wait_for(pid_t child) {
  for (int waited_ms = 0; waited_ms < patience_seconds * 1000; ++waited_ms) {
    int status;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return -1;
}

static void make_inheritance(void) {
  unsigned state = 42;
  for (unsigned i = 0; i < inherited_count; ++i) {
    inherited_size[i] = a_size(next_random(&state));
    inherited[i] = malloc(inherited_size[i]);
    CHECK(inherited[i] != NULL);
    paint(inherited[i], inherited_size[i], i);
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  const int is_fork = strcmp(argv[1], "fork") == 0;
  divide = is_fork ? fork : strcmp(argv[1], "clone") == 0 ? bare_clone : (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork");
  if (divide == NULL) {
    puts("this C library has no _Fork");
    return exit_skipped;
  }
  make_inheritance();
  pthread_t threads[thread_count];
  for (uintptr_t i = 0; i < thread_count; ++i) CHECK(pthread_create(&threads[i], NULL, breed, (void *)(i + 1)) == 0);
  const int forks = atoi(argv[2]);
  int hangs = 0;
  for (int i = 0; i < forks; ++i) {
    const pid_t child = divide();
    if (child == 0) live_as_child(is_fork);
    CHECK(child > 0);
    const int code = wait_for(child);
    hangs += code == -1;
    if (code > 0) dprintf(2, "child %d ended with %d\n", i, code);
    CHECK(code <= 0);
    allocate_some((unsigned)i);
  }
  is_over = 1;
  for (int i = 0; i < thread_count; ++i) pthread_join(threads[i], NULL);
  printf("forks %d hangs %d\n", forks, hangs);
  return 0;
}
