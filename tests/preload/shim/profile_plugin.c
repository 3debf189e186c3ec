/* A library that is loaded and closed again: it asks for memory that stays. */
#include <stdlib.h>

__attribute__((noinline)) void *plugin_site(size_t bytes) {
  void *volatile block = malloc(bytes);
  return block;
}

void plugin_work(void) {
  for (int i = 0; i < 2000; ++i) plugin_site(1000);
}
