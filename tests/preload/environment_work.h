/* tests/preload/environment_work.h - the work that environment.c and shim/environment_module.c do.
 *
 * Allocates in every band of sizes, from one thread and from four, exchanges blocks between threads, and verifies every
 * byte. The checksum depends on sizes and contents alone, so it is the same under every correct malloc.
 */
#ifndef PRELOAD_ENVIRONMENT_WORK_H
#define PRELOAD_ENVIRONMENT_WORK_H

#include "check.h"

#include <pthread.h>

enum { thread_count = 4, most_blocks = 16384 };

typedef struct {
  unsigned random;
  uint64_t checksum;
  size_t live_bytes, count;
  unsigned char **blocks;
  size_t *sizes;
} table_t;

/* ---- The work. */

static size_t a_size(unsigned random) {
  const unsigned band = random % 100, value = random / 100;
  if (band < 60) return 1 + value % 512;
  if (band < 85) return 513 + value % (8 * 1024);
  if (band < 95) return 8 * 1024 + value % (56 * 1024);
  if (band < 99) return 64 * 1024 + value % (192 * 1024);
  return 256 * 1024 + value % (1800 * 1024);
}

static void add(table_t *table, uint64_t value) { table->checksum = (table->checksum ^ value) * 0x100000001b3u; }

static void check_block(table_t *table, size_t index) {
  CHECK(is_painted(table->blocks[index], table->sizes[index], (unsigned)table->sizes[index]));
  add(table, table->sizes[index] + table->blocks[index][0]);
}

static unsigned char *new_block(unsigned way, size_t size) {
  if (way % 8 == 0) {
    unsigned char *block = calloc(1, size);
    CHECK(block != NULL && block[0] == 0 && memcmp(block, block + 1, size - 1) == 0);
    return block;
  }
  if (way % 8 == 1) {
    const size_t alignment = (size_t)16 << way / 8 % 9;
    void *block = NULL;
    CHECK(posix_memalign(&block, alignment, size) == 0 && (uintptr_t)block % alignment == 0);
    return block;
  }
  return malloc(size);
}

static void put(table_t *table, size_t index) {
  const unsigned way = next_random(&table->random);
  const size_t size = a_size(next_random(&table->random));
  if (table->blocks[index] != NULL && way % 4 == 0) {
    const size_t kept = size < table->sizes[index] ? size : table->sizes[index];
    check_block(table, index);
    table->blocks[index] = realloc(table->blocks[index], size);
    CHECK(table->blocks[index] != NULL);
    CHECK(is_painted(table->blocks[index], kept, (unsigned)table->sizes[index]));
  } else {
    free(table->blocks[index]);
    table->blocks[index] = new_block(way / 4, size);
  }
  CHECK(table->blocks[index] != NULL);
  table->live_bytes += size - table->sizes[index];
  table->sizes[index] = size;
  paint(table->blocks[index], size, (unsigned)size);
}

static void drop(table_t *table, size_t index) {
  if (table->blocks[index] == NULL) return;
  check_block(table, index);
  free(table->blocks[index]);
  table->live_bytes -= table->sizes[index];
  table->blocks[index] = NULL;
  table->sizes[index] = 0;
}

static table_t *new_table(unsigned seed) {
  table_t *table = calloc(1, sizeof *table);
  CHECK(table != NULL);
  table->random = seed;
  table->blocks = calloc(most_blocks, sizeof *table->blocks);
  table->sizes = calloc(most_blocks, sizeof *table->sizes);
  CHECK(table->blocks != NULL && table->sizes != NULL);
  return table;
}

/* Fills the table to `live_bytes`, and then replaces as many blocks as it has. */
static void fill_and_churn(table_t *table, size_t live_bytes) {
  while (table->live_bytes < live_bytes && table->count < most_blocks) put(table, table->count++);
  for (size_t turn = 0; turn < table->count; ++turn) {
    const size_t index = next_random(&table->random) % table->count;
    if (table->live_bytes > live_bytes)
      drop(table, index);
    else
      put(table, index);
  }
}

static uint64_t free_table(table_t *table) {
  for (size_t i = 0; i < table->count; ++i) drop(table, i);
  const uint64_t checksum = table->checksum;
  free(table->blocks);
  free(table->sizes);
  free(table);
  return checksum;
}

typedef struct {
  pthread_t thread;
  pthread_barrier_t *all_are_full;
  table_t *table, **neighbour;
  size_t live_bytes;
  uint64_t checksum;
} worker_t;

/* Fills its own table; frees its neighbour's. */
static void *work_in_thread(void *argument) {
  worker_t *worker = argument;
  fill_and_churn(worker->table, worker->live_bytes);
  pthread_barrier_wait(worker->all_are_full);
  worker->checksum = free_table(*worker->neighbour);
  return NULL;
}

static uint64_t work_in_threads(size_t live_bytes) {
  worker_t workers[thread_count];
  pthread_barrier_t all_are_full;
  CHECK(pthread_barrier_init(&all_are_full, NULL, thread_count) == 0);
  for (unsigned i = 0; i < thread_count; ++i) {
    workers[i].all_are_full = &all_are_full;
    workers[i].table = new_table(i + 100);
    workers[i].live_bytes = live_bytes / thread_count;
    workers[i].neighbour = &workers[(i + 1) % thread_count].table;
  }
  uint64_t checksum = 0;
  for (int i = 0; i < thread_count; ++i)
    CHECK(pthread_create(&workers[i].thread, NULL, work_in_thread, &workers[i]) == 0);
  for (int i = 0; i < thread_count; ++i) {
    CHECK(pthread_join(workers[i].thread, NULL) == 0);
    checksum += workers[i].checksum;
  }
  CHECK(pthread_barrier_destroy(&all_are_full) == 0);
  return checksum;
}

/* Half of the first thread's blocks stay while the others work. */
static inline uint64_t environment_work(size_t live_bytes) {
  table_t *table = new_table(1);
  fill_and_churn(table, live_bytes);
  for (size_t i = 0; i < table->count; i += 2) drop(table, i);
  const uint64_t checksum = work_in_threads(live_bytes / 2);
  fill_and_churn(table, live_bytes / 2);
  return checksum + free_table(table);
}

#endif /* PRELOAD_ENVIRONMENT_WORK_H */
