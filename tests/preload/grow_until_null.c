/* Grows one block by realloc, STEP bytes at a time, until it is refused: grow_until_null STEP LIMIT
 *
 * The refusal must be NULL with ENOMEM and leave the block as it was. At least a third of LIMIT bytes must be reached:
 * a block that moves may need the old and the new one for a moment. Prints `ok`.
 */
#include "check.h"

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  const size_t step = strtoul(argv[1], NULL, 10), limit = strtoul(argv[2], NULL, 10);
  size_t size = step;
  unsigned char *block = malloc(size);
  CHECK(block != NULL);
  paint(block, size, 1);
  for (;;) {
    errno = 0;
    unsigned char *grown = realloc(block, size + step);
    if (grown == NULL) break;
    block = grown;
    CHECK(is_painted(block + size - step, step, 1));
    paint(block + size, step, 1);
    size += step;
    CHECK(size <= limit);
  }
  CHECK(errno == ENOMEM);
  CHECK(size >= limit / 3);
  CHECK(is_painted(block, size, 1));
  block = realloc(block, size / 8);
  CHECK(block != NULL && is_painted(block, size / 8, 1));
  void *other = malloc(size / 4);
  CHECK(other != NULL);
  free(other);
  free(block);
  puts("ok");
  return 0;
}
