/* bench/micro/latency.c - the time of each single call: threads replace random blocks of a working set, mostly small
 * and now and then up to 1 MiB, and a histogram takes the time of every malloc and every free. Reported are its
 * percentiles. The clock is read twice for each call, which is part of all figures, and the same for all allocators.
 *
 * The histogram is log-linear: 16 buckets for each doubling, so a percentile is at most 6% below the time that it
 * stands for.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "block.h"

enum { chunk = 1024 };
enum { linear_bits = 4, linear = 1 << linear_bits, bucket_count = 64 * linear };
enum { option_slots, option_histogram };
enum { histogram_no, histogram_yes };
static const char *const histogram_words[] = {"no", "yes", NULL};
static bench_option_t options[] = {
    [option_slots] = {"slots", "how many blocks live at once, for each thread", 10000, 1, 1 << 22, NULL, NULL},
    [option_histogram] = {"histogram", "print ns and calls on stderr", histogram_no, 0, 0, histogram_words, NULL},
};

typedef struct {
  uint64_t calls[bucket_count];
  uint64_t longest;
} histogram_t;

/* All threads' calls. Each thread adds its own at its end. */
static _Atomic(uint64_t) all_calls[bucket_count];
static _Atomic(uint64_t) all_longest;

/* Returns a time in units of the processor's clock where a program can read one, else in ns. */
static inline uint64_t clock_ticks(void) {
#if defined(__x86_64__)
  unsigned processor;
  return __builtin_ia32_rdtscp(&processor);
#else
  return bench_now_ns();
#endif
}

static inline unsigned bucket_of(uint64_t ticks) {
  if (ticks < linear) return (unsigned)ticks;
  const unsigned doubling = 63u - (unsigned)__builtin_clzll(ticks);
  return (doubling - linear_bits + 1) * linear + (unsigned)(ticks >> (doubling - linear_bits)) % linear;
}

/* The shortest time in a bucket. */
static uint64_t ticks_of(unsigned bucket) {
  if (bucket < linear) return bucket;
  return (uint64_t)(linear + bucket % linear) << (bucket / linear - 1);
}

static inline void note(histogram_t *histogram, uint64_t ticks) {
  histogram->calls[bucket_of(ticks)]++;
  if (ticks > histogram->longest) histogram->longest = ticks;
}

static void add_to_all(const histogram_t *histogram) {
  for (unsigned i = 0; i < bucket_count; ++i) atomic_fetch_add(&all_calls[i], histogram->calls[i]);
  uint64_t longest = atomic_load(&all_longest);
  while (longest < histogram->longest && !atomic_compare_exchange_weak(&all_longest, &longest, histogram->longest)) {
  }
}

/* Of a thousand blocks 900 have up to 1 KiB, 90 up to 32 KiB, 9 up to 512 KiB, and one has 1 MiB. */
static size_t draw_size(uint64_t *random) {
  const uint64_t kind = bench_below(random, 1000);
  if (kind < 900) return bench_between(random, 16, 1024);
  if (kind < 990) return bench_between(random, 1025, 32768);
  return kind < 999 ? bench_between(random, 32769, 524288) : 1048576;
}

static void replace(slot_t *slot, size_t size, uint64_t tag, histogram_t *histogram) {
  if (slot->block != NULL) {
    slot_check(slot);
    const uint64_t start = clock_ticks();
    block_free(slot->block, slot->size);
    note(histogram, clock_ticks() - start);
  }
  const uint64_t start = clock_ticks();
  void *block = block_alloc(size);
  note(histogram, clock_ticks() - start);
  *slot = (slot_t){block, (uint32_t)size, (uint32_t)tag};
  slot_stamp(slot);
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t slot_count = options[option_slots].value;
  slot_t *slots = slots_new(slot_count);
  histogram_t *histogram = bench_pages(sizeof *histogram);
  uint64_t random = bench_random(bench, thread), done = 0, bytes = 0;
  for (uint64_t todo; (todo = bench_next(bench, done, chunk)) != 0; done += todo) {
    for (uint64_t i = 0; i < todo; ++i) {
      const size_t size = draw_size(&random);
      replace(&slots[bench_below(&random, slot_count)], size, random, histogram);
      bytes += size;
    }
  }
  add_to_all(histogram);
  slots_clear(slots, slot_count);
  block_thread_end();
  return (bench_work_t){done, bytes};
}

/* The time that this share of the calls does not exceed, but for the width of a bucket. */
static uint64_t percentile(uint64_t calls, double share) {
  uint64_t seen = 0;
  unsigned bucket = 0;
  for (; bucket < bucket_count - 1; ++bucket) {
    seen += all_calls[bucket];
    if ((double)seen >= share * (double)calls) break;
  }
  return ticks_of(bucket);
}

static void report_percentiles(bench_t *bench, double ns_per_tick) {
  static const struct {
    const char *name;
    double share;
  } rows[] = {{"p50_ns", 0.5}, {"p99_ns", 0.99}, {"p99_9_ns", 0.999}, {"p99_99_ns", 0.9999}, {"p99_999_ns", 0.99999}};
  uint64_t calls = 0;
  for (unsigned i = 0; i < bucket_count; ++i) calls += all_calls[i];
  bench_note(bench, "calls", calls);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    bench_note(bench, rows[i].name, (uint64_t)((double)percentile(calls, rows[i].share) * ns_per_tick + 0.5));
  }
  bench_note(bench, "max_ns", (uint64_t)((double)all_longest * ns_per_tick + 0.5));
}

static void print_histogram(double ns_per_tick) {
  for (unsigned i = 0; i < bucket_count; ++i) {
    if (all_calls[i] == 0) continue;
    fprintf(stderr, "%.0f %llu\n", (double)ticks_of(i) * ns_per_tick, (unsigned long long)all_calls[i]);
  }
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "latency",
      .help = "time each single call while random blocks of a working set are replaced",
      .ops = 5000000,
      .seed = 1,
      .threads = 2,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  const uint64_t start = clock_ticks(), start_ns = bench_now_ns();
  bench_run(&bench, work);
  const uint64_t ticks = clock_ticks() - start, ns = bench_now_ns() - start_ns;
  const double ns_per_tick = ticks > 0 ? (double)ns / (double)ticks : 1;
  report_percentiles(&bench, ns_per_tick);
  if (options[option_histogram].value == histogram_yes) print_histogram(ns_per_tick);
  return bench_report(&bench);
}
