/* Frees a block twice. */
#include <stdlib.h>

int main(void) {
  void *volatile block = malloc(100);
  free(block);
  free(block);
  return 0;
}
