/* Loads the allocator itself into a program that runs on another malloc: dlopen_allocator LIBRARY
 *
 * Only its own names are used. Both allocators must work side by side, in threads too. Prints `ok`.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

static void *(*allocate)(size_t);
static void (*release)(void *);

static void *work(void *unused) {
  for (int i = 0; i < 20000; ++i) {
    const size_t size = 1 + (size_t)i * 7919 % 40000;
    char *theirs = allocate(size), *ours = malloc(size);
    CHECK(theirs != NULL && ours != NULL);
    paint(theirs, size < 100 ? size : 100, 1);
    release(theirs);
    free(ours);
  }
  return unused;
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) dprintf(2, "%s\n", dlerror());
  CHECK(library != NULL);
  allocate = (void *(*)(size_t))dlsym(library, "hakmem_malloc");
  release = (void (*)(void *))dlsym(library, "hakmem_free");
  CHECK(allocate != NULL && release != NULL);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
  work(NULL);
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  dlclose(library); /* threads that used it are gone; its memory must not go from under us */
  puts("ok");
  return 0;
}
