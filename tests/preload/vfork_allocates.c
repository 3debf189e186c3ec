/* Children that share the parent's memory until they end allocate in it, while other threads do too: vfork_allocates
 * CHILDREN
 *
 * vfork, and clone with a stack of its own and the memory shared, as posix_spawn uses it. What such a child does to the
 * heap the parent finds done: blocks change hands in both directions. Prints `ok`.
 */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { thread_count = 2, shared_count = 256, block_count = 200, patience_seconds = 60 };

static _Atomic(void *) shared[shared_count];
static atomic_int is_over;
static unsigned char *blocks[block_count];
static size_t sizes[block_count];
static unsigned state = 11;
static int children_done;

static size_t a_size(unsigned random) {
  return 1 + random % (random % 16 == 0 ? 2000000 : random % 4 == 0 ? 20000 : 1000);
}

static void *churn(void *argument) {
  unsigned own_state = (unsigned)(uintptr_t)argument;
  while (!is_over) {
    const unsigned random = next_random(&own_state);
    free(atomic_exchange(&shared[random % shared_count], malloc(a_size(random >> 3))));
  }
  return NULL;
}

/* The other process's blocks become this one's. */
static void replace_blocks(void) {
  for (unsigned i = 0; i < block_count; i += 1 + next_random(&state) % 4) {
    CHECK(is_painted(blocks[i], sizes[i], i));
    free(blocks[i]);
    sizes[i] = a_size(next_random(&state));
    blocks[i] = malloc(sizes[i]);
    CHECK(blocks[i] != NULL);
    paint(blocks[i], sizes[i], i);
    free(atomic_exchange(&shared[i], NULL));
  }
}

static int live_as_child(void *unused) {
  (void)unused;
  replace_blocks();
  ++children_done;
  return 0;
}

static pid_t clone_with_memory(void) {
  static _Alignas(16) char stack[128 * 1024];
  return clone(live_as_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
}

static void wait_for(pid_t child) {
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  pthread_t threads[thread_count];
  for (uintptr_t i = 0; i < thread_count; ++i) CHECK(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0);
  const int children = atoi(argv[1]) / 2 * 2;
  for (int i = 0; i < children; i += 2) {
    alarm(patience_seconds);
    replace_blocks();
    const pid_t child = vfork();
    if (child == 0) _exit(live_as_child(NULL));
    wait_for(child);
    replace_blocks();
    wait_for(clone_with_memory());
  }
  CHECK(children_done == children);
  is_over = 1;
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (unsigned i = 0; i < block_count; ++i) {
    CHECK(is_painted(blocks[i], sizes[i], i));
    free(blocks[i]);
  }
  puts("ok");
  return 0;
}
