/* threads_with_blocks COUNT at-once|in-turn: COUNT threads each churn small blocks, keep about 64 KiB of them, and
 * wait. Prints the bytes that they keep and the resident bytes in KiB. With in-turn each thread begins when the one
 * before waits. Their stacks hold small numbers, the sizes of the blocks. */
#include "idle_memory.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 256
#define OPERATIONS 20000

static sem_t has_blocks, may_end;
static _Atomic(size_t) kept;

static uint64_t next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

static void wait_for(sem_t *semaphore) {
  while (sem_wait(semaphore) != 0) continue;
}

static void *churn(void *seed) {
  uint64_t state = UINT64_C(88172645463325252) + *(unsigned *)seed * UINT64_C(7919);
  char *block[SLOTS] = {0};
  size_t size[SLOTS] = {0};
  for (int i = 0; i < OPERATIONS; i++) {
    unsigned slot = next(&state) % SLOTS;
    free(block[slot]);
    size[slot] = 16 + next(&state) % 500;
    block[slot] = malloc(size[slot]);
    if (block[slot] == NULL) abort();
    memset(block[slot], (int)slot, size[slot]);
  }
  for (unsigned i = 0; i < SLOTS; i++) kept += size[i];
  sem_post(&has_blocks);
  wait_for(&may_end);
  for (unsigned i = 0; i < SLOTS; i++) {
    for (size_t at = 0; at < size[i]; at++) {
      if (block[i][at] != (char)i) abort();
    }
    free(block[i]);
  }
  return NULL;
}

int main(int count, char **words) {
  if (count != 3) return 2;
  alarm(120);
  unsigned threads = (unsigned)atoi(words[1]);
  int in_turn = strcmp(words[2], "in-turn") == 0;
  pthread_t *thread = calloc(threads, sizeof *thread);
  unsigned *seed = calloc(threads, sizeof *seed);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  sem_init(&has_blocks, 0, 0);
  sem_init(&may_end, 0, 0);
  for (unsigned i = 0; i < threads; i++) {
    seed[i] = i + 1;
    if (pthread_create(&thread[i], &attributes, churn, &seed[i]) != 0) return 1;
    if (in_turn) wait_for(&has_blocks);
  }
  for (unsigned i = 0; !in_turn && i < threads; i++) wait_for(&has_blocks);
  printf("%zu %ld\n", kept / 1024, (long)(resident_bytes() / KIB));
  for (unsigned i = 0; i < threads; i++) sem_post(&may_end);
  for (unsigned i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  return 0;
}
