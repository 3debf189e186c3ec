/* Allocates before main and after it: in constructors, atexit handlers, destructors and a stream that only exit
 * flushes. Prints one word a station. */
#include "check.h"

static char *from_constructor, *from_main;

static void say(const char *word) { CHECK(write(1, word, strlen(word)) == (ssize_t)strlen(word)); }

static void use_every_band(void) {
  static const size_t sizes[] = {1, 500, 5000, 30000, 300000, 3000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    char *block = calloc(1, sizes[i]);
    CHECK(block != NULL && block[sizes[i] - 1] == 0);
    paint(block, sizes[i], 1);
    block = realloc(block, sizes[i] * 2);
    CHECK(block != NULL && is_painted(block, sizes[i], 1));
    free(block);
  }
}

__attribute__((constructor(101))) static void first_constructor(void) {
  use_every_band();
  from_constructor = malloc(100);
  paint(from_constructor, 100, 2);
  say("constructor\n");
}

__attribute__((destructor(101))) static void last_destructor(void) {
  use_every_band();
  CHECK(is_painted(from_main, 100, 3));
  free(from_main);
  say("destructor\n");
}

static void at_exit(void) {
  use_every_band();
  free(strdup("a block of the C library"));
  say("atexit\n");
}

int main(void) {
  CHECK(is_painted(from_constructor, 100, 2));
  free(from_constructor);
  from_main = malloc(100);
  paint(from_main, 100, 3);
  CHECK(atexit(at_exit) == 0);
  use_every_band();
  say("main\n");
  return 0;
}
