/* tests/misuse/free_wrong_size.c - free_sized(p, n / 3) of a block of n bytes. argv[1] is n. A hardened block of 2^k -
 * 8 bytes has the alignment 2^k, as one that was requested with it. */
#include "scenario.h"

#include <dlfcn.h>

int main(int argc, char **argv) {
  size_t size = block_size(argc, argv);
  void (*free_told)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
  if (free_told == NULL) return 96;
  free_told(forget(malloc(size)), size); /* right */
  free_told(NULL, size / 3);
  void *block = block_among_kept(size);
  free_told(forget(block), size / 3);
  return aftermath(size);
}
