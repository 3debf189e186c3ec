/* bench/micro/realloc_grow.c - buffers that grow by realloc, side by side, as vectors and strings do: written where
 * they grew, read as a whole when they are full, then freed. An operation is one realloc. */
#include "block.h"

enum { chunk = 64, mark_bytes = 256 };
enum { option_from, option_to, option_percent, option_step, option_buffers };
static bench_option_t options[] = {
    [option_from] = {"from", "bytes of a new buffer", 16, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_to] = {"to", "bytes at which a buffer is full", 1 << 20, slot_bytes_least, 1 << 30, NULL, NULL},
    [option_percent] = {"percent", "growth by part of the size ...", 50, 0, 1000, NULL, NULL},
    [option_step] = {"step", "... and by so many bytes more", 16, 1, 1 << 26, NULL, NULL},
    [option_buffers] = {"buffers", "that grow side by side, in each thread", 8, 1, 1 << 20, NULL, NULL},
};

typedef struct {
  unsigned char *block; /* NULL: none yet */
  size_t size;
  uint64_t tag;
} buffer_t;

/* The distance between written words; each word names its buffer and its place. */
static size_t mark_count(size_t size) { return (size + mark_bytes - sizeof(uint64_t)) / mark_bytes; }

static void write_marks(buffer_t *buffer, size_t old_size) {
  for (size_t i = mark_count(old_size); i < mark_count(buffer->size); ++i) {
    const uint64_t mark = buffer->tag ^ i;
    memcpy(buffer->block + i * mark_bytes, &mark, sizeof mark);
  }
}

static void retire(buffer_t *buffer) {
  if (buffer->block == NULL) return;
  for (size_t i = 0; i < mark_count(buffer->size); ++i) {
    uint64_t mark;
    memcpy(&mark, buffer->block + i * mark_bytes, sizeof mark);
    if (BENCH_UNLIKELY(mark != (buffer->tag ^ i))) bench_damaged(buffer->block, buffer->size);
  }
  block_free(buffer->block, buffer->size);
  buffer->block = NULL;
}

static void begin(buffer_t *buffer, uint64_t tag) {
  *buffer = (buffer_t){block_alloc(options[option_from].value), options[option_from].value, tag};
  write_marks(buffer, 0);
}

static void grow(buffer_t *buffer) {
  const size_t old_size = buffer->size;
  buffer->size += old_size * options[option_percent].value / 100 + options[option_step].value;
  buffer->block = block_realloc(buffer->block, old_size, buffer->size);
  write_marks(buffer, old_size);
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t buffer_count = options[option_buffers].value;
  buffer_t *buffers = bench_pages(buffer_count * sizeof *buffers);
  uint64_t random = bench_random(bench, thread), done = 0, bytes = 0;
  for (uint64_t todo; (todo = bench_next(bench, done, chunk)) != 0; done += todo) {
    for (uint64_t i = 0; i < todo; ++i) {
      buffer_t *buffer = &buffers[bench_below(&random, buffer_count)];
      if (buffer->block && buffer->size >= options[option_to].value) retire(buffer);
      if (buffer->block == NULL) begin(buffer, random);
      grow(buffer);
      bytes += buffer->size;
    }
  }
  for (uint64_t i = 0; i < buffer_count; ++i) retire(&buffers[i]);
  block_thread_end();
  return (bench_work_t){done, bytes};
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "realloc_grow",
      .help = "buffers that grow by realloc until they are full",
      .ops = 1000000,
      .seed = 1,
      .threads = 1,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  bench_run(&bench, work);
  return bench_report(&bench);
}
