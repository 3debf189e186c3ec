/* bench/micro/calloc_fresh.c - blocks from calloc, checked for zeros and written before they are freed. Measures the
 * clearing of used memory, and the saved clearing of fresh memory. An operation is a calloc and its free. */
#include "block.h"

enum { chunk = 64, line_bytes = 64 };
enum { option_least, option_most, option_slots };
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 64, slot_bytes_least, 1 << 30, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 1 << 18, slot_bytes_least, 1 << 30, NULL, NULL},
    [option_slots] = {"slots", "how many blocks live at once, for each thread", 64, 1, 1 << 24, NULL, NULL},
};

/* One word of each cache line is looked at, and the same one is made dirty; the last word besides. */
static void check_zero(const slot_t *slot) {
  const char *bytes = slot->block;
  uint64_t any, last;
  memcpy(&any, bytes + slot->size - sizeof any, sizeof any);
  for (size_t at = 0; at + sizeof any <= slot->size; at += line_bytes) {
    memcpy(&last, bytes + at, sizeof last);
    any |= last;
  }
  if (BENCH_UNLIKELY(any != 0)) bench_fail("calloc returned memory that is not zero");
}

static void make_dirty(const slot_t *slot) {
  char *bytes = slot->block;
  memset(bytes + slot->size - sizeof(uint64_t), 0xa5, sizeof(uint64_t));
  for (size_t at = 0; at + sizeof(uint64_t) <= slot->size; at += line_bytes) memset(bytes + at, 0xa5, sizeof(uint64_t));
  slot_stamp(slot);
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t least = options[option_least].value, most = options[option_most].value;
  const uint64_t slot_count = options[option_slots].value;
  slot_t *slots = slots_new(slot_count);
  uint64_t random = bench_random(bench, thread), done = 0, bytes = 0;
  for (uint64_t todo; (todo = bench_next(bench, done, chunk)) != 0; done += todo) {
    for (uint64_t i = 0; i < todo; ++i) {
      slot_t *slot = &slots[bench_below(&random, slot_count)];
      const size_t size = bench_between_doublings(&random, least, most);
      slot_clear(slot);
      *slot = (slot_t){block_calloc(size), (uint32_t)size, (uint32_t)random};
      check_zero(slot);
      make_dirty(slot);
      bytes += size;
    }
  }
  slots_clear(slots, slot_count);
  block_thread_end();
  return (bench_work_t){done, bytes};
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "calloc_fresh",
      .help = "blocks that must be zero, and are dirty when they are freed",
      .ops = 300000,
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
