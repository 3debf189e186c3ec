/* Threads that ask for their first block when there is no memory left. Under a limit that the caller has set.
 *
 * The kernel may kill no process: each gets a block or NULL with ENOMEM. When memory is there again all get what they
 * ask for. Prints `ok`.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { thread_count = 4 };
static const size_t sizes[] = {16, 1000, 5000, 100000, 3 * MIB};
enum { size_count = sizeof sizes / sizeof *sizes };

static pthread_barrier_t barrier;
static atomic_int refused;

static void *work(void *unused) {
  pthread_barrier_wait(&barrier); /* all exist */
  pthread_barrier_wait(&barrier); /* memory is full */
  for (int i = 0; i < size_count; ++i) {
    errno = 0;
    void *block = malloc(sizes[i]);
    CHECK(block != NULL || errno == ENOMEM);
    refused += block == NULL;
    if (block != NULL) paint(block, sizes[i], 1);
    free(block);
  }
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier); /* memory is free */
  for (int i = 0; i < size_count; ++i) {
    void *block = malloc(sizes[i]);
    CHECK(block != NULL);
    paint(block, sizes[i], 1);
    free(block);
  }
  return NULL;
}

typedef struct block {
  struct block *next;
} block_t;

static block_t *fill(void) {
  block_t *first = NULL;
  for (size_t size = 4 * MIB; size >= 16; size /= 2) {
    for (block_t *block; (block = malloc(size)) != NULL; first = block) block->next = first;
    CHECK(errno == ENOMEM);
  }
  return first;
}

int main(void) {
  pthread_t threads[thread_count];
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 256 * KIB) == 0);
  CHECK(pthread_barrier_init(&barrier, NULL, thread_count + 1) == 0);
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_create(&threads[i], &attributes, work, NULL) == 0);
  pthread_barrier_wait(&barrier);
  block_t *blocks = fill();
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  while (blocks != NULL) {
    block_t *next = blocks->next;
    free(blocks);
    blocks = next;
  }
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(refused > 0);
  puts("ok");
  return 0;
}
