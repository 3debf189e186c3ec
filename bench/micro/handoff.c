/* bench/micro/handoff.c - producers allocate, consumers free: no thread frees a block that it allocated.
 *
 * Blocks travel in batches through one bounded queue, so that its lock costs little beside the blocks.
 */
#include <pthread.h>

#define BENCH_BLOCKS_MIGRATE 1
#include "block.h"

enum { batch_slots = 64, queue_batches = 64 };
enum { option_least, option_most, option_producers, option_consumers };
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 16, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 256, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_producers] = {"producers", "threads that allocate", 1, 1, bench_threads_most / 2, NULL, NULL},
    [option_consumers] = {"consumers", "threads that free", 1, 1, bench_threads_most / 2, NULL, NULL},
};

typedef struct {
  slot_t slots[batch_slots];
  uint64_t count;
} batch_t;

/* All fields under `lock`. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t not_full, not_empty;
  batch_t batches[queue_batches];
  uint64_t first, length;
  uint64_t producers; /* still at work */
} queue = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .not_full = PTHREAD_COND_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER};

static void put(const batch_t *batch) {
  pthread_mutex_lock(&queue.lock);
  while (queue.length == queue_batches) pthread_cond_wait(&queue.not_full, &queue.lock);
  queue.batches[(queue.first + queue.length++) % queue_batches] = *batch;
  pthread_cond_signal(&queue.not_empty);
  pthread_mutex_unlock(&queue.lock);
}

/* False when all producers have ended and nothing is left. */
static bool take(batch_t *batch) {
  pthread_mutex_lock(&queue.lock);
  while (queue.length == 0 && queue.producers != 0) pthread_cond_wait(&queue.not_empty, &queue.lock);
  const bool found = queue.length != 0;
  if (found) {
    *batch = queue.batches[queue.first];
    queue.first = (queue.first + 1) % queue_batches;
    --queue.length;
    pthread_cond_signal(&queue.not_full);
  }
  pthread_mutex_unlock(&queue.lock);
  return found;
}

static void end_producer(void) {
  pthread_mutex_lock(&queue.lock);
  if (--queue.producers == 0) pthread_cond_broadcast(&queue.not_empty);
  pthread_mutex_unlock(&queue.lock);
}

static uint64_t produce(const bench_t *bench, uint64_t random) {
  const uint64_t least = options[option_least].value, most = options[option_most].value;
  uint64_t done = 0, bytes = 0;
  batch_t batch;
  while ((batch.count = bench_next(bench, done, batch_slots)) != 0) {
    for (uint64_t i = 0; i < batch.count; ++i) {
      const size_t size = bench_between(&random, least, most);
      slot_fill(&batch.slots[i], size, random);
      bytes += size;
    }
    done += batch.count;
    put(&batch);
  }
  end_producer();
  return bytes;
}

static uint64_t consume(void) {
  uint64_t done = 0;
  for (batch_t batch; take(&batch); done += batch.count) slots_clear(batch.slots, batch.count);
  return done;
}

/* The bytes are counted where a block begins, the operations where it ends. */
static bench_work_t work(const bench_t *bench, unsigned thread) {
  bench_work_t done = {0, 0};
  if (thread < options[option_producers].value) {
    done.bytes = produce(bench, bench_random(bench, thread));
  } else {
    done.ops = consume();
  }
  block_thread_end();
  return done;
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "handoff",
      .help = "some threads allocate, others free",
      .ops = 10000000,
      .seed = 1,
      .threads = 2,
      .fixed_threads = true,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  if (options[option_least].value > options[option_most].value) bench_usage_error(&bench, "--least is above --most");
  bench.threads = (unsigned)(options[option_producers].value + options[option_consumers].value);
  bench.sharers = (unsigned)options[option_producers].value;
  queue.producers = options[option_producers].value;
  bench_run(&bench, work);
  return bench_report(&bench);
}
