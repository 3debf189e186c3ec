/* tests/misuse/double_free_after_trim.c - All blocks of the size are freed and their memory goes back to the system;
 * then one is freed again. */
#include "scenario.h"

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  enum { count = 200 };
  void *blocks[count];
  for (int i = 0; i < count; i++) blocks[i] = malloc(size);
  void *block = blocks[count / 2];
  say_bad(block);
  say_block(block);
  for (int i = 0; i < count; i++) free(blocks[i]);
  malloc_trim(0);
  free(forget(block));
  return aftermath(size);
}
