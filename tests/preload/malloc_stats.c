/* malloc_stats writes to stderr, and to nothing else. */
#include "check.h"

#include <malloc.h>

int main(void) {
  void *block = malloc(1000);
  malloc_stats();
  free(block);
  puts("ok");
  return 0;
}
