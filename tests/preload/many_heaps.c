/* As many threads as the first word says, each of which has a heap with one block of 96 bytes and one of 5000,
 * while the program ends by `exit`; every second one has freed a second block of 96 bytes. */
#include <pthread.h>

#include "check.h"

/* A thread with more than 64 KiB on its stack does not count as asleep: no other thread takes its heap. */
#define DEEP_BYTES (80 << 10)
#define STACK_BYTES (160 << 10)

static pthread_barrier_t all_have;

static void *hold(void *second) {
  volatile char deep[DEEP_BYTES];
  deep[0] = 1;
  void *volatile tiny = malloc(96);
  void *volatile mid = malloc(5000);
  CHECK(tiny != NULL && mid != NULL);
  if (second != NULL) {
    void *volatile freed = malloc(96);
    free(freed);
  }
  pthread_barrier_wait(&all_have);
  for (;;) pause();
}

int main(int count, char **words) {
  CHECK(count == 2);
  volatile char deep[DEEP_BYTES];
  deep[0] = 1;
  alarm(120);
  long threads = strtol(words[1], NULL, 10);
  pthread_attr_t attributes;
  CHECK(pthread_barrier_init(&all_have, NULL, (unsigned)threads + 1) == 0);
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
  for (long i = 0; i < threads; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, hold, i % 2 != 0 ? words : NULL) == 0);
  }
  pthread_barrier_wait(&all_have);
  exit(0);
}
