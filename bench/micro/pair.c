/* bench/micro/pair.c - one block at a time: allocated, written, checked, freed. The shortest path. */
#include "block.h"

enum { chunk = 4096 };
enum { option_size };
static bench_option_t options[] = {
    [option_size] = {"size", "bytes of every block", 64, slot_bytes_least, 1 << 26, NULL, NULL},
};

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const size_t size = options[option_size].value;
  uint64_t tag = bench_random(bench, thread), done = 0;
  for (uint64_t todo; (todo = bench_next(bench, done, chunk)) != 0; done += todo) {
    for (uint64_t i = 0; i < todo; ++i) {
      slot_t slot;
      slot_fill(&slot, size, tag++);
      slot_check(&slot);
      block_free(slot.block, size);
    }
  }
  block_thread_end();
  return (bench_work_t){done, done * size};
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "pair",
      .help = "allocate one block, free it, and again",
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
