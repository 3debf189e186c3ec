/* bench/micro/bench.c - the threads, the clock and the report of bench.h. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *bench_program = "bench";

/* ---- Threads. --------------------------------------------------------------------------------------------------- */

typedef struct {
  const bench_t *bench;
  bench_function_t work;
  unsigned index;
  pthread_barrier_t *start;
  pthread_t handle;
  bench_work_t done;
} worker_t;

static void *run_worker(void *argument) {
  worker_t *worker = argument;
  pthread_barrier_wait(worker->start);
  worker->done = worker->work(worker->bench, worker->index);
  return NULL;
}

static void start_clock(bench_t *bench) {
  bench->start_ns = bench_now_ns();
  bench->deadline_ns = bench->start_ns + (uint64_t)(bench->seconds * 1e9);
}

static void run_threads(bench_t *bench, bench_function_t work) {
  static worker_t workers[bench_threads_most];
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, bench->threads + 1);
  for (unsigned i = 0; i < bench->threads; ++i) {
    workers[i] = (worker_t){.bench = bench, .work = work, .index = i, .start = &start};
    if (pthread_create(&workers[i].handle, NULL, run_worker, &workers[i]) != 0) bench_fail("no more threads to be had");
  }
  start_clock(bench); /* before the barrier, which publishes it */
  pthread_barrier_wait(&start);
  for (unsigned i = 0; i < bench->threads; ++i) {
    pthread_join(workers[i].handle, NULL);
    bench->done.ops += workers[i].done.ops;
    bench->done.bytes += workers[i].done.bytes;
  }
}

void bench_run(bench_t *bench, bench_function_t work) {
  if (bench->sharers == 0) bench->sharers = bench->threads;
  bench->ops_per_thread = (bench->ops + bench->sharers - 1) / bench->sharers;
  if (bench->threads > 1) {
    run_threads(bench, work);
  } else {
    start_clock(bench);
    bench->done = work(bench, 0);
  }
  bench->end_ns = bench_now_ns();
}

/* ---- The report. ------------------------------------------------------------------------------------------------- */

void bench_note(bench_t *bench, const char *name, uint64_t value) {
  if (bench->note_count == bench_note_count_most) bench_fail("too many notes");
  bench->notes[bench->note_count].name = name;
  bench->notes[bench->note_count++].value = value;
}

static void print_string(const char *text) {
  putchar('"');
  for (; *text; ++text) {
    if (*text == '"' || *text == '\\') putchar('\\');
    if ((unsigned char)*text >= ' ') putchar(*text);
  }
  putchar('"');
}

static void print_options(const bench_t *bench) {
  fputs(", \"options\": {", stdout);
  for (size_t i = 0; i < bench->option_count; ++i) {
    const bench_option_t *option = &bench->options[i];
    printf("%s\"%s\": ", i ? ", " : "", option->name);
    if (option->text) {
      print_string(option->text);
    } else if (option->words) {
      print_string(option->words[option->value]);
    } else {
      printf("%llu", (unsigned long long)option->value);
    }
  }
  putchar('}');
}

int bench_report(const bench_t *bench) {
  const double seconds = (double)(bench->end_ns - bench->start_ns) / 1e9;
  printf(
      "{\"workload\": \"%s\", \"program\": \"%s\", \"ops\": %llu, \"seconds\": %.6f, \"ops_per_second\": %.1f, "
      "\"checked\": true",
      bench->name, bench_program, (unsigned long long)bench->done.ops, seconds,
      seconds > 0 ? (double)bench->done.ops / seconds : 0.0);
  printf(", \"bytes\": %llu, \"threads\": %u, \"seed\": %llu", (unsigned long long)bench->done.bytes, bench->threads,
         (unsigned long long)bench->seed);
  for (size_t i = 0; i < bench->note_count; ++i) {
    printf(", \"%s\": %llu", bench->notes[i].name, (unsigned long long)bench->notes[i].value);
  }
  print_options(bench);
  puts("}");
  if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
  fprintf(stderr, "%s: cannot write the result: %s\n", bench_program, strerror(errno));
  return 1;
}

void bench_fail(const char *what) {
  /* Several threads may find the same damage: the first one speaks, and ends them all. */
  static atomic_flag spoken = ATOMIC_FLAG_INIT;
  while (atomic_flag_test_and_set(&spoken)) pause();
  fprintf(stderr, "%s: %s\n", bench_program, what);
  printf("{\"program\": \"%s\", \"checked\": false, \"error\": ", bench_program);
  print_string(what);
  puts("}");
  fflush(stdout);
  _exit(1);
}

void bench_damaged(const void *block, size_t size) {
  char what[128];
  snprintf(what, sizeof what, "the block of %zu bytes at %p does not hold what was written to it", size, block);
  bench_fail(what);
}

static void *map_pages(size_t bytes, int flags) {
  void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (pages == MAP_FAILED) bench_fail("out of memory for the benchmark's own arrays");
  return pages;
}

void *bench_pages(size_t bytes) { return map_pages(bytes, MAP_POPULATE); }

void *bench_reserve(size_t bytes) { return map_pages(bytes, MAP_NORESERVE); }

uint64_t bench_resident_kib(void) {
  char text[128] = "";
  unsigned long long total = 0, resident = 0;
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0 || sscanf(text, "%llu %llu", &total, &resident) != 2) return 0;
  return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}
