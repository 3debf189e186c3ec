/* bench/micro/mid_mt.c - blocks of 8 to 32 KiB, a few hundred in each thread: too large for the lists of small
 * blocks, too small for a mapping each. Only the ends of a block are written, so the allocator takes most of the
 * time. */
#include "block.h"

enum { chunk = 256 };
enum { option_least, option_most, option_slots };
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 8192, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 32768, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_slots] = {"slots", "how many blocks live at once, for each thread", 256, 1, 1 << 20, NULL, NULL},
};

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t least = options[option_least].value, most = options[option_most].value;
  const uint64_t slot_count = options[option_slots].value;
  slot_t *slots = slots_new(slot_count);
  uint64_t random = bench_random(bench, thread), done = 0, bytes = 0;
  for (uint64_t todo; (todo = bench_next(bench, done, chunk)) != 0; done += todo) {
    for (uint64_t i = 0; i < todo; ++i) {
      slot_t *slot = &slots[bench_below(&random, slot_count)];
      const size_t size = bench_between(&random, least, most);
      slot_clear(slot);
      slot_fill(slot, size, random);
      bytes += size;
    }
  }
  slots_clear(slots, slot_count);
  block_thread_end();
  return (bench_work_t){done, bytes};
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "mid_mt",
      .help = "replace random blocks of 8 to 32 KiB in every thread",
      .ops = 10000000,
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
