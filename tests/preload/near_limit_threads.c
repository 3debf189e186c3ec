/* What threads do near a limit on addresses: near_limit_threads d|v MIB THREADS OPERATIONS
 *
 * Sets RLIMIT_DATA or RLIMIT_AS. Threads ask for more than there is, by malloc, calloc, realloc and aligned_alloc, in
 * slots that they share: most blocks are freed by another thread than asked for them. Each block is filled to its last
 * usable byte when it is large enough to tell by, and must hold that when it is freed; calloc's must be zero. In the
 * end everything is freed, and a block of half the limit must be there. Prints how many requests were served and
 * refused.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>

#include "check.h"

enum { slots_most = 4096, threads_most = 16, least_log = 4, most_log = 21 };

typedef struct {
  unsigned char *start;
  size_t bytes;
  unsigned char fill;
} block_t;

/* A slot is taken out while a thread is at its block. */
static _Atomic(block_t *) slots[slots_most];
static block_t descriptions[slots_most];
static unsigned slot_count, operation_count;
static atomic_size_t served, refused;
static pthread_barrier_t all_there;

static size_t random_size(unsigned *state) {
  const unsigned log = least_log + next_random(state) % (most_log - least_log);
  return ((size_t)1 << log) + next_random(state) % ((size_t)1 << log);
}

static void check_filled(const block_t *block, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) CHECK(block->start[i] == block->fill);
}

static void fill(block_t *block, unsigned char *start, size_t bytes, unsigned *state) {
  CHECK(malloc_usable_size(start) >= bytes);
  *block = (block_t){start, malloc_usable_size(start), (unsigned char)next_random(state)};
  memset(block->start, block->fill, block->bytes);
}

static void release(block_t *block) {
  if (block->start == NULL) return;
  check_filled(block, block->bytes);
  free(block->start);
  block->start = NULL;
}

static unsigned char *request(size_t bytes, unsigned *state) {
  const unsigned choice = next_random(state) % 8;
  if (choice == 0) {
    unsigned char *start = calloc(1, bytes);
    for (size_t i = 0; start != NULL && i < bytes; i++) CHECK(start[i] == 0);
    return start;
  }
  if (choice > 1) return malloc(bytes);
  const size_t alignment = (size_t)16 << next_random(state) % 14;
  unsigned char *start = aligned_alloc(alignment, bytes);
  CHECK((uintptr_t)start % alignment == 0);
  return start;
}

static void resize(block_t *block, size_t bytes, unsigned *state) {
  const size_t kept = bytes < block->bytes ? bytes : block->bytes;
  unsigned char *start = realloc(block->start, bytes);
  atomic_fetch_add(start != NULL ? &served : &refused, 1);
  if (start == NULL) return;
  block->start = start;
  check_filled(block, kept);
  fill(block, start, bytes, state);
}

static void *work(void *number) {
  unsigned state = (unsigned)(uintptr_t)number + 1;
  pthread_barrier_wait(&all_there);
  for (unsigned i = 0; i < operation_count; i++) {
    _Atomic(block_t *) *slot = &slots[next_random(&state) % slot_count];
    const size_t bytes = random_size(&state);
    block_t *block = atomic_exchange(slot, NULL);
    if (block == NULL) continue;
    if (block->start != NULL && next_random(&state) % 8 == 0) {
      resize(block, bytes, &state);
    } else {
      release(block);
      unsigned char *start = request(bytes, &state);
      atomic_fetch_add(start != NULL ? &served : &refused, 1);
      CHECK(start != NULL || errno == ENOMEM);
      if (start != NULL) fill(block, start, bytes, &state);
    }
    atomic_store(slot, block);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 5) return exit_usage;
  const size_t limit = strtoul(argv[2], NULL, 10) * MIB;
  const unsigned thread_count = (unsigned)atoi(argv[3]);
  operation_count = (unsigned)atoi(argv[4]);
  slot_count = (unsigned)(limit / MIB * 12);
  CHECK(slot_count <= slots_most && thread_count <= threads_most);
  for (unsigned i = 0; i < slot_count; i++) slots[i] = &descriptions[i];

  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 128 * 1024) == 0);
  const struct rlimit limits = {limit, limit};
  CHECK(setrlimit(argv[1][0] == 'd' ? RLIMIT_DATA : RLIMIT_AS, &limits) == 0);
  CHECK(pthread_barrier_init(&all_there, NULL, thread_count) == 0);
  pthread_t threads[threads_most];
  for (unsigned i = 0; i < thread_count; i++)
    CHECK(pthread_create(&threads[i], &attributes, work, (void *)(uintptr_t)i) == 0);
  for (unsigned i = 0; i < thread_count; i++) CHECK(pthread_join(threads[i], NULL) == 0);

  for (unsigned i = 0; i < slot_count; i++) release(slots[i]);
  void *half = malloc(limit / 2);
  CHECK(half != NULL);
  free(half);
  printf("served %zu refused %zu\n", atomic_load(&served), atomic_load(&refused));
  return 0;
}
