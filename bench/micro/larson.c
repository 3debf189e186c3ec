/* bench/micro/larson.c - a server whose threads come and go: each replaces random blocks of an array, then starts a
 * successor, passes it the array and ends. Another thread frees most blocks than the one that allocated them.
 *
 * After Larson and Krishnan, "Memory Allocation for Long-Running Server Applications" (1998). A lane is an array with
 * the threads that inherit it from each other; its first blocks are the main thread's (with several lanes: a lane
 * thread's). With --seconds and --window-ms the report also has the operations of the first and of the last window,
 * which show a slow-down.
 */
#include <pthread.h>
#include <semaphore.h>

#define BENCH_BLOCKS_MIGRATE 1
#include "block.h"

enum { option_least, option_most, option_slots, option_life, option_window_ms };
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 8, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 1000, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_slots] = {"slots", "how many blocks live at once, for each thread", 1000, 1, 1 << 24, NULL, NULL},
    [option_life] = {"life", "operations of a thread before its successor takes over", 50000, 1, 1 << 30, NULL, NULL},
    [option_window_ms] = {"window-ms", "count the first and the last so many ms too; 0: do not", 0, 0, 1 << 20, NULL,
                          NULL},
};

typedef struct {
  const bench_t *bench;
  slot_t *slots;
  uint64_t random;
  bench_work_t work;
  sem_t over;
} lane_t;

static struct { _Atomic uint64_t first, last; } window_ops;

/* A generation belongs to the window in which it ends. */
static void count_in_windows(const bench_t *bench, uint64_t ops) {
  const uint64_t window_ns = options[option_window_ms].value * 1000000u;
  if (window_ns == 0) return;
  const uint64_t now_ns = bench_now_ns();
  if (now_ns < bench->start_ns + window_ns) window_ops.first += ops;
  if (now_ns >= bench->deadline_ns - window_ns && now_ns < bench->deadline_ns) window_ops.last += ops;
}

static void replace_blocks(lane_t *lane, uint64_t count) {
  const uint64_t least = options[option_least].value, most = options[option_most].value;
  const uint64_t slot_count = options[option_slots].value;
  uint64_t random = lane->random, bytes = 0;
  for (uint64_t i = 0; i < count; ++i) {
    slot_t *slot = &lane->slots[bench_below(&random, slot_count)];
    const size_t size = bench_between(&random, least, most);
    slot_clear(slot);
    slot_fill(slot, size, random);
    bytes += size;
  }
  lane->random = random;
  lane->work.ops += count;
  lane->work.bytes += bytes;
}

static void start_generation(lane_t *lane);

static void *run_generation(void *argument) {
  lane_t *lane = argument;
  const uint64_t todo = bench_next(lane->bench, lane->work.ops, options[option_life].value);
  replace_blocks(lane, todo);
  count_in_windows(lane->bench, todo);
  block_thread_end();
  if (todo != 0) {
    start_generation(lane);
  } else {
    sem_post(&lane->over);
  }
  return NULL;
}

static void start_generation(lane_t *lane) {
  pthread_t handle;
  if (pthread_create(&handle, NULL, run_generation, lane) != 0) bench_fail("no more threads to be had");
  pthread_detach(handle);
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t slot_count = options[option_slots].value;
  lane_t lane = {.bench = bench, .slots = slots_new(slot_count), .random = bench_random(bench, thread)};
  sem_init(&lane.over, 0, 0);
  for (uint64_t i = 0; i < slot_count; ++i) {
    const size_t size = bench_between(&lane.random, options[option_least].value, options[option_most].value);
    slot_fill(&lane.slots[i], size, lane.random);
  }
  start_generation(&lane);
  while (sem_wait(&lane.over) != 0) continue; /* a signal is no post */
  slots_clear(lane.slots, slot_count);
  block_thread_end();
  return lane.work;
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "larson",
      .help = "threads replace random blocks and leave them to their successors",
      .ops = 10000000,
      .seed = 1,
      .threads = 2,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  if (options[option_least].value > options[option_most].value) bench_usage_error(&bench, "--least is above --most");
  if (options[option_window_ms].value > 0 && bench.seconds * 1000 < 2 * (double)options[option_window_ms].value) {
    bench_usage_error(&bench, "--window-ms needs --seconds, of two windows at least");
  }
  bench_run(&bench, work);
  if (options[option_window_ms].value > 0) {
    bench_note(&bench, "first_window_ops", window_ops.first);
    bench_note(&bench, "last_window_ops", window_ops.last);
  }
  return bench_report(&bench);
}
