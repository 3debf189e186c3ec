/* A program that may not read the processor's time-stamp counter: an instruction that does raises SIGSEGV.
 *
 * The C library's clocks end such a program, so it must not use them; it may allocate and have reports. Exit code 77
 * where the machine cannot forbid it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { rounds = 100, blocks = 500, most_bytes = 300000 };

int main(void) {
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) {
    puts("the system cannot forbid it");
    return 77;
  }
  static void *block[blocks];
  for (size_t round = 0; round < rounds; round++) {
    for (size_t i = 0; i < blocks; i++) {
      size_t bytes = (round * blocks + i) * 7919 % most_bytes + 1;
      block[i] = malloc(bytes);
      if (block[i] == NULL) return 1;
      memset(block[i], 1, bytes);
    }
    for (size_t i = 0; i < blocks; i++) free(block[i]);
  }
  return 0;
}
