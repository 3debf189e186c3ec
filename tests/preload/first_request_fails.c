/* Threads whose first request comes when nothing can be mapped any more. argv[1]: its size. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "check.h"

enum { thread_count = 60 };
static pthread_barrier_t started, filled;
static size_t wanted;
static int failed;

static void *ask(void *unused) {
  pthread_barrier_wait(&started);
  pthread_barrier_wait(&filled);
  errno = 0;
  if (malloc(wanted) == NULL && errno != ENOMEM) __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
  pthread_barrier_wait(&started);
  pthread_barrier_wait(&filled);
  return unused;
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  wanted = strtoul(argv[1], NULL, 10);
  pthread_barrier_init(&started, NULL, thread_count + 1);
  pthread_barrier_init(&filled, NULL, thread_count + 1);
  pthread_attr_t small_stack;
  pthread_attr_init(&small_stack);
  pthread_attr_setstacksize(&small_stack, 65536);
  pthread_t thread;
  for (int i = 0; i < thread_count; i++) {
    if (pthread_create(&thread, &small_stack, ask, NULL) != 0) return exit_skipped;
  }
  pthread_barrier_wait(&started);
  struct rlimit limit = {100 << 20, 100 << 20};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return exit_skipped;
  for (size_t size = 1 << 30; size >= 4096; size /= 2) {
    while (mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) continue;
  }
  pthread_barrier_wait(&filled);
  pthread_barrier_wait(&started);
  static const char done[] = "ok\n";
  if (failed || write(1, done, sizeof done - 1) < 0) _exit(exit_failed);
  _exit(0);
}
