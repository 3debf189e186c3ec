/* Keeps memory and waits. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
  for (int i = 0; i < 1000; i++) {
    if (malloc(1000) == NULL) return 1;
  }
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}
