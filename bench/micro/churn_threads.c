/* bench/micro/churn_threads.c - short-lived threads: each frees the blocks that its predecessor left, allocates a few,
 * frees most, leaves the rest and ends. Measures the cost of the begin and the end of a thread in an allocator. */
#include <pthread.h>

#define BENCH_BLOCKS_MIGRATE 1
#include "block.h"

enum { blocks_most = 1 << 16 };
enum { option_least, option_most, option_blocks, option_left };
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 16, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 512, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_blocks] = {"blocks", "what a thread allocates", 64, 1, blocks_most, NULL, NULL},
    [option_left] = {"left", "what it leaves to its successor", 8, 0, blocks_most, NULL, NULL},
};

/* A line of threads, one alive at a time. */
typedef struct {
  slot_t *slots;
  uint64_t todo; /* of the next thread */
  uint64_t random;
  bench_work_t work;
} lane_t;

static void *run_short_life(void *argument) {
  lane_t *lane = argument;
  slots_clear(lane->slots, options[option_blocks].value);
  for (uint64_t i = 0; i < lane->todo; ++i) {
    const size_t size = bench_between(&lane->random, options[option_least].value, options[option_most].value);
    slot_fill(&lane->slots[i], size, lane->random);
    lane->work.bytes += size;
  }
  for (uint64_t i = options[option_left].value; i < lane->todo; ++i) slot_clear(&lane->slots[i]);
  lane->work.ops += lane->todo;
  block_thread_end();
  return NULL;
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t blocks = options[option_blocks].value;
  lane_t lane = {.slots = slots_new(blocks), .random = bench_random(bench, thread)};
  while ((lane.todo = bench_next(bench, lane.work.ops, blocks)) != 0) {
    pthread_t handle;
    if (pthread_create(&handle, NULL, run_short_life, &lane) != 0) bench_fail("no more threads to be had");
    pthread_join(handle, NULL);
  }
  slots_clear(lane.slots, blocks);
  block_thread_end();
  return lane.work;
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "churn_threads",
      .help = "threads that live for a few blocks; --threads of them at a time",
      .ops = 1000000,
      .seed = 1,
      .threads = 2,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  if (options[option_least].value > options[option_most].value) bench_usage_error(&bench, "--least is above --most");
  bench_run(&bench, work);
  return bench_report(&bench);
}
