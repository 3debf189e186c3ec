/* The system refuses memory calls in the middle of things: syscall_faults CALL TURN SEED
 *
 * CALL is mmap, munmap, madvise, mremap, mprotect or any; it is refused the TURNth time, or every time if TURN is 0. Random
 * work goes on meanwhile in every size band, with blocks that a second thread frees too. A request may get NULL with ENOMEM,
 * nothing else may show; when the refusals stop, everything must be had. Prints `seen N refused N null N`: calls,
 * refusals, requests that failed.
 */
#include "refused_calls.h"

#include <malloc.h>
#include <pthread.h>

enum { slot_count = 150, step_count = 4000, handed_over_count = 64 };

typedef struct {
  unsigned char *block;
  size_t size;
} slot_t;

static slot_t slots[slot_count];
static void *handed_over[handed_over_count];
static pthread_barrier_t barrier;
static long null_count;
static unsigned random_state;

static unsigned draw(unsigned below) { return next_random(&random_state) % below; }

static size_t draw_size(void) {
  switch (draw(8)) {
    case 0:
    case 1:
      return 1 + draw(1024);
    case 2:
      return 1025 + draw(8000);
    case 3:
      return 9000 + draw(24000);
    case 4:
    case 5:
      return 32769 + draw(400000);
    case 6:
      return 1 * MIB + draw(2 * MIB);
    default:
      return 3 * MIB + draw(12 * MIB);
  }
}

/* Big blocks are looked at where they begin and end: the middle would only cost time. */
static size_t edge(size_t size) { return size < 8192 ? size : 4096; }

static void mark(slot_t *slot, unsigned seed) {
  paint(slot->block, edge(slot->size), seed);
  paint(slot->block + slot->size - edge(slot->size), edge(slot->size), seed);
}

static void look(const slot_t *slot, unsigned seed) {
  CHECK(is_painted(slot->block, edge(slot->size), seed));
  CHECK(is_painted(slot->block + slot->size - edge(slot->size), edge(slot->size), seed));
}

static int was_refused(const void *block) {
  if (block != NULL) return 0;
  CHECK(errno == ENOMEM);
  ++null_count;
  return 1;
}

static void take(slot_t *slot, unsigned index) {
  const size_t size = draw_size();
  const unsigned how = draw(4);
  unsigned char *block;
  errno = 0;
  if (how == 0) {
    block = calloc(1, size);
    if (block != NULL) CHECK(block[0] == 0 && memcmp(block, block + 1, edge(size) - 1) == 0 && block[size - 1] == 0);
  } else if (how == 1) {
    const size_t alignment = (size_t)16 << draw(18);
    block = memalign(alignment, size);
    CHECK((uintptr_t)block % alignment == 0);
  } else {
    block = malloc(size);
  }
  if (was_refused(block)) return;
  *slot = (slot_t){block, size};
  mark(slot, index);
}

static void resize(slot_t *slot, unsigned index) {
  const size_t size = draw(3) == 0 ? draw_size() : slot->size + slot->size / 2;
  errno = 0;
  unsigned char *block = realloc(slot->block, size);
  if (was_refused(block)) {
    look(slot, index);
    return;
  }
  slot->block = block;
  CHECK(is_painted(block, size < edge(slot->size) ? size : edge(slot->size), index));
  slot->size = size;
  mark(slot, index);
}

static void give_back(slot_t *slot, unsigned index) {
  look(slot, index);
  void **place = draw(3) == 0 ? &handed_over[draw(handed_over_count)] : NULL;
  if (place != NULL && *place == NULL) {
    *place = slot->block;
  } else {
    errno = 12345;
    free(slot->block);
    CHECK(errno == 12345);
  }
  slot->block = NULL;
}

static void free_handed_over(void) {
  for (int i = 0; i < handed_over_count; ++i) {
    errno = 12345;
    free(handed_over[i]);
    CHECK(errno == 12345);
    handed_over[i] = NULL;
  }
}

/* Never ends: the C library unmaps a thread's stack with all signals blocked, and the filter needs one. */
static void *free_from_afar(void *unused) {
  (void)unused;
  install_call_filter();
  for (;;) {
    pthread_barrier_wait(&barrier);
    free_handed_over();
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void work(int steps) {
  for (int step = 0; step < steps; ++step) {
    const unsigned index = draw(slot_count);
    slot_t *slot = &slots[index];
    if (slot->block == NULL) {
      take(slot, index);
    } else if (draw(4) == 0) {
      resize(slot, index);
    } else {
      give_back(slot, index);
    }
    if (step % 100 == 99) {
      pthread_barrier_wait(&barrier);
      pthread_barrier_wait(&barrier);
    }
    if (step % 1000 == 999) malloc_trim(0);
  }
}

int main(int argc, char **argv) {
  if (argc != 4) return exit_usage;
  random_state = (unsigned)atol(argv[3]);
  pthread_t thread;
  CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0 && pthread_create(&thread, NULL, free_from_afar, NULL) == 0);
  install_call_filter();

  work(step_count / 4);
  refuse_calls(argv[1], atol(argv[2]));
  work(step_count);
  stop_refusing();

  const long null_before = null_count;
  work(step_count / 4);
  for (unsigned i = 0; i < slot_count; ++i) {
    if (slots[i].block != NULL) give_back(&slots[i], i);
  }
  CHECK(null_count == null_before);
  free_handed_over();
  printf("seen %ld refused %ld null %ld\n", (long)calls_seen, (long)calls_refused, null_count);
  return 0;
}
