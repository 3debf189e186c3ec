/* tests/preload/leaks_of_neighbours.c - sixteen threads with stacks of 32 KiB, next to each other, keep blocks by
 * pointers on their stacks alone, and one of them ends the process. */
#include "check.h"

#include <pthread.h>

enum { threads = 16, blocks = 4, ends = 4, stack_bytes = 32 * 1024 };

static pthread_barrier_t all_there;

static void *keep_on_stack(void *number) {
  void *volatile kept[blocks];
  for (int i = 0; i < blocks; i++) kept[i] = malloc(10000);
  pthread_barrier_wait(&all_there);
  if ((intptr_t)number == ends) {
    usleep(100 * 1000); /* the others are asleep then */
    exit(0);
  }
  for (;;) pause();
  return kept[0];
}

int main(void) {
  CHECK(pthread_barrier_init(&all_there, NULL, threads) == 0);
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, stack_bytes) == 0);
  for (intptr_t i = 0; i < threads; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, keep_on_stack, (void *)i) == 0);
  }
  for (;;) pause();
}
