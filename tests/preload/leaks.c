/* Loses blocks at three places, and keeps others in all the ways there are. What each place loses stands in test_leaks.py.
 *
 * leaks [threads|fork|wait|churn]: other threads keep blocks too; the child tells as well; the program waits for its stdin to
 * end; meanwhile threads allocate, move and free. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

typedef struct node {
  struct node *next;
  char rest[40];
} node_t;

void *global;
node_t *chain;
char *interior;
_Thread_local void *own;
void **mapped;
void *read_only;
void *volatile unused;

static const size_t sizes[] = {16, 100, 1024, 5000, 32768, 100000, 1 << 20, 3 << 20};
#define SIZES (sizeof sizes / sizeof *sizes)

/* Frames that return leave what they had behind: this clears it away. */
__attribute__((noinline)) void clear_stack(void) {
  volatile char room[64 * 1024];
  for (size_t i = 0; i < sizeof room; i++) room[i] = 0;
}

static void *fresh(size_t bytes) {
  void *block = malloc(bytes);
  CHECK(block != NULL);
  memset(block, 0, bytes);
  return block;
}

/* One block of each band: 8 of them. */
__attribute__((noinline)) void lose_all_sizes(void) {
  for (size_t i = 0; i < SIZES; i++) unused = fresh(sizes[i]);
  unused = NULL;
}

/* 1,000 nodes, of which each but the first is pointed at by another. */
__attribute__((noinline)) void lose_a_list(void) {
  node_t *list = NULL;
  for (int i = 0; i < 1000; i++) {
    node_t *node = fresh(sizeof *node);
    node->next = list;
    list = node;
  }
}

/* 10 that point at each other in a ring. */
__attribute__((noinline)) void lose_a_ring(void) {
  node_t *first = fresh(200), *last = first;
  for (int i = 1; i < 10; i++) {
    node_t *node = fresh(200);
    node->next = last;
    last = node;
  }
  first->next = last;
}

__attribute__((noinline)) void keep(void) {
  global = fresh(48);
  for (int i = 0; i < 100; i++) {
    node_t *node = fresh(sizeof *node);
    node->next = chain;
    chain = node;
  }
  interior = (char *)fresh(4000) + 2000;
  own = fresh(64);
  void **big = fresh(2 << 20); /* a block that only the end of a big one leads to */
  big[(2 << 20) / sizeof *big - 1] = fresh(80);
  mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mapped != MAP_FAILED);
  mapped[600] = big;
  read_only = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(read_only != MAP_FAILED);
  *(void **)read_only = fresh(300);
  CHECK(mprotect(read_only, 4096, PROT_READ) == 0);
}

static pthread_barrier_t barrier;

static void *thread(void *argument) {
  void *volatile on_stack = fresh(500);
  own = fresh(700);
  (void)argument;
  pthread_barrier_wait(&barrier);
  pause();
  return on_stack;
}

static _Atomic(int) is_over;

/* What it has is always in an array that is static. */
static void *churn(void *argument) {
  static void *have[3][64];
  void **mine = have[(intptr_t)argument];
  unsigned long random = 1 + (intptr_t)argument;
  while (!is_over) {
    random = random * 6364136223846793005ul + 1;
    unsigned i = random >> 58;
    if (random >> 33 & 1) {
      mine[i] = realloc(mine[i], sizes[random >> 36 & 7]);
      CHECK(mine[i] != NULL);
      *(void **)mine[i] = mine[63 - i];
    } else {
      free(mine[i]);
      mine[i] = NULL;
    }
  }
  return NULL;
}

static void wait_for_end(int churners) {
  pthread_t id[3];
  for (int i = 0; i < churners; i++) CHECK(pthread_create(&id[i], NULL, churn, (void *)(intptr_t)i) == 0);
  CHECK(write(1, "ready\n", 6) == 6);
  char end;
  while (read(0, &end, 1) > 0) continue;
  is_over = 1;
  for (int i = 0; i < churners; i++) CHECK(pthread_join(id[i], NULL) == 0);
}

static void start_threads(void) {
  pthread_t id;
  pthread_barrier_init(&barrier, NULL, 5);
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&id, NULL, thread, NULL) == 0);
  pthread_barrier_wait(&barrier);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  alarm(120);
  keep();
  lose_all_sizes();
  lose_a_list();
  lose_a_ring();
  void *volatile on_stack = fresh(900);
  if (strcmp(how, "threads") == 0) start_threads();
  clear_stack();
  if (strcmp(how, "fork") == 0) {
    pid_t child = fork();
    if (child == 0) {
      lose_a_ring();
      clear_stack();
      exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  if (strcmp(how, "wait") == 0) wait_for_end(0);
  if (strcmp(how, "churn") == 0) wait_for_end(3);
  CHECK(on_stack != NULL);
  exit(0);
}
