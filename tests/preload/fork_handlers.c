/* Forks with at-fork handlers that allocate, of a library (shim/at_fork.c) and of the program: fork_handlers FORKS
 *
 * Other threads allocate under the locks that the handlers take, as under any library's own. An allocator that took its
 * locks in a handler of its own would wait for a thread that waits for it. Prints `ok`.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { thread_count = 3, patience_seconds = 60, block_count = 5 };

static const size_t sizes[block_count] = {40, 3000, 30000, 200000, 2000000};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *held[block_count];
static int calls;
static atomic_int is_over;

static void replace_held(unsigned before, unsigned after) {
  for (int i = 0; i < block_count; ++i) {
    CHECK(is_painted(held[i], held[i] == NULL ? 0 : sizes[i], before));
    free(held[i]);
    held[i] = malloc(sizes[i]);
    CHECK(held[i] != NULL);
    paint(held[i], sizes[i], after);
  }
}

static void before_fork(void) {
  CHECK(pthread_mutex_lock(&lock) == 0);
  replace_held(1, 2);
  ++calls;
}

static void after_fork(void) {
  replace_held(2, 1);
  CHECK(pthread_mutex_unlock(&lock) == 0);
}

static void (*library_works)(void);
static int (*library_calls)(void);

static void *work(void *argument) {
  unsigned state = (unsigned)(uintptr_t)argument;
  while (!is_over) {
    library_works();
    CHECK(pthread_mutex_lock(&lock) == 0);
    free(malloc(1 + next_random(&state) % 100000));
    CHECK(pthread_mutex_unlock(&lock) == 0);
  }
  return NULL;
}

static void live_as_child(void) {
  alarm(patience_seconds / 2);
  library_works();
  replace_held(1, 3);
  pthread_t thread;
  is_over = 1;
  CHECK(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
  _exit(0);
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  library_works = (void (*)(void))dlsym(RTLD_DEFAULT, "at_fork_work");
  library_calls = (int (*)(void))dlsym(RTLD_DEFAULT, "at_fork_calls");
  CHECK(library_works != NULL && library_calls != NULL);
  CHECK(pthread_atfork(before_fork, after_fork, after_fork) == 0);
  pthread_t threads[thread_count];
  for (uintptr_t i = 0; i < thread_count; ++i) CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
  const int forks = atoi(argv[1]);
  for (int i = 0; i < forks; ++i) {
    alarm(patience_seconds);
    const pid_t child = fork();
    if (child == 0) live_as_child();
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
  is_over = 1;
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(calls == forks && library_calls() == forks);
  puts("ok");
  return 0;
}
