/* tests/preload/stack_use.c - measures how much of the caller's stack each call of malloc and its kin takes, at each
 * size: on a painted stack, in the first thread, in one that calls malloc for the first time, and in one that does so
 * beside many that sleep and have heaps. Prints the most, with the call and the size. */
#include "check.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { stack_bytes = 128 * 1024, many = 20000, sleepers = 24, mark = 0xcd };

typedef enum {
  take_one,
  free_one,
  take_many,
  free_many,
  reallocate,
  clear,
  align,
  usable,
  trim,
  figures,
  churn,
  call_count
} call_t;
static const char *const names[call_count] = {
    "malloc", "free",     "malloc, many times", "free, many times", "realloc",
    "calloc", "memalign", "malloc_usable_size", "malloc_trim",      "mallinfo2",
    "both"};

static const size_t sizes[] = {16, 100, 1000, 5000, 20000, 60000, 100000, 400000, 1500000, 5000000, 40000000};
enum { size_count = sizeof sizes / sizeof *sizes };

/* Of one thread. */
typedef struct {
  ucontext_t caller, callee;
  unsigned char *stack;
  call_t call;
  size_t size;
  void *blocks[many];
  size_t most, most_size;
  call_t most_call;
} measure_t;

static _Thread_local measure_t *now;
static volatile size_t sink;

static void take_and_free(measure_t *m) {
  for (int turn = 0; turn < 100; turn++) {
    for (size_t i = 0; i < 100; i++) m->blocks[i] = malloc(m->size + i * 16);
    for (size_t i = 0; i < 100; i++) free(m->blocks[i]);
  }
}

static void make_call(void) {
  measure_t *m = now;
  void *block = NULL;
  switch (m->call) {
    case take_one:
      m->blocks[0] = malloc(m->size);
      break;
    case free_one:
      free(m->blocks[0]);
      break;
    case take_many:
      for (int i = 0; i < many; i++) m->blocks[i] = malloc(m->size);
      break;
    case free_many:
      for (int i = 0; i < many; i++) free(m->blocks[i]);
      break;
    case reallocate:
      free(realloc(malloc(m->size), m->size * 3));
      break;
    case clear:
      free(calloc(1, m->size));
      break;
    case align:
      if (posix_memalign(&block, 65536, m->size) == 0) free(block);
      break;
    case usable:
      sink = malloc_usable_size(m->blocks[0]);
      break;
    case trim:
      (void)malloc_trim(0);
      break;
    case figures:
      sink = mallinfo2().uordblks;
      break;
    case churn:
      take_and_free(m);
      break;
    default:
      break;
  }
}

static size_t used(const measure_t *m) {
  size_t untouched = 0;
  while (untouched < stack_bytes && m->stack[untouched] == mark) untouched++;
  return stack_bytes - untouched;
}

static void measure(measure_t *m, call_t call, size_t size) {
  m->call = call;
  m->size = size;
  memset(m->stack, mark, stack_bytes);
  CHECK(getcontext(&m->callee) == 0);
  m->callee.uc_stack.ss_sp = m->stack;
  m->callee.uc_stack.ss_size = stack_bytes;
  m->callee.uc_link = &m->caller;
  makecontext(&m->callee, make_call, 0);
  CHECK(swapcontext(&m->caller, &m->callee) == 0);
  if (used(m) <= m->most) return;
  m->most = used(m);
  m->most_call = call;
  m->most_size = size;
}

static void measure_size(measure_t *m, size_t size) {
  measure(m, take_one, size);
  measure(m, usable, size);
  measure(m, free_one, size);
  if (size <= 20000) {
    measure(m, take_many, size);
    measure(m, free_many, size);
  }
  if (size <= 400000) measure(m, churn, size);
  measure(m, reallocate, size);
  measure(m, clear, size);
  measure(m, align, size);
  measure(m, figures, size);
  measure(m, trim, size);
}

/* One that never was in the allocator before `measure_size`. */
static void *measure_all(void *argument) {
  measure_t *m = argument;
  now = m;
  for (size_t i = 0; i < size_count; i++) measure_size(m, sizes[i]);
  measure_size(m, 16);
  return NULL;
}

static measure_t *new_measure(void) {
  measure_t *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(m != MAP_FAILED);
  m->stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(m->stack != MAP_FAILED);
  return m;
}

static void tell(const char *thread, const measure_t *m) {
  printf("%zu bytes in the %s thread, of %s at %zu\n", m->most, thread, names[m->most_call], m->most_size);
}

static pthread_barrier_t all_have_heaps, may_end;

static void *sleep_with_heap(void *unused) {
  void *block = malloc(100);
  pthread_barrier_wait(&all_have_heaps);
  pthread_barrier_wait(&may_end);
  free(block);
  return unused;
}

static void measure_beside_sleepers(measure_t *m) {
  pthread_t sleeper[sleepers], thread;
  CHECK(pthread_barrier_init(&all_have_heaps, NULL, sleepers + 1) == 0);
  CHECK(pthread_barrier_init(&may_end, NULL, sleepers + 1) == 0);
  for (int i = 0; i < sleepers; i++) CHECK(pthread_create(&sleeper[i], NULL, sleep_with_heap, NULL) == 0);
  pthread_barrier_wait(&all_have_heaps);
  usleep(10000); /* so that most of them sleep again */
  CHECK(pthread_create(&thread, NULL, measure_all, m) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  pthread_barrier_wait(&may_end);
  for (int i = 0; i < sleepers; i++) CHECK(pthread_join(sleeper[i], NULL) == 0);
}

int main(void) {
  measure_t *first = new_measure(), *second = new_measure(), *late = new_measure();
  measure_all(first);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, measure_all, second) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  measure_beside_sleepers(late);
  measure_all(first); /* the purge thread has its turn */
  tell("first", first);
  tell("second", second);
  tell("late", late);
  return 0;
}
