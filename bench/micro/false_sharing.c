/* bench/micro/false_sharing.c - small blocks that different threads write very often. Where two threads' blocks share a
 * cache line, each write takes the line away from the other thread.
 *
 * active: the allocator may give neighbours to different threads. Each thread allocates a block, writes it, frees it.
 * passive: it may do so after a free. One thread allocates a block for each; each writes and frees that one first, and
 * goes on as above. After Berger et al., "Hoard" (2000). An operation is a block with all its writes.
 */
#include "block.h"

enum { chunk = 16 };
enum { option_size, option_writes, option_mode };
enum { mode_active, mode_passive };
static const char *const modes[] = {"active", "passive", NULL};
static bench_option_t options[] = {
    [option_size] = {"size", "bytes of every block", 8, slot_bytes_least, 4096, NULL, NULL},
    [option_writes] = {"writes", "to every block", 1000, 1, 1 << 30, NULL, NULL},
    [option_mode] = {"mode", "where the first blocks come from", mode_active, 0, 0, modes, NULL},
};

static uint64_t *given[bench_threads_most];

static uint64_t *new_block(size_t size) {
  uint64_t *block = block_alloc(size);
  *block = 0;
  return block;
}

static void use_up(uint64_t *block, size_t size, uint64_t writes) {
  volatile uint64_t *word = block;
  for (uint64_t i = 0; i < writes; ++i) *word = *word + 1;
  if (*word != writes) bench_damaged(block, size);
  block_free(block, size);
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const size_t size = options[option_size].value;
  const uint64_t writes = options[option_writes].value;
  uint64_t done = 0;
  if (given[thread]) use_up(given[thread], size, writes);
  for (uint64_t todo; (todo = bench_next(bench, done, chunk)) != 0; done += todo) {
    for (uint64_t i = 0; i < todo; ++i) use_up(new_block(size), size, writes);
  }
  block_thread_end();
  return (bench_work_t){done, done * size};
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "false_sharing",
      .help = "threads write small blocks very often",
      .ops = 200000,
      .seed = 1,
      .threads = 2,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  for (unsigned i = 0; options[option_mode].value == mode_passive && i < bench.threads; ++i) {
    given[i] = new_block(options[option_size].value);
  }
  bench_run(&bench, work);
  return bench_report(&bench);
}
