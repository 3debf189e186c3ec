/* A library to load and unload: everything that runs at those moments allocates. See dlopen_loop.c. */
#include <stdlib.h>
#include <string.h>

static char *kept;
static __thread char local[512]; /* dynamic: ld.so allocates it at first use */

__attribute__((constructor)) static void loaded(void) { kept = calloc(300, 10); }
__attribute__((destructor)) static void unloaded(void) {
  free(kept);
  free(malloc(2000));
}

char *plugin_make(size_t size) {
  memset(local, 1, sizeof local);
  char *block = malloc(size);
  if (block) memset(block, (5 * 37 + 11) & 0xff, size); /* check.h's paint(block, size, 5) */
  return block;
}
