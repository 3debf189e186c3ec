/* bench/micro/handoff.c - producers allocate, consumers free: no thread frees a block that it allocated.
 *
 * Blocks travel in batches through one bounded queue, so that its lock costs little beside the blocks. Large batches
 * show the memory that an allocator holds while blocks return to the threads that allocated them.
 */
#include <pthread.h>

#define BENCH_BLOCKS_MIGRATE 1
#include "block.h"

enum { option_least, option_most, option_producers, option_consumers, option_batch, option_queue };
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 16, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 256, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_producers] = {"producers", "threads that allocate", 1, 1, bench_threads_most / 2, NULL, NULL},
    [option_consumers] = {"consumers", "threads that free", 1, 1, bench_threads_most / 2, NULL, NULL},
    [option_batch] = {"batch", "blocks that are handed over together", 64, 1, 1 << 20, NULL, NULL},
    [option_queue] = {"queue", "batches that wait at most", 64, 1, 1 << 10, NULL, NULL},
};

typedef struct {
  slot_t *slots;
  uint64_t count;
} batch_t;

/* All fields under `lock`. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t not_full, not_empty;
  batch_t *batches;
  uint64_t first, length;
  uint64_t producers; /* still at work */
} queue = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .not_full = PTHREAD_COND_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER};

/* A batch goes into the queue's slots, and comes out of them, by an exchange of pointers. */
static void swap_with_queue(batch_t *batch, uint64_t place) {
  batch_t *queued = &queue.batches[place % options[option_queue].value];
  const batch_t other = *queued;
  *queued = *batch;
  *batch = other;
}

static void put(batch_t *batch) {
  pthread_mutex_lock(&queue.lock);
  while (queue.length == options[option_queue].value) pthread_cond_wait(&queue.not_full, &queue.lock);
  swap_with_queue(batch, queue.first + queue.length++);
  pthread_cond_signal(&queue.not_empty);
  pthread_mutex_unlock(&queue.lock);
}

/* False when all producers have ended and nothing is left. */
static bool take(batch_t *batch) {
  pthread_mutex_lock(&queue.lock);
  while (queue.length == 0 && queue.producers != 0) pthread_cond_wait(&queue.not_empty, &queue.lock);
  const bool found = queue.length != 0;
  if (found) {
    swap_with_queue(batch, queue.first);
    queue.first = (queue.first + 1) % options[option_queue].value;
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
  batch_t batch = {slots_new(options[option_batch].value), 0};
  while ((batch.count = bench_next(bench, done, options[option_batch].value)) != 0) {
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
  batch_t batch = {slots_new(options[option_batch].value), 0};
  for (; take(&batch); done += batch.count) slots_clear(batch.slots, batch.count);
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
  queue.batches = bench_pages(options[option_queue].value * sizeof *queue.batches);
  for (uint64_t i = 0; i < options[option_queue].value; ++i) {
    queue.batches[i].slots = slots_new(options[option_batch].value);
  }
  bench_run(&bench, work);
  return bench_report(&bench);
}
