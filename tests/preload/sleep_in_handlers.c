/* sleep_in_handlers COUNT: threads allocate, free each other's blocks, and sleep; signal handlers that sleep too
 * interrupt them, also in the middle of malloc and free. Meanwhile the program trims, forks, and starts threads. Ends
 * after COUNT signals. Each block is checked before it is freed. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { thread_count = 16, block_count = 200, slot_count = 64 };

static atomic_bool is_over;
static _Atomic(void *) exchange[slot_count]; /* the thread that takes a block out frees it */

typedef struct {
  unsigned char *start;
  size_t bytes;
  unsigned char mark;
} block_t;

static void sleep_ns(long ns) {
  struct timespec time = {0, ns};
  nanosleep(&time, NULL);
}

static void sleep_in_handler(int number) {
  (void)number;
  int saved_errno = errno;
  sleep_ns(1500000);
  errno = saved_errno;
}

static void check_block(const block_t *block) {
  for (size_t i = 0; i < block->bytes; i += 61) CHECK(block->start[i] == block->mark);
}

static void drop(block_t *block, unsigned *state) {
  if (block->start == NULL) return;
  check_block(block);
  void *other = block->start;
  if (next_random(state) % 4 == 0) other = atomic_exchange(&exchange[next_random(state) % slot_count], other);
  free(other);
  block->start = NULL;
}

static void renew(block_t *block, unsigned *state) {
  drop(block, state);
  block->bytes = 1 + next_random(state) % (next_random(state) % 16 == 0 ? 200000 : 3000);
  block->mark = (unsigned char)next_random(state);
  block->start = next_random(state) % 3 == 0 ? calloc(1, block->bytes) : malloc(block->bytes);
  CHECK(block->start != NULL);
  memset(block->start, block->mark, block->bytes);
}

static void drop_all(block_t *blocks, unsigned *state) {
  for (int i = 0; i < block_count; i++) drop(&blocks[i], state);
}

static void *work_and_sleep(void *seed) {
  unsigned state = (unsigned)(uintptr_t)seed;
  block_t blocks[block_count] = {{NULL, 0, 0}};
  while (!is_over) {
    for (unsigned i = next_random(&state) % 400; i > 0; i--) renew(&blocks[next_random(&state) % block_count], &state);
    if (next_random(&state) % 3 == 0) drop_all(blocks, &state);
    sleep_ns(next_random(&state) % 4000000);
  }
  drop_all(blocks, &state);
  return NULL;
}

static void *work_once(void *unused) {
  void *blocks[50];
  for (size_t i = 0; i < 50; i++) blocks[i] = malloc(100 + i * 30);
  sleep_ns(500000);
  for (size_t i = 0; i < 50; i++) free(blocks[i]);
  return unused;
}

static void start_detached(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, work_once, NULL) == 0 && pthread_detach(thread) == 0);
}

static void fork_and_wait(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    for (size_t i = 0; i < 1000; i++) free(malloc(i * 7));
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int count, char **words) {
  CHECK(count == 2);
  alarm(300);
  struct sigaction action = {.sa_handler = sleep_in_handler, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  pthread_t threads[thread_count];
  for (uintptr_t i = 0; i < thread_count; i++)
    CHECK(pthread_create(&threads[i], NULL, work_and_sleep, (void *)(i + 1)) == 0);
  unsigned state = 1;
  for (long left = strtol(words[1], NULL, 10); left > 0; left--) {
    CHECK(pthread_kill(threads[next_random(&state) % thread_count], SIGUSR1) == 0);
    sleep_ns(200000);
    if (left % 8 == 0) (void)malloc_trim(0);
    if (left % 16 == 0) start_detached();
    if (left % 200 == 0) fork_and_wait();
  }
  is_over = true;
  for (int i = 0; i < thread_count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  puts("ok");
  return 0;
}
