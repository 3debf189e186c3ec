/* The process ends while detached threads allocate, free, and free each other's blocks: detached_exit return|exit
 *
 * `return` ends main, `exit` is called by one of the threads. The threads run on while exit handlers and destructors
 * do, and while streams are flushed, which comes after the destructors of every library: each of these waits until all
 * threads have got further. Prints `main`, `atexit`, `destructor` and `streams`.
 */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { thread_count = 4, slot_count = 64, rounds_seen = 10 };

static atomic_uint rounds[thread_count];
static _Atomic(void *) exchange[slot_count]; /* the thread that takes a block out frees it */
static atomic_int is_exit_wanted;
static int leader = -1; /* the thread that calls exit */

static void say(const char *word) { CHECK(write(1, word, strlen(word)) == (ssize_t)strlen(word)); }

static void churn(unsigned *state) {
  const unsigned random = next_random(state);
  const size_t size = 16 + next_random(state) % (random % 128 == 0 ? 2000000 : random % 8 == 0 ? 60000 : 1500);
  void *block = malloc(size);
  CHECK(block != NULL);
  paint(block, size < 100 ? size : 100, random);
  free(atomic_exchange(&exchange[random % slot_count], block));
}

static void *work(void *argument) {
  const int self = (int)(uintptr_t)argument;
  for (unsigned state = (unsigned)self;; ++rounds[self]) {
    for (int i = 0; i < 20; ++i) churn(&state);
    if (self == leader && is_exit_wanted) exit(0);
    sched_yield(); /* the main thread need not wait for whole time slices of each */
  }
  return NULL;
}

static void wait_for_progress(void) {
  for (int i = 0; i < thread_count; ++i) {
    for (const unsigned first = rounds[i]; i != leader && rounds[i] - first < rounds_seen;) sched_yield();
  }
}

static void pass_station(const char *name) {
  unsigned state = thread_count;
  wait_for_progress();
  for (int i = 0; i < 50; ++i) churn(&state);
  wait_for_progress();
  say(name);
}

static void at_exit(void) { pass_station("atexit\n"); }

__attribute__((destructor(101))) static void last_destructor(void) { pass_station("destructor\n"); }

static ssize_t on_flush(void *cookie, const char *text, size_t size) {
  pass_station("streams\n");
  return (ssize_t)size;
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  alarm(60);
  FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = on_flush});
  CHECK(atexit(at_exit) == 0 && stream != NULL && fputs("for the last moment", stream) >= 0);
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
  for (uintptr_t i = 0; i < thread_count; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, work, (void *)i) == 0);
  }
  pass_station("main\n");
  if (strcmp(argv[1], "return") == 0) return 0;
  leader = 0;
  is_exit_wanted = 1;
  for (;;) pause();
}
