/* bench/micro/many_threads.c - many threads that are alive at once: each replaces random blocks of its own, keeps the
 * last ones, and waits for all others. Measures the memory that an allocator needs for each thread.
 *
 * With --idle-ms all threads then sleep. After that each checks and frees its blocks. Besides the operations the report
 * has the live bytes, and the resident bytes beyond those of the start: when all threads wait, after the sleep, and
 * when all blocks are freed.
 */
#include <errno.h>
#include <pthread.h>

#include "block.h"

enum { option_least, option_most, option_slots, option_alive, option_idle_ms };
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 16, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 516, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_slots] = {"slots", "how many blocks each thread keeps", 250, 1, 1 << 20, NULL, NULL},
    [option_alive] = {"alive", "how many threads there are", 1000, 1, 20000, NULL, NULL},
    [option_idle_ms] = {"idle-ms", "how long all threads sleep", 0, 0, 1 << 20, NULL, NULL},
};

enum { stack_bytes = 64 * 1024 };

/* Each of the many threads, and the main thread, arrives at each point. */
static pthread_barrier_t all_work_done, all_may_free, all_freed;

typedef struct {
  const bench_t *bench;
  unsigned number;
  slot_t *slots;
  pthread_t handle;
  bench_work_t done;
  uint64_t live_bytes;
} worker_t;

/* A thread's share is the same for all. With --seconds each looks at the clock now and then. */
static bool may_go_on(const bench_t *bench, uint64_t done) {
  if (bench->seconds > 0) return done % 1024 != 0 || bench_now_ns() < bench->deadline_ns;
  return done < bench->ops_per_thread / options[option_alive].value;
}

static void replace_blocks(worker_t *worker) {
  const uint64_t least = options[option_least].value, most = options[option_most].value;
  const uint64_t slot_count = options[option_slots].value;
  uint64_t random = bench_random(worker->bench, worker->number);
  for (uint64_t i = 0; may_go_on(worker->bench, i); ++i) {
    slot_t *slot = &worker->slots[i < slot_count ? i : bench_below(&random, slot_count)];
    const size_t size = bench_between(&random, least, most);
    slot_clear(slot);
    slot_fill(slot, size, random);
    memset((char *)slot->block + slot_bytes_least, (int)i, size - slot_bytes_least); /* a program fills its blocks */
    slot_stamp(slot);
    worker->done.bytes += size;
    ++worker->done.ops;
  }
  for (uint64_t i = 0; i < slot_count; ++i) worker->live_bytes += worker->slots[i].block ? worker->slots[i].size : 0;
}

static void *live(void *argument) {
  worker_t *worker = argument;
  replace_blocks(worker);
  pthread_barrier_wait(&all_work_done);
  pthread_barrier_wait(&all_may_free);
  slots_clear(worker->slots, options[option_slots].value);
  pthread_barrier_wait(&all_freed);
  return NULL;
}

static void start(worker_t *worker) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  if (pthread_create(&worker->handle, &attributes, live, worker) != 0) bench_fail("no more threads to be had");
  pthread_attr_destroy(&attributes);
}

static void sleep_ms(uint64_t ms) {
  struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

static uint64_t resident_since(uint64_t start_kib) {
  const uint64_t now_kib = bench_resident_kib();
  return now_kib > start_kib ? now_kib - start_kib : 0;
}

/* The first thread starts the many, and looks at the process between their steps. */
static struct { uint64_t live, busy, idle, freed; } seen_kib;

static bench_work_t work(const bench_t *bench, unsigned thread) {
  (void)thread;
  const uint64_t count = options[option_alive].value;
  worker_t *workers = bench_pages(count * sizeof *workers);
  slot_t *slots = slots_new(count * options[option_slots].value);
  const uint64_t start_kib = bench_resident_kib();
  bench_work_t done = {0, 0};
  for (uint64_t i = 0; i < count; ++i) {
    workers[i] = (worker_t){.bench = bench, .number = (unsigned)i, .slots = &slots[i * options[option_slots].value]};
    start(&workers[i]);
  }
  pthread_barrier_wait(&all_work_done);
  seen_kib.busy = resident_since(start_kib);
  sleep_ms(options[option_idle_ms].value);
  seen_kib.idle = resident_since(start_kib);
  pthread_barrier_wait(&all_may_free);
  pthread_barrier_wait(&all_freed);
  seen_kib.freed = resident_since(start_kib);
  for (uint64_t i = 0; i < count; ++i) {
    pthread_join(workers[i].handle, NULL);
    done.ops += workers[i].done.ops;
    done.bytes += workers[i].done.bytes;
    seen_kib.live += workers[i].live_bytes;
  }
  seen_kib.live /= 1024;
  return done;
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "many_threads",
      .help = "many threads that are alive at once, each with blocks of its own",
      .ops = 20000000,
      .seed = 1,
      .threads = 1,
      .fixed_threads = true,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  if (options[option_least].value > options[option_most].value) bench_usage_error(&bench, "--least is above --most");
  const unsigned arrivals = (unsigned)options[option_alive].value + 1;
  pthread_barrier_init(&all_work_done, NULL, arrivals);
  pthread_barrier_init(&all_may_free, NULL, arrivals);
  pthread_barrier_init(&all_freed, NULL, arrivals);
  bench_run(&bench, work);
  bench_note(&bench, "live_kib", seen_kib.live);
  bench_note(&bench, "resident_kib", seen_kib.busy);
  bench_note(&bench, "resident_idle_kib", seen_kib.idle);
  bench_note(&bench, "resident_freed_kib", seen_kib.freed);
  return bench_report(&bench);
}
