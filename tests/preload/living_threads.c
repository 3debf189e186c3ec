/* living_threads COUNT KIB: COUNT threads use and free blocks of every size, and wait. The program waits until at
 * most KIB KiB are resident, prints their peak in KiB, and ends. */
#include "idle_memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LIVE 64
#define ROUNDS 200

static pthread_barrier_t all_wait, may_end;

static void use_and_free(unsigned seed) {
  void *live[LIVE] = {0};
  for (int i = 0; i < ROUNDS; i++) {
    seed = seed * 1103515245u + 12345u;
    unsigned slot = seed >> 8 & (LIVE - 1);
    size_t size = (seed >> 12) % ((seed >> 26) != 0 ? 3000u : 200000u) + 1;
    free(live[slot]);
    live[slot] = malloc(size);
    if (live[slot] == NULL) abort();
    memset(live[slot], (int)slot, size);
  }
  for (int i = 0; i < LIVE; i++) free(live[i]);
}

static void *live(void *seed) {
  use_and_free(*(unsigned *)seed);
  pthread_barrier_wait(&all_wait);
  pthread_barrier_wait(&may_end);
  use_and_free(*(unsigned *)seed); /* without the heap that it had */
  return NULL;
}

int main(int count, char **words) {
  if (count != 3) return 2;
  alarm(120);
  unsigned threads = (unsigned)atoi(words[1]);
  long bound_kib = atol(words[2]);
  pthread_t *thread = calloc(threads, sizeof *thread);
  unsigned *seed = calloc(threads, sizeof *seed);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 128 << 10);
  pthread_barrier_init(&all_wait, NULL, threads + 1);
  pthread_barrier_init(&may_end, NULL, threads + 1);
  for (unsigned i = 0; i < threads; i++) {
    seed[i] = i;
    if (pthread_create(&thread[i], &attributes, live, &seed[i]) != 0) return 1;
  }
  pthread_barrier_wait(&all_wait);
  while ((long)(resident_bytes() / KIB) > bound_kib) usleep(50000);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%ld\n", usage.ru_maxrss);
  pthread_barrier_wait(&may_end);
  for (unsigned i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  return 0;
}
