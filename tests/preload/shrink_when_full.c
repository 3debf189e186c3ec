/* Where there is no memory left, a block still becomes smaller: it can stay where it is. */
#include <sys/resource.h>

#include "check.h"

static int shrink(char *block, size_t size, char byte) {
  errno = 0;
  char *same = realloc(block, size);
  if (same == NULL) return 0;
  for (size_t i = 0; i < size; i++) {
    if (same[i] != byte) return 0;
  }
  return 1;
}

int main(void) {
  char *big = malloc(3 << 20), *run = malloc(600000), *mid = malloc(30000);
  memset(big, 1, 3 << 20);
  memset(run, 2, 600000);
  memset(mid, 3, 30000);
  struct rlimit limit = {60 << 20, 60 << 20};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return exit_skipped;
  for (size_t size = 8 << 20; size >= 16; size /= 2) {
    while (malloc(size) != NULL) continue;
  }
  if (!shrink(mid, 5000, 3) || !shrink(run, 20000, 2) || !shrink(big, 500000, 1)) return exit_failed;
  static const char done[] = "ok\n";
  return write(1, done, sizeof done - 1) < 0;
}
