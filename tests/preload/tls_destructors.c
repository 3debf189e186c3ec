/* Thread-local destructors that allocate and free, in every round that POSIX grants: tls_destructors THREADS AT_ONCE
 *
 * The allocator's own thread-local destructor may already have run when these do. Resident memory must not grow with
 * the number of threads that have come and gone. Prints `quarter KIB end KIB`.
 */
#include "check.h"

#include <limits.h>
#include <pthread.h>

enum { key_count = 3, most_at_once = 16, growth_limit_kib = 4096 };

static pthread_key_t keys[key_count];

typedef struct {
  int key, round;
} note_t;

static void churn(unsigned seed) {
  static const size_t sizes[] = {24, 200, 1000, 3000, 20000, 100000};
  void *blocks[sizeof sizes / sizeof *sizes];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    blocks[i] = malloc(sizes[i]);
    CHECK(blocks[i] != NULL);
    paint(blocks[i], sizes[i] < 100 ? sizes[i] : 100, seed);
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) free(blocks[i]);
}

static void destroy(void *value) {
  note_t *note = value;
  churn((unsigned)note->round);
  if (++note->round < PTHREAD_DESTRUCTOR_ITERATIONS) {
    note_t *next = malloc(sizeof *next);
    *next = *note;
    CHECK(pthread_setspecific(keys[note->key], next) == 0);
  }
  free(note);
}

static void *live(void *unused) {
  for (int key = 0; key < key_count; ++key) {
    note_t *note = malloc(sizeof *note);
    *note = (note_t){.key = key};
    CHECK(pthread_setspecific(keys[key], note) == 0);
  }
  churn(1);
  return unused;
}

static void run(int count, int at_once) {
  pthread_t threads[most_at_once];
  for (int done = 0; done < count; done += at_once) {
    for (int i = 0; i < at_once; ++i) CHECK(pthread_create(&threads[i], NULL, live, NULL) == 0);
    for (int i = 0; i < at_once; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  }
}

int main(int argc, char **argv) {
  const int count = argc == 3 ? atoi(argv[1]) : 0, at_once = argc == 3 ? atoi(argv[2]) : 0;
  if (count < 4 || at_once < 1 || at_once > most_at_once) return exit_usage;
  for (int key = 0; key < key_count; ++key) CHECK(pthread_key_create(&keys[key], destroy) == 0);
  run(count / 4, at_once);
  const long quarter = status_kib("VmRSS");
  run(count - count / 4, at_once);
  const long end = status_kib("VmRSS");
  printf("quarter %ld end %ld\n", quarter, end);
  fflush(stdout);
  CHECK(end - quarter <= growth_limit_kib);
  return 0;
}
