/* Prints whether the kernel runs this program with raised rights (setuid): `secure 0` or `secure 1`. */
#include "check.h"

#include <sys/auxv.h>

int main(void) {
  free(malloc(1000));
  printf("secure %lu\n", getauxval(AT_SECURE));
  return 0;
}
