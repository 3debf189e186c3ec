/* bench/micro/partial_arrays.c - arrays of which a program uses a part: tables with room to grow, hash tables, sparse
 * matrices. The memory that is resident and was never written is what an allocator's guess has cost.
 *
 * A round allocates one array that is filled, and others that are larger on the average. Then it writes one page in
 * `step` of the first part of those, checks what it wrote and frees all. An operation is an array's life. Besides the
 * operations the report has means over the rounds: the written bytes, and the resident bytes beyond those of the start.
 */
#include "block.h"

enum { page_bytes = 4096, array_count = 6 };
enum { option_full_kib, option_least_kib, option_most_kib, option_percent, option_step };
static bench_option_t options[] = {
    [option_full_kib] = {"full-kib", "KiB of the array that is filled", 20000, 1, 1 << 20, NULL, NULL},
    [option_least_kib] = {"least-kib", "KiB of the smallest other one", 4096, 1, 1 << 20, NULL, NULL},
    [option_most_kib] = {"most-kib", "KiB of the largest other one", 262144, 1, 1 << 20, NULL, NULL},
    [option_percent] = {"percent", "the part of those that is used", 33, 0, 100, NULL, NULL},
    [option_step] = {"step", "one page in so many of that part is written", 4, 1, 1024, NULL, NULL},
};

/* Only thread 0 looks: resident memory is the process's. In KiB, summed over the rounds. */
static struct { uint64_t rounds, written, resident; } seen;

/* Writes a word in each page that is used, behind the slot's own first word, or checks them. Returns their number. */
static uint64_t go_over(const slot_t *slot, uint64_t percent, uint64_t step, bool is_check) {
  uint64_t pages = 0;
  for (size_t at = slot_bytes_least; at + page_bytes <= slot->size * percent / 100; at += step * page_bytes, ++pages) {
    char *word = (char *)slot->block + at;
    if (!is_check) {
      memcpy(word, &slot->tag, sizeof slot->tag);
    } else if (memcmp(word, &slot->tag, sizeof slot->tag) != 0) {
      bench_damaged(slot->block, slot->size);
    }
  }
  return pages;
}

static uint64_t go_over_all(const slot_t *slots, uint64_t count, bool is_check) {
  uint64_t pages = go_over(&slots[0], 100, 1, is_check);
  for (uint64_t i = 1; i < count; ++i) {
    pages += go_over(&slots[i], options[option_percent].value, options[option_step].value, is_check);
  }
  return pages;
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  slot_t *slots = slots_new(array_count);
  uint64_t random = bench_random(bench, thread), todo;
  const uint64_t resident_at_start = bench_resident_kib();
  bench_work_t done = {0, 0};
  while ((todo = bench_next(bench, done.ops, array_count)) != 0) {
    for (uint64_t i = 0; i < todo; ++i) {
      const size_t kib =
          i == 0 ? options[option_full_kib].value
                 : bench_between_doublings(&random, options[option_least_kib].value, options[option_most_kib].value);
      slot_fill(&slots[i], kib * 1024, random);
      done.bytes += kib * 1024;
      if (i == 0) (void)go_over(&slots[0], 100, 1, false); /* what comes first is full before the rest is there */
    }
    const uint64_t pages = go_over_all(slots, todo, false);
    const uint64_t resident = bench_resident_kib();
    (void)go_over_all(slots, todo, true);
    slots_clear(slots, todo);
    done.ops += todo;
    if (thread != 0) continue;
    ++seen.rounds;
    seen.written += pages * bench->threads * (page_bytes / 1024);
    seen.resident += resident - resident_at_start;
  }
  block_thread_end();
  return done;
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "partial_arrays",
      .help = "large arrays of which a part is written",
      .ops = 60,
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
  const uint64_t rounds = seen.rounds ? seen.rounds : 1;
  bench_note(&bench, "written_kib", seen.written / rounds);
  bench_note(&bench, "resident_kib", seen.resident / rounds);
  return bench_report(&bench);
}
