/* bench/micro/cold_frees.c - frees of memory that is in no cache: bursts of random blocks of a working set that is
 * larger than the caches are freed, then as many others are allocated.
 *
 * A program frees most blocks long after it used them last. So the program does not look at a block before it frees it,
 * and each line that a free touches comes from memory. One block in `checked_share` is checked before its free, and
 * all that live at the end are. The slots are filled first: `--slots` of the operations.
 */
#include "block.h"

enum { checked_share = 16 };
enum { option_least, option_most, option_slots, option_burst };
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 16, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 4000, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_slots] = {"slots", "how many blocks live at once, for each thread", 50000, 1, 1 << 26, NULL, NULL},
    [option_burst] = {"burst", "how many are freed in a row", 1000, 1, 1 << 26, NULL, NULL},
};

/* Frees a filled slot's block. */
static void free_cold(slot_t *slot, bool is_checked) {
  if (is_checked) slot_check(slot);
  block_free(slot->block, slot->size);
  slot->block = NULL;
}

static uint64_t fill(slot_t *slot, uint64_t *random) {
  const size_t size = bench_between(random, options[option_least].value, options[option_most].value);
  slot_fill(slot, size, *random);
  return size;
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t slot_count = options[option_slots].value, burst = options[option_burst].value;
  slot_t *slots = slots_new(slot_count);
  uint32_t *emptied = bench_pages(burst * sizeof *emptied);
  uint64_t random = bench_random(bench, thread), done = 0, bytes = 0, todo;
  while (done < slot_count && (todo = bench_next(bench, done, 1)) != 0) bytes += fill(&slots[done++], &random);
  const uint64_t filled = done;
  for (; (todo = bench_next(bench, done, burst)) != 0; done += todo) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < todo; ++i) {
      const uint32_t index = (uint32_t)bench_below(&random, filled);
      if (slots[index].block == NULL) continue; /* drawn twice in this burst */
      free_cold(&slots[index], i % checked_share == 0);
      emptied[count++] = index;
    }
    /* A block drawn twice is replaced twice: so the number of operations is the number of blocks. */
    for (uint64_t i = count; i < todo; ++i) {
      bytes += fill(&slots[emptied[0]], &random);
      free_cold(&slots[emptied[0]], true);
    }
    for (uint64_t i = 0; i < count; ++i) bytes += fill(&slots[emptied[i]], &random);
  }
  slots_clear(slots, slot_count);
  block_thread_end();
  return (bench_work_t){done, bytes};
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "cold_frees",
      .help = "free random blocks of a large working set that were not touched for long",
      .ops = 4000000,
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
