/* As profile_plugin.c, with frames of a chosen size. Sizes of up to 120 bytes differ in nothing but some bytes of code
 * and of unwind tables: each address is the same function's. */
#include <stdlib.h>

#ifndef FRAME_BYTES
#define FRAME_BYTES 40
#endif

__attribute__((noinline)) void *plugin_site(size_t bytes) {
  volatile char frame[FRAME_BYTES];
  frame[0] = 0;
  void *volatile block = malloc(bytes);
  return (char *)block + frame[0];
}

void plugin_work(void) {
  for (int i = 0; i < 2000; ++i) plugin_site(1000);
}
