/* Threads that sleep, wake and end, while others look whether they sleep: ends_beside_trim THREADS
 *
 * malloc_trim takes heaps of threads that sleep, and reads their stacks for that. The stacks here are larger than what
 * the C library keeps for later threads, so a thread's stack is unmapped when the thread has ended.
 */
#include "check.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { examiners = 3, at_once = 16, patience_seconds = 300 };

static atomic_int is_over;

static void *trim(void *unused) {
  while (!is_over) malloc_trim(0);
  return unused;
}

static void sleep_us(long us) { nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL); }

/* Its heap may be emptied during each sleep; then the next request takes it up again. */
static void *live(void *unused) {
  void *blocks[50];
  for (int i = 0; i < 50; ++i) CHECK((blocks[i] = malloc(20000)) != NULL);
  for (int i = 0; i < 50; ++i) free(blocks[i]);
  sleep_us(200);
  free(malloc(40000));
  sleep_us(200);
  free(malloc(3000));
  sleep_us(50);
  return unused;
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  alarm(patience_seconds);
  pthread_t examiner[examiners], thread[at_once];
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 48 * MIB) == 0);
  for (int i = 0; i < examiners; ++i) CHECK(pthread_create(&examiner[i], NULL, trim, NULL) == 0);
  for (int left = atoi(argv[1]); left > 0; left -= at_once) {
    for (int i = 0; i < at_once; ++i) CHECK(pthread_create(&thread[i], &attributes, live, NULL) == 0);
    for (int i = 0; i < at_once; ++i) CHECK(pthread_join(thread[i], NULL) == 0);
  }
  is_over = 1;
  for (int i = 0; i < examiners; ++i) CHECK(pthread_join(examiner[i], NULL) == 0);
  puts("ok");
  return 0;
}
