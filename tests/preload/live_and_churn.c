/* Much live memory, and more that comes and goes: live_and_churn MIB ROUNDS
 *
 * Holds batches of blocks, each batch of one size, written to from end to end. In each round some batches are freed, at
 * random, and others are made of other sizes until MIB mebibytes are live again: a freed block seldom has the size that
 * is wanted next. No request may fail and no block may change. A hung program is ended by an alarm. Prints `live BYTES
 * peak BYTES`: the most that was live, and the most that the process had resident.
 */
#include "check.h"

#define BATCH_BYTES (5 * MIB)
#define BATCH_MAX 256
#define ALARM_SECONDS 300

static const size_t sizes[] = {5 * MIB, 2000, 700 * KIB, 30000, 1200 * KIB, 5000, 100000, 2500 * KIB, 300 * KIB, 14000};

typedef struct {
  void **blocks;
  size_t count;
  size_t size;
  unsigned seed;
} batch_t;

static batch_t batches[BATCH_MAX];
static size_t batch_count;
static size_t live, live_peak;

static void make_batch(size_t size, unsigned seed) {
  batch_t batch = {.count = BATCH_BYTES / size, .size = size, .seed = seed};
  batch.blocks = malloc(batch.count * sizeof(void *));
  CHECK(batch.blocks != NULL && batch_count < BATCH_MAX);
  for (size_t i = 0; i < batch.count; ++i) {
    batch.blocks[i] = malloc(size);
    CHECK(batch.blocks[i] != NULL);
    paint(batch.blocks[i], size, seed + (unsigned)i);
  }
  batches[batch_count++] = batch;
  live += batch.count * (size + sizeof(void *));
  if (live > live_peak) live_peak = live;
}

static void free_batch(size_t index) {
  batch_t batch = batches[index];
  for (size_t i = 0; i < batch.count; ++i) {
    CHECK(is_painted(batch.blocks[i], batch.size, batch.seed + (unsigned)i));
    free(batch.blocks[i]);
  }
  free(batch.blocks);
  live -= batch.count * (batch.size + sizeof(void *));
  batches[index] = batches[--batch_count];
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  const size_t wanted = strtoul(argv[1], NULL, 10) * MIB;
  const int rounds = atoi(argv[2]);
  unsigned state = 1;
  alarm(ALARM_SECONDS);
  for (int round = 0; round < rounds; ++round) {
    while (live + BATCH_BYTES + BATCH_BYTES / 100 <= wanted) {
      make_batch(sizes[next_random(&state) % (sizeof sizes / sizeof *sizes)], state);
    }
    const size_t leave = next_random(&state) % batch_count;
    while (batch_count > leave) free_batch(next_random(&state) % batch_count);
  }
  printf("live %zu peak %zu\n", live_peak, (size_t)status_kib("VmHWM") * KIB);
  return 0;
}
