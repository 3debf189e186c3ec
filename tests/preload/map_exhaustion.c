/* Runs out of mappings (vm.max_map_count), not of memory. Prints `ok`.
 *
 * Then mmap is refused, and so is a munmap that would cut a mapping in two. Requests get a block or NULL with ENOMEM,
 * frees keep errno, and all is well again when mappings are.
 */
#include "check.h"

#include <sys/mman.h>

static const size_t sizes[] = {16, 1000, 5000, 40000, 300000, 3 * MIB, 9 * MIB, 64 * MIB};
enum { size_count = sizeof sizes / sizeof *sizes, most_mappings = 300000 };

static long map_limit(void) {
  char text[32] = "";
  int file = open("/proc/sys/vm/max_map_count", O_RDONLY);
  if (file < 0 || read(file, text, sizeof text - 1) <= 0) return -1;
  close(file);
  return atol(text);
}

/* Cuts one reservation into as many mappings as the kernel allows: neighbours of different rights do not merge. */
static void exhaust(char *reserve, size_t pages, size_t page) {
  for (size_t i = 0; i < pages; i += 2) {
    if (mprotect(reserve + i * page, page, PROT_READ) != 0) return;
  }
  CHECK(!"the limit was not reached");
}

static void *blocks[size_count], *early[size_count];

int main(void) {
  const long limit = map_limit();
  if (limit < 0 || limit > most_mappings) {
    printf("vm.max_map_count is %ld: too many to use up\n", limit);
    return exit_skipped;
  }
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size_t)limit + 1000;
  char *reserve = mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(reserve != MAP_FAILED);
  for (int i = 0; i < size_count; ++i) {
    early[i] = malloc(sizes[i]);
    CHECK(early[i] != NULL);
    paint(early[i], sizes[i], (unsigned)i);
  }

  exhaust(reserve, pages, page);
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < size_count; ++i) {
      errno = 0;
      blocks[i] = malloc(sizes[i]);
      CHECK(blocks[i] != NULL || errno == ENOMEM);
      if (blocks[i] != NULL) paint(blocks[i], sizes[i], 7);
      void *grown = realloc(early[i], sizes[i] + 5 * MIB);
      if (grown != NULL) early[i] = grown;
      CHECK(is_painted(early[i], sizes[i], (unsigned)i));
    }
    for (int i = 0; i < size_count; ++i) {
      CHECK(blocks[i] == NULL || is_painted(blocks[i], sizes[i], 7));
      errno = 12345;
      free(blocks[i]);
      CHECK(errno == 12345);
    }
  }
  for (int i = 0; i < size_count; ++i) {
    errno = 12345;
    free(early[i]);
    CHECK(errno == 12345);
  }

  CHECK(munmap(reserve, pages * page) == 0);
  for (int i = 0; i < size_count; ++i) {
    blocks[i] = malloc(sizes[i]);
    CHECK(blocks[i] != NULL);
    paint(blocks[i], sizes[i], 9);
  }
  for (int i = 0; i < size_count; ++i) CHECK(is_painted(blocks[i], sizes[i], 9));
  for (int i = 0; i < size_count; ++i) free(blocks[i]);
  puts("ok");
  return 0;
}
