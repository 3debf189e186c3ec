/* Loads and unloads a library whose constructor, destructor and thread-local variables allocate: dlopen_loop LIBRARY
 * ROUNDS
 *
 * The blocks it handed out are freed when it is gone. Resident memory must not grow with the rounds. Prints `ok`.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

enum { growth_limit_kib = 2048 };

static const char *path;

static void *load_once(void *unused) {
  void *library = dlopen(path, RTLD_NOW);
  CHECK(library != NULL);
  char *(*make)(size_t) = (char *(*)(size_t))dlsym(library, "plugin_make");
  CHECK(make != NULL);
  char *small = make(100), *large = make(100000);
  CHECK(is_painted(small, 100, 5) && is_painted(large, 100000, 5));
  CHECK(dlclose(library) == 0);
  free(small);
  free(large);
  return unused;
}

static void load_in_thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, load_once, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  path = argv[1];
  const int rounds = atoi(argv[2]);
  long quarter = 0;
  for (int round = 0; round < rounds; ++round) {
    load_once(NULL);
    if (round % 8 == 0) load_in_thread();
    if (round == rounds / 4) quarter = status_kib("VmRSS");
  }
  CHECK(status_kib("VmRSS") - quarter <= growth_limit_kib);
  puts("ok");
  return 0;
}
