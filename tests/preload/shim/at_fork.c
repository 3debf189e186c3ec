/* A library with a lock of its own, under which it allocates, and with at-fork handlers that take it and allocate:
 * as many libraries have. Its constructor registers them. See fork_handlers.c. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { block_count = 4 };

static const size_t sizes[block_count] = {24, 9000, 70000, 1500000};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *held[block_count];
static int calls;

static void replace_held(char before, char after) {
  for (int i = 0; i < block_count; ++i) {
    if (held[i] != NULL && (held[i][0] != before || held[i][sizes[i] - 1] != before)) abort();
    free(held[i]);
    held[i] = malloc(sizes[i]);
    if (held[i] == NULL) abort();
    memset(held[i], after, sizes[i]);
  }
}

static void before_fork(void) {
  pthread_mutex_lock(&lock);
  replace_held('a', 'b');
  ++calls;
}

static void after_fork(void) {
  replace_held('b', 'a');
  pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void loaded(void) { pthread_atfork(before_fork, after_fork, after_fork); }

void at_fork_work(void) {
  pthread_mutex_lock(&lock);
  replace_held('a', 'a');
  pthread_mutex_unlock(&lock);
}

int at_fork_calls(void) { return calls; }
