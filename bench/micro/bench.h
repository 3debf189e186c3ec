/* bench/micro/bench.h - common code of all workloads: options, a seed, threads that start together, a clock, and one
 * line of JSON at the end.
 *
 * A workload is a bench_t with its options and a function that one thread runs; main calls bench_start, bench_run and
 * bench_report. Work is fixed (`--ops`), so that the time of the whole process compares; with `--seconds` it goes on
 * until the time is over instead. An operation is one block's life, a malloc and its free, unless the workload says
 * otherwise.
 *
 * Nothing here allocates while the clock runs, and nothing here takes memory from the allocator that is measured.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* A number within bounds, one of a few words, or a text (a file's name). */
typedef struct {
  const char *name; /* without the dashes */
  const char *help;
  uint64_t value; /* the default, then the value of the command line; for a word its index */
  uint64_t least, most;
  const char *const *words; /* up to a NULL; NULL for a number or a text */
  const char *text;         /* a default, for a text; NULL for a number or a word */
} bench_option_t;

/* The result of one thread. */
typedef struct {
  uint64_t ops;
  uint64_t bytes; /* requested */
} bench_work_t;

enum { bench_note_count_most = 8, bench_threads_most = 256 };

typedef struct {
  /* Filled in by the workload; the first four are the defaults of the options that all have. */
  uint64_t ops;
  uint64_t seed;
  unsigned threads;
  double seconds;     /* 0: fixed work */
  bool fixed_threads; /* `threads` follows from other options: there is no --threads */
  const char *name;
  const char *help;
  bench_option_t *options;
  size_t option_count;
  /* The number of threads that share the operations: all of them unless main sets it before bench_run. */
  unsigned sharers;
  /* bench_run's. */
  uint64_t ops_per_thread;
  uint64_t start_ns, end_ns, deadline_ns;
  bench_work_t done;
  struct {
    const char *name;
    uint64_t value;
  } notes[bench_note_count_most];
  size_t note_count;
} bench_t;

/* The name that the program was started by: `pair_floor` is not `pair`. */
extern const char *bench_program;

typedef bench_work_t (*bench_function_t)(const bench_t *bench, unsigned thread);

/* Reads the command line. A wrong one ends the program with a line on stderr and exit code 2. */
void bench_start(bench_t *bench, int argc, char **argv);
/* Runs `work` once a thread. One thread is the main thread: the process then never has a second one. */
void bench_run(bench_t *bench, bench_function_t work);
/* One more number for the report. */
void bench_note(bench_t *bench, const char *name, uint64_t value);
/* Prints the line. Returns the exit code of main. */
int bench_report(const bench_t *bench);
/* A wrong option that only the workload can see. Exit code 2. */
_Noreturn void bench_usage_error(const bench_t *bench, const char *what);
/* The measurement is void: a line on stderr, `"checked": false` on stdout, exit code 1. */
_Noreturn void bench_fail(const char *what);
_Noreturn void bench_damaged(const void *block, size_t size);

/* Zeroed memory straight from the system, never given back: already touched, or resident only as far as it is used. */
void *bench_pages(size_t bytes);
void *bench_reserve(size_t bytes);
/* The resident bytes of the process. */
uint64_t bench_resident_kib(void);

static inline uint64_t bench_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The next operations of a thread that has done `done`: at most `chunk`, 0 at the end. */
static inline uint64_t bench_next(const bench_t *bench, uint64_t done, uint64_t chunk) {
  if (bench->seconds > 0) return bench_now_ns() < bench->deadline_ns ? chunk : 0;
  const uint64_t left = bench->ops_per_thread - done;
  return left < chunk ? left : chunk;
}

/* Xorshift64*: a multiplication and three shifts, so that drawing costs little beside allocating. */
static inline uint64_t bench_draw(uint64_t *state) {
  uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return x * 0x2545f4914f6cdd1du;
}

/* A thread's own sequence: never 0, far from its neighbours'. */
static inline uint64_t bench_random(const bench_t *bench, unsigned thread) {
  uint64_t x = bench->seed + (thread + 1u) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) | 1u;
}

/* 0 <= result < limit, for limits below 2^32. */
static inline uint64_t bench_below(uint64_t *state, uint64_t limit) { return (bench_draw(state) >> 32) * limit >> 32; }

static inline uint64_t bench_between(uint64_t *state, uint64_t least, uint64_t most) {
  return least + bench_below(state, most - least + 1);
}

/* Every doubling as likely as the next: many small, few large, as programs have them. */
static inline uint64_t bench_between_doublings(uint64_t *state, uint64_t least, uint64_t most) {
  const unsigned low = 63u - (unsigned)__builtin_clzll(least), high = 63u - (unsigned)__builtin_clzll(most);
  const unsigned doubling = (unsigned)bench_between(state, low, high);
  const uint64_t size = ((uint64_t)1 << doubling) + bench_below(state, (uint64_t)1 << doubling);
  return size < least ? least : size > most ? most : size;
}

#endif /* BENCH_BENCH_H */
