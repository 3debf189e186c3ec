/* tests/misuse/free_wrong_alignment.c - free_aligned_sized(p, A, n) with an A that no alignment is. argv[1] is A. */
#include "scenario.h"

#include <dlfcn.h>

int main(int argc, char **argv) {
  size_t alignment = block_size(argc, argv), size = 100;
  void (*free_told)(void *, size_t, size_t) =
      (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
  if (free_told == NULL) return 96;
  free_told(forget(aligned_alloc(64, size)), 64, size); /* right */
  free_told(NULL, alignment, size);
  void *block = block_among_kept(size);
  free_told(forget(block), alignment, size);
  return aftermath(size);
}
