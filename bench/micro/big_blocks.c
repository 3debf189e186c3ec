/* bench/micro/big_blocks.c - blocks of 1 to 64 MiB, a few at a time, every page of them written: retention and purges
 * decide. `repeated` requests the same few sizes again and again, `random` a new one each time. */
#include "block.h"

enum { page_bytes = 4096, repeated_sizes = 4 };
enum { option_least_kib, option_most_kib, option_slots, option_sizes };
enum { sizes_repeated, sizes_random };
static const char *const size_words[] = {"repeated", "random", NULL};
static bench_option_t options[] = {
    [option_least_kib] = {"least-kib", "KiB of the smallest block", 1024, 1, 1 << 20, NULL, NULL},
    [option_most_kib] = {"most-kib", "KiB of the largest block", 65536, 1, 1 << 20, NULL, NULL},
    [option_slots] = {"slots", "how many blocks live at once, for each thread", 3, 1, 1024, NULL, NULL},
    [option_sizes] = {"sizes", "how they are drawn", sizes_repeated, 0, 0, size_words, NULL},
};

/* Large ones are as rare as they are large: each doubling as likely as the next. */
static size_t draw_bytes(uint64_t *random) {
  return bench_between_doublings(random, options[option_least_kib].value, options[option_most_kib].value) * 1024;
}

static void write_pages(const slot_t *slot) {
  for (size_t at = page_bytes; at + page_bytes <= slot->size; at += page_bytes) {
    memcpy((char *)slot->block + at, &slot->tag, sizeof slot->tag);
  }
}

static void check_pages(const slot_t *slot) {
  for (size_t at = page_bytes; at + page_bytes <= slot->size; at += page_bytes) {
    if (memcmp((const char *)slot->block + at, &slot->tag, sizeof slot->tag) != 0)
      bench_damaged(slot->block, slot->size);
  }
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t slot_count = options[option_slots].value;
  slot_t *slots = slots_new(slot_count);
  uint64_t random = bench_random(bench, thread), done = 0, bytes = 0;
  size_t repeated[repeated_sizes];
  for (unsigned i = 0; i < repeated_sizes; ++i) repeated[i] = draw_bytes(&random);
  for (; bench_next(bench, done, 1) != 0; ++done) {
    slot_t *slot = &slots[bench_below(&random, slot_count)];
    const bool again = options[option_sizes].value == sizes_repeated;
    const size_t size = again ? repeated[bench_below(&random, repeated_sizes)] : draw_bytes(&random);
    if (slot->block) check_pages(slot);
    slot_clear(slot);
    slot_fill(slot, size, random);
    write_pages(slot);
    bytes += size;
  }
  for (uint64_t i = 0; i < slot_count; ++i) {
    if (slots[i].block) check_pages(&slots[i]);
  }
  slots_clear(slots, slot_count);
  block_thread_end();
  return (bench_work_t){done, bytes};
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "big_blocks",
      .help = "replace random blocks of 1 to 64 MiB",
      .ops = 200,
      .seed = 1,
      .threads = 1,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  if (options[option_least_kib].value > options[option_most_kib].value) {
    bench_usage_error(&bench, "--least-kib is above --most-kib");
  }
  bench_run(&bench, work);
  return bench_report(&bench);
}
