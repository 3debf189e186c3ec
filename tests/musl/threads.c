/* Threads that allocate, free each other's blocks, end with memory of their own, and allocate in the destructors of
 * their keys, while the first thread forks. At the end the process changes its user, for which musl reaches every
 * thread, the library's too. Arguments: rounds. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "owned.h"

enum { thread_count = 6, block_count = 400 };

static pthread_key_t key;
static _Atomic(void *) crossing[64];
static _Atomic int wrong;

static void *filled(size_t bytes, int value) {
  unsigned char *block = malloc(bytes);
  if (block == NULL || !is_owned(block)) {
    wrong++;
    return block;
  }
  return memset(block, value, bytes);
}

/* Runs when a thread ends, after or before the library's own destructor: keys have no order. */
static void at_end(void *block) {
  free(block);
  free(filled(3000, 3));
}

static void *work(void *argument) {
  size_t seed = (size_t)argument;
  void *blocks[block_count] = {NULL};
  pthread_setspecific(key, filled(100, 1));
  for (size_t i = 0; i < 20 * block_count; i++) {
    size_t bytes = (seed * 2654435761u + i * 40503u) % 20000 + 1;
    free(blocks[i % block_count]);
    blocks[i % block_count] = filled(bytes, (int)i);
    if (i % 8 == 0) free(__atomic_exchange_n(&crossing[i / 8 % 64], filled(bytes, 2), __ATOMIC_ACQ_REL));
  }
  for (size_t i = 0; i < block_count; i++) free(blocks[i]);
  return filled(500, 5);
}

/* The child allocates, starts a thread, and ends through exit. */
static int child(void) {
  for (size_t bytes = 1; bytes < 4 << 20; bytes *= 2) free(filled(bytes, 9));
  pthread_t thread;
  void *block = NULL;
  if (pthread_create(&thread, NULL, work, (void *)1) != 0) return 2;
  pthread_join(thread, &block);
  free(block);
  exit(wrong != 0);
}

static bool fork_once(void) {
  int status = -1;
  pid_t process = fork();
  if (process == 0) _exit(child());
  return waitpid(process, &status, 0) == process && status == 0;
}

static void at_exit(void) {
  free(filled(10000, 1));
  puts("exit");
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 5, failed_children = 0;
  pthread_key_create(&key, at_end);
  for (int round = 0; round < rounds; round++) {
    pthread_t threads[thread_count];
    for (size_t i = 0; i < thread_count; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 2));
    for (int i = 0; i < 3; i++) failed_children += !fork_once();
    for (size_t i = 0; i < thread_count; i++) {
      void *block = NULL;
      pthread_join(threads[i], &block);
      free(block);
    }
  }
  if (setuid(geteuid() == 0 ? 65534 : getuid()) != 0) return 3;
  printf("wrong %d, failed children %d\n", wrong, failed_children);
  fflush(stdout);
  atexit(at_exit);
  return 0;
}
