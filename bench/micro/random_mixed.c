/* bench/micro/random_mixed.c - a working set of blocks of random sizes: a random one is freed, and another takes its
 * place.
 *
 * The slots are filled before the clock has run far: `--slots` of the operations. Sizes are drawn evenly between the
 * bounds, or evenly over their doublings, as programs have them: many small ones, few large.
 */
#include "block.h"

enum { chunk = 1024 };
enum { option_least, option_most, option_slots, option_sizes };
enum { sizes_even, sizes_doublings };
static const char *const size_words[] = {"even", "doublings", NULL};
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 16, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 1024, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_slots] = {"slots", "how many blocks live at once, for each thread", 8192, 1, 1 << 26, NULL, NULL},
    [option_sizes] = {"sizes", "how they are drawn", sizes_even, 0, 0, size_words, NULL},
};

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t least = options[option_least].value, most = options[option_most].value;
  const uint64_t slot_count = options[option_slots].value;
  const bool even = options[option_sizes].value == sizes_even;
  slot_t *slots = slots_new(slot_count);
  uint64_t random = bench_random(bench, thread), done = 0, bytes = 0;
  for (uint64_t todo; (todo = bench_next(bench, done, chunk)) != 0; done += todo) {
    for (uint64_t i = 0; i < todo; ++i) {
      const uint64_t tag = done + i;
      slot_t *slot = &slots[tag < slot_count ? tag : bench_below(&random, slot_count)];
      const size_t size = even ? bench_between(&random, least, most) : bench_between_doublings(&random, least, most);
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
      .name = "random_mixed",
      .help = "replace random blocks of a working set by blocks of random sizes",
      .ops = 10000000,
      .seed = 1,
      .threads = 1,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  if (options[option_least].value > options[option_most].value) bench_usage_error(&bench, "--least is above --most");
  bench_run(&bench, work);
  return bench_report(&bench);
}
