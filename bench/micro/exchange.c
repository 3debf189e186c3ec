/* bench/micro/exchange.c - threads swap blocks through cells that all share: at each step a new block goes into a
 * random cell, and the block that was there, mostly another thread's, is checked and freed. */
#include <stdatomic.h>

#define BENCH_BLOCKS_MIGRATE 1
#include "block.h"

enum { chunk = 1024 };
enum { option_least, option_most, option_cells };
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 16, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 8192, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_cells] = {"cells", "how many blocks live at once, all threads together", 4096, 1, 1 << 24, NULL, NULL},
};

static _Atomic(void *) *cells;

static void free_found(void *block) {
  block_check_and_free(block, options[option_least].value, options[option_most].value);
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t least = options[option_least].value, most = options[option_most].value;
  const uint64_t cell_count = options[option_cells].value;
  uint64_t random = bench_random(bench, thread), done = 0, bytes = 0;
  for (uint64_t todo; (todo = bench_next(bench, done, chunk)) != 0; done += todo) {
    for (uint64_t i = 0; i < todo; ++i) {
      slot_t slot;
      slot_fill(&slot, bench_between_doublings(&random, least, most), random);
      bytes += slot.size;
      void *found =
          atomic_exchange_explicit(&cells[bench_below(&random, cell_count)], slot.block, memory_order_acq_rel);
      if (found != NULL) free_found(found);
    }
  }
  block_thread_end();
  return (bench_work_t){done, bytes};
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "exchange",
      .help = "threads swap blocks of random sizes with each other",
      .ops = 5000000,
      .seed = 1,
      .threads = 2,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  if (options[option_least].value > options[option_most].value) bench_usage_error(&bench, "--least is above --most");
  cells = bench_pages(options[option_cells].value * sizeof *cells);
  bench_run(&bench, work);
  for (uint64_t i = 0; i < options[option_cells].value; ++i) {
    void *left = atomic_load_explicit(&cells[i], memory_order_relaxed);
    if (left != NULL) free_found(left);
  }
  return bench_report(&bench);
}
