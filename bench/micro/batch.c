/* bench/micro/batch.c - many blocks of one size are allocated, then all of them are freed: oldest first, newest
 * first, or in a random order that is drawn once. */
#include "block.h"

enum { option_size, option_count, option_order };
enum { order_oldest, order_newest, order_random };
static const char *const orders[] = {"oldest", "newest", "random", NULL};
static bench_option_t options[] = {
    [option_size] = {"size", "bytes of every block", 64, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_count] = {"count", "blocks of a batch", 1000, 1, 1 << 26, NULL, NULL},
    [option_order] = {"order", "which block is freed first", order_oldest, 0, 0, orders, NULL},
};

static uint32_t *freeing_order(uint64_t order, uint64_t count, uint64_t random) {
  uint32_t *indices = bench_pages(count * sizeof *indices);
  for (uint64_t i = 0; i < count; ++i) indices[i] = (uint32_t)(order == order_newest ? count - 1 - i : i);
  for (uint64_t i = count; order == order_random && i > 1; --i) {
    const uint64_t other = bench_below(&random, i);
    const uint32_t index = indices[other];
    indices[other] = indices[i - 1];
    indices[i - 1] = index;
  }
  return indices;
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const size_t size = options[option_size].value;
  const uint64_t count = options[option_count].value;
  slot_t *slots = slots_new(count);
  uint64_t tag = bench_random(bench, thread), done = 0;
  const uint32_t *order = freeing_order(options[option_order].value, count, tag);
  for (uint64_t todo; (todo = bench_next(bench, done, count)) != 0; done += todo) {
    for (uint64_t i = 0; i < todo; ++i) slot_fill(&slots[i], size, tag++);
    /* The last batch may be a short one: its empty slots are passed over. */
    for (uint64_t i = 0; i < count; ++i) slot_clear(&slots[order[i]]);
  }
  block_thread_end();
  return (bench_work_t){done, done * size};
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "batch",
      .help = "allocate many blocks of one size, then free them all",
      .ops = 20000000,
      .seed = 1,
      .threads = 1,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  bench_run(&bench, work);
  return bench_report(&bench);
}
