/* A thousand signals a second, and threads cancelled, while all allocate: signal_storm SECONDS. Prints `ok`.
 *
 * The handler does not allocate. A cancelled thread may end at any of its cancellation points: had malloc one inside, a lock
 * could be lost with the thread.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

enum { thread_count = 3, block_count = 100 };

static atomic_int is_over;
static volatile sig_atomic_t ticks;

static void on_tick(int unused) {
  (void)unused;
  ++ticks;
}

static void churn(unsigned *state, unsigned char **blocks, size_t *sizes) {
  const unsigned i = next_random(state) % block_count;
  CHECK(is_painted(blocks[i], sizes[i], i));
  free(blocks[i]);
  const unsigned random = next_random(state);
  sizes[i] = 1 + random % (random % 64 == 0 ? 2000000 : random % 8 == 0 ? 40000 : 1500);
  blocks[i] = malloc(sizes[i]);
  CHECK(blocks[i] != NULL);
  paint(blocks[i], sizes[i], i);
}

static void *work(void *argument) {
  unsigned char *blocks[block_count] = {0};
  size_t sizes[block_count] = {0};
  unsigned state = (unsigned)(uintptr_t)argument;
  while (!is_over) churn(&state, blocks, sizes);
  for (int i = 0; i < block_count; ++i) free(blocks[i]);
  return NULL;
}

static void *wait_for_cancel(void *argument) {
  unsigned state = (unsigned)(uintptr_t)argument;
  for (;;) {
    /* A cancel that is pending would act inside malloc here, if malloc had a cancellation point. */
    void *block = malloc(1 + next_random(&state) % 300000);
    free(block);
    pthread_testcancel();
  }
  return NULL;
}

static void cancel_one(unsigned seed) {
  pthread_t thread;
  void *result;
  CHECK(pthread_create(&thread, NULL, wait_for_cancel, (void *)(uintptr_t)seed) == 0);
  free(malloc(50000));
  CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGPROF, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
  const struct itimerval every = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};
  CHECK(setitimer(ITIMER_PROF, &every, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
  pthread_t threads[thread_count];
  for (uintptr_t i = 0; i < thread_count; ++i) CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
  const time_t end = time(NULL) + atoi(argv[1]);
  for (unsigned seed = 0; time(NULL) < end; ++seed) cancel_one(seed);
  is_over = 1;
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(ticks > 100);
  puts("ok");
  return 0;
}
