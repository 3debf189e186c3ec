/* Runs out of memory and recovers: fill_until_null FUNCTION SIZE [FULL]
 *
 * Takes blocks of SIZE bytes until one is refused (with ENOMEM), finds all of them intact, frees them, and must then
 * get nearly as many again, and one block of a quarter of the whole. With FULL each block is written to from end to
 * end, without only at both ends. Prints how many bytes the limit left at the start and how many were had: `room BYTES
 * got BYTES`.
 */
#include "check.h"

#include <malloc.h>
#include <sys/resource.h>

typedef struct block {
  struct block *next;
  size_t number;
} block_t;

static const char *function;
static size_t size;
static int is_full;

static void *take(void) {
  void *block = NULL;
  errno = 0;
  if (strcmp(function, "malloc") == 0) {
    block = malloc(size);
  } else if (strcmp(function, "calloc") == 0) {
    block = calloc(size / 8, 8);
  } else if (strcmp(function, "realloc") == 0) {
    block = realloc(NULL, size);
  } else if (strcmp(function, "memalign") == 0) {
    block = memalign(4096, size);
  } else if (strcmp(function, "posix_memalign") == 0) {
    errno = posix_memalign(&block, 4096, size);
    if (errno != 0) block = NULL;
  } else {
    _exit(exit_usage);
  }
  CHECK(block != NULL || errno == ENOMEM);
  return block;
}

static unsigned char *last_byte(block_t *block) { return (unsigned char *)block + size - 1; }

static block_t *fill(size_t *count) {
  block_t *first = NULL;
  for (*count = 0;; ++*count) {
    CHECK(*count * size < 8192 * MIB); /* no limit in force? */
    block_t *block = take();
    if (block == NULL) return first;
    if (is_full) paint(block, size, (unsigned)*count);
    *last_byte(block) = (unsigned char)*count;
    block->next = first;
    block->number = *count;
    first = block;
  }
}

static void empty(block_t *first, size_t count) {
  const size_t head = sizeof(block_t);
  while (first != NULL) {
    block_t *next = first->next;
    CHECK(first->number == --count && *last_byte(first) == (unsigned char)count);
    if (is_full) CHECK(is_painted((char *)first + head, size - head - 1, (unsigned)count));
    errno = 12345;
    free(first);
    CHECK(errno == 12345);
    first = next;
  }
  CHECK(count == 0);
}

/* What the limits leave for the heap now. */
static size_t room(void) {
  struct rlimit space, data;
  CHECK(getrlimit(RLIMIT_AS, &space) == 0 && getrlimit(RLIMIT_DATA, &data) == 0);
  size_t least = SIZE_MAX;
  if (space.rlim_cur != RLIM_INFINITY) least = space.rlim_cur - (size_t)status_kib("VmSize") * KIB;
  if (data.rlim_cur != RLIM_INFINITY) {
    const size_t left = data.rlim_cur - (size_t)status_kib("VmData") * KIB;
    if (left < least) least = left;
  }
  return least;
}

int main(int argc, char **argv) {
  if (argc < 3) return exit_usage;
  function = argv[1];
  size = strtoul(argv[2], NULL, 10);
  is_full = argc > 3;
  CHECK(size > sizeof(block_t));
  const size_t room_at_start = room();

  size_t count, again;
  block_t *blocks = fill(&count);
  empty(blocks, count);
  blocks = fill(&again);
  empty(blocks, again);
  CHECK(again >= count - count / 8);

  void *quarter = malloc(count * size / 4);
  CHECK(quarter != NULL);
  memset(quarter, 1, count * size / 4);
  free(quarter);
  printf("room %zu got %zu\n", room_at_start, count * size);
  return 0;
}
