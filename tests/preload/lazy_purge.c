/* Lazily purged memory: lazy_purge SIZE HOW
 *
 * Takes 64 MiB in blocks of SIZE, all ones, and between them blocks that stay, so that nothing can be unmapped; and
 * frees all but those. HOW: `stay` does no more. `trim` calls malloc_trim. `again` takes as much by calloc,
 * twice, the second time after the system has taken what it may, and looks whether all of it is zero. Prints
 * `peak BYTES freed BYTES lazy BYTES end BYTES`: the resident bytes beyond those at the start, at the most and when all
 * was freed, how many of these the system may take, and the resident bytes at the end.
 */
#include "idle_memory.h"

#include <malloc.h>
#include <sys/mman.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

enum { most_blocks = 1 << 16 };

static const size_t total = 64 * MIB, pin_size = 40 * KIB, between_pins = 512 * KIB;
static unsigned char *blocks[most_blocks];
static size_t block_size, block_count;

/* Between the program's blocks, so that each superslab keeps one; in no block of theirs is this program interested. */
static void pin(size_t *left) {
  if (*left >= block_size) {
    *left -= block_size;
    return;
  }
  unsigned char *block = malloc(pin_size);
  CHECK(block != NULL);
  memset(block, 1, pin_size);
  *left = between_pins;
}

static void take_all_ones(void) {
  size_t left = 0;
  for (size_t i = 0; i < block_count; ++i) {
    pin(&left);
    blocks[i] = malloc(block_size);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 0xff, block_size);
  }
}

static void free_all(void) {
  for (size_t i = 0; i < block_count; ++i) free(blocks[i]);
}

static void take_zero(void) {
  for (size_t i = 0; i < block_count; ++i) {
    blocks[i] = calloc(1, block_size);
    CHECK(blocks[i] != NULL);
    for (size_t at = 0; at < block_size; ++at) CHECK(blocks[i][at] == 0);
    memset(blocks[i], 0xff, block_size);
  }
}

/* It takes the lazily purged whole pages; other pages have nowhere to go, or come back unchanged. */
static void let_system_take(void) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < block_count; i += 2) {
    const uintptr_t start = (uintptr_t)blocks[i] / page * page;
    (void)madvise((void *)start, ((uintptr_t)blocks[i] + block_size - start) / page * page, MADV_PAGEOUT);
  }
}

static size_t lazy_bytes(void) {
  char line[256];
  size_t kib = 0;
  FILE *file = fopen("/proc/self/smaps", "re");
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "LazyFree:", 9) == 0) kib += strtoul(line + 9, NULL, 10);
  }
  fclose(file);
  return kib * KIB;
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  block_size = strtoul(argv[1], NULL, 10);
  block_count = total / block_size;
  memset(blocks, 1, sizeof blocks); /* resident */
  CHECK(block_count <= most_blocks);
  const size_t before = resident_bytes();
  take_all_ones();
  const size_t peak = resident_bytes();
  free_all();
  const size_t freed = resident_bytes(), lazy = lazy_bytes();
  if (strcmp(argv[2], "trim") == 0) CHECK(malloc_trim(0) == 1);
  if (strcmp(argv[2], "again") == 0) {
    take_zero();
    free_all();
    let_system_take();
    take_zero();
  }
  printf("peak %zu freed %zu lazy %zu end %zu\n", peak - before, freed - before, lazy, resident_bytes() - before);
  return 0;
}
