/* tests/misuse/free_foreign_mmap.c - free of memory that the program mapped itself. */
#include "scenario.h"

#include <sys/mman.h>

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return 96;
  say_bad(mapped);
  free(forget(mapped));
  return aftermath(size);
}
