/* bench/micro/phases.c - a program in phases: it allocates much, frees nearly all of it, and allocates other sizes.
 * The memory that the few survivors keep resident is fragmentation.
 *
 * The survivors of a phase are spread over it at random, and live until the phase after the next has been freed.
 * Besides the operations the report has means over the phases: the live bytes, and the resident bytes beyond those of
 * the start, after building and after freeing.
 */
#include "block.h"

enum { option_mib, option_keep };
static bench_option_t options[] = {
    [option_mib] = {"mib", "what a phase builds up, for each thread", 32, 1, 1 << 16, NULL, NULL},
    [option_keep] = {"keep", "survivors, in a thousand", 30, 0, 1000, NULL, NULL},
};

static const struct {
  uint64_t least, most;
} bands[] = {{16, 96}, {512, 2048}, {64, 320}, {4096, 24576}, {32, 64}, {20000, 200000}, {256, 1024}};
enum { band_count = sizeof bands / sizeof *bands, least_of_all = 16, most_of_all = 200000, mean_least = 40 };

/* Only thread 0 looks: resident memory is the process's. In KiB, summed over the phases. */
static struct { uint64_t phases, live_built, resident_built, live_freed, resident_freed; } seen;

/* Blocks that say themselves how large they are: a benchmark about memory keeps no more than their addresses. */
typedef struct {
  void **blocks;
  uint64_t count, bytes;
} heap_t;

static void build(heap_t *heap, unsigned band, uint64_t ops_most, uint64_t *random) {
  while (heap->bytes < options[option_mib].value << 20 && heap->count < ops_most) {
    slot_t slot;
    const size_t size = bench_between(random, bands[band].least, bands[band].most);
    slot_fill(&slot, size, *random);
    /* A program writes what it asks for. */
    memset((char *)slot.block + slot_bytes_least, (int)band, size - slot_bytes_least - 1);
    heap->blocks[heap->count++] = slot.block;
    heap->bytes += size;
  }
}

/* Frees a heap but for the survivors, which go to `kept`, if any are to be kept. */
static void tear_down(heap_t *heap, heap_t *kept, uint64_t *random) {
  for (uint64_t i = 0; i < heap->count; ++i) {
    if (kept && bench_below(random, 1000) < options[option_keep].value) {
      kept->blocks[kept->count++] = heap->blocks[i];
      kept->bytes += slot_of_block(heap->blocks[i], least_of_all, most_of_all).size;
    } else {
      block_check_and_free(heap->blocks[i], least_of_all, most_of_all);
    }
  }
  heap->count = heap->bytes = 0;
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t blocks_most = (options[option_mib].value << 20) / mean_least;
  heap_t current = {bench_pages(blocks_most * sizeof(void *)), 0, 0};
  heap_t kept[2] = {{bench_reserve(blocks_most * sizeof(void *)), 0, 0},
                    {bench_reserve(blocks_most * sizeof(void *)), 0, 0}};
  uint64_t random = bench_random(bench, thread), todo;
  const uint64_t resident_at_start = bench_resident_kib();
  bench_work_t done = {0, 0};
  for (unsigned phase = 0; (todo = bench_next(bench, done.ops, blocks_most)) != 0; ++phase) {
    const uint64_t others_bytes = kept[0].bytes + kept[1].bytes;
    build(&current, phase % band_count, todo, &random);
    done.ops += current.count;
    done.bytes += current.bytes;
    const uint64_t live_built = others_bytes + current.bytes, resident_built = bench_resident_kib();
    tear_down(&kept[phase % 2], NULL, &random);
    tear_down(&current, &kept[phase % 2], &random);
    /* The first phase has no survivors beside it, and the last may be a part of one. */
    if (thread != 0 || phase == 0 || live_built < options[option_mib].value << 20) continue;
    ++seen.phases;
    seen.live_built += live_built * bench->threads / 1024;
    seen.resident_built += resident_built - resident_at_start;
    seen.live_freed += (kept[0].bytes + kept[1].bytes) * bench->threads / 1024;
    seen.resident_freed += bench_resident_kib() - resident_at_start;
  }
  tear_down(&kept[0], NULL, &random);
  tear_down(&kept[1], NULL, &random);
  return done;
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "phases",
      .help = "build up, free most, build something else",
      .ops = 4000000,
      .seed = 1,
      .threads = 1,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  bench_run(&bench, work);
  const uint64_t phases = seen.phases ? seen.phases : 1;
  bench_note(&bench, "live_built_kib", seen.live_built / phases);
  bench_note(&bench, "resident_built_kib", seen.resident_built / phases);
  bench_note(&bench, "live_freed_kib", seen.live_freed / phases);
  bench_note(&bench, "resident_freed_kib", seen.resident_freed / phases);
  return bench_report(&bench);
}
