/* A C program whose malloc is hakmem's by linking alone. Prints the version; fails where malloc is another. */
#include <hakmem/hakmem.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  void *block = calloc(1, 100);
  bool ours = hakmem_check_owned(block);
  free(block);
  printf("%s\n", hakmem_version());
  return ours ? EXIT_SUCCESS : EXIT_FAILURE;
}
